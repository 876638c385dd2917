"""Filtering, exporting and judging of stored games through the server."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from tiny_laboratory import new_client

from zerolab.cli.main import main
from zerolab.oracles.solver import oracle_for
from zerolab.play.game_files import read_pgn_results
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.web.routes.judging import exact_verdict

GAME = "gobang:3x3:3"
PLAYED = "/api/v1/played"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, no_figures):
    folder = tmp_path_factory.mktemp("games")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train = ["train", "--preset", "smoke", "--run", "runs/demo"]
        openings = ["--set", "gate.openings=2", "--set", "selfplay.random_opening_plies=3"]
        assert main([*train, *openings, "--set", "final_evaluation.games=0"]) == 0
        players = ["random", "mcts:5", "perfect", "--game", GAME, "--games", "4"]
        assert main(["tournament", *players, "--folder", "tournaments/first"]) == 0
        yield folder


@pytest.fixture(scope="module")
def client(folder, search_threads):
    with new_client() as client:
        yield client


def test_facets_list_stages_and_players(client, folder):
    facets = client.get(f"{PLAYED}/facets", params={"source": "runs/demo"}).json()
    store = RunFolder.open(folder / "runs/demo").games
    assert facets["game_count"] == store.game_count()
    assert {each["stage"] for each in facets["stages"]} == {stage for _, stage in store.stages()}
    assert "runs/demo@0" in facets["players"]
    facets = client.get(f"{PLAYED}/facets", params={"source": "tournaments/first"}).json()
    assert (facets["kind"], facets["game"], facets["game_count"]) == ("tournament", GAME, 12)
    assert facets["players"] == ["mcts:5", "perfect", "random"]


def test_latest_games_come_first_on_request(client):
    query = {"source": "runs/demo", "limit": 5}
    total = client.get(PLAYED, params=query).json()["total"]
    orders = {}
    for latest_first in (False, True):
        pages = [
            client.get(PLAYED, params={**query, "offset": offset, "latest_first": latest_first})
            for offset in range(0, total, 5)
        ]
        games = [game for page in pages for game in page.json()["games"]]
        orders[latest_first] = [
            (each["iteration"], each["stage"], each["number"]) for each in games
        ]
    assert orders[True] == orders[False][::-1]
    assert len(set(orders[True])) == total


def test_games_are_filtered_and_paged(client, folder):
    query = {"source": "runs/demo", "stage": "selfplay", "iteration": 2, "limit": 3}
    stored = RunFolder.open(folder / "runs/demo").games.stage_games(2, "selfplay")
    pages = [
        client.get(PLAYED, params={**query, "offset": offset}).json() for offset in (0, 3, 6, 9)
    ]
    assert {page["total"] for page in pages} == {len(stored)}
    games = [game for page in pages for game in page["games"]]
    assert [game["number"] for game in games] == [game.number for game in stored]
    for game, record in zip(games, stored, strict=True):
        position = Position.start(GAME)
        for move in game["moves"]:
            position = position.play(move)
        assert position.history == record.actions
        assert game["result"] == {1: "first", -1: "second", 0: "draw"}[record.result]
        assert game["given_plies"] == record.given_plies
    assert len({game["given_plies"] for game in games}) > 1
    gates = client.get(PLAYED, params={"source": "runs/demo", "stage": "gate"}).json()["games"]
    assert {game["given_plies"] for game in gates} == {2}


def test_games_are_filtered_by_opening_moves(client):
    all_games = client.get(PLAYED, params={"source": "runs/demo", "limit": 200}).json()["games"]
    opening = all_games[0]["moves"][:2]
    query = {"source": "runs/demo", "opening": ",".join(opening), "limit": 200}
    matching = client.get(PLAYED, params=query).json()
    assert matching["total"] == sum(game["moves"][:2] == opening for game in all_games) > 0
    invalid = client.get(PLAYED, params={"source": "runs/demo", "opening": "a1,a1"})
    assert invalid.status_code == 400


def test_games_are_filtered_by_both_players(client):
    query = {"source": "tournaments/first", "player": "random", "opponent": "perfect"}
    meetings = client.get(PLAYED, params=query).json()
    assert meetings["total"] == 4
    assert {frozenset((g["first"], g["second"])) for g in meetings["games"]} == {
        frozenset(("random", "perfect"))
    }
    lost = client.get(PLAYED, params={**query, "player": "perfect", "opponent": "random",
                                      "result": "lost"}).json()  # fmt: skip
    assert lost["total"] == 0


def test_single_game_is_found_by_stage_and_number(client):
    first = client.get(PLAYED, params={"source": "runs/demo"}).json()["games"][0]
    identity = {key: first[key] for key in ("iteration", "stage", "number")}
    identity["source"] = first["folder"]
    assert client.get(f"{PLAYED}/one", params=identity).json() == first
    unknown = client.get(f"{PLAYED}/one", params={**identity, "number": 10**9})
    assert unknown.status_code == 404


def test_exports_have_filtered_games(client):
    query = {"source": "tournaments/first", "player": "mcts:5"}
    response = client.get(f"{PLAYED}/export", params={**query, "format": "pgn"})
    assert "attachment" in response.headers["content-disposition"]
    results = read_pgn_results(response.content, "export").results
    games = client.get(PLAYED, params=query).json()["games"]
    sign = {"first": 1, "second": -1, "draw": 0}
    assert [tuple(each)[:3] for each in results] == [
        (game["first"], game["second"], sign[game["result"]]) for game in games
    ]
    text = client.get(f"{PLAYED}/export", params={**query, "format": "text"}).text
    assert len(text.splitlines()) == 1 + len(games)


@pytest.mark.parametrize(
    ("source", "status"),
    [("..", 403), ("/etc", 403), ("runs", 404), ("runs/none", 404), ("runs/../../x", 403),
     ("runs/\0", 400), ("", 422), ("x" * 500, 422)],
)  # fmt: skip
def test_sources_outside_served_folders_are_refused(client, source, status):
    response = client.get(PLAYED, params={"source": source})
    assert response.status_code == status
    assert len(response.json()["error"].splitlines()) == 1


def judge(client, **request):
    with client.websocket_connect("ws://localhost/api/v1/judge") as socket:
        socket.send_json({"id": 4, "do": "judge", **request})
        messages = []
        while not messages or not messages[-1]["done"]:
            messages.append(socket.receive_json())
    return messages


def test_given_plies_are_not_judged(client):
    moves = ["b2", "b1", "a1", "c3", "a3", "a2", "c1"]  # b1 loses, but nobody chose it
    messages = judge(client, position={"game": GAME, "moves": moves}, given_plies=2,
                     agent="mcts:10", simulations=10)  # fmt: skip
    judged = [each["judged"] for each in messages if "judged" in each]
    for judge_name in ("exact", "agent"):
        plies = {each["ply"] for each in judged if each["verdict_source"] == judge_name}
        assert plies == {2, 3, 4, 5, 6}


def test_solver_judges_every_move_of_tic_tac_toe(client):
    moves = ["b2", "b1", "a1", "c3", "a3", "a2", "c1"]  # b1 loses; a1 and c3 are good replies
    messages = judge(client, position={"game": GAME, "moves": moves})
    verdicts = {each["judged"]["ply"]: each["judged"] for each in messages if "judged" in each}
    assert sorted(verdicts) == list(range(len(moves)))
    oracle, position = oracle_for(parse_game(GAME)), Position.start(GAME)
    for ply, move in enumerate(moves):
        values = oracle.action_values(position.state[None])[0]
        legal = {
            position.action_name(action): int(values[action]) for action in position.legal_actions
        }
        verdict = verdicts[ply]
        assert (verdict["move"], verdict["value_before"], verdict["played_value"]) == (
            move, max(legal.values()), legal[move],
        )  # fmt: skip
        assert verdict["verdict"] == exact_verdict(max(legal.values()), legal[move])
        position = position.play(move)
    assert verdicts[1]["verdict"] == "mistake"
    assert verdicts[0]["verdict"] == "good"


def test_agent_judges_with_its_own_values(client):
    moves = ["b2", "b1", "a1", "c3", "a3", "a2", "c1"]
    position = {"game": GAME, "moves": moves}
    messages = judge(client, position=position, use_solver=False, agent="mcts:400")
    by_ply = {each["judged"]["ply"]: each["judged"] for each in messages if "judged" in each}
    assert sorted(by_ply) == list(range(len(moves)))
    for ply in range(len(moves) - 1):  # the next mover's value, negated
        assert by_ply[ply]["played_value"] == -by_ply[ply + 1]["value_before"]
    assert all(-1 <= each["value_before"] <= 1 for each in by_ply.values())


def test_agent_without_values_leaves_judging_to_solver(client):
    messages = judge(client, position={"game": GAME, "moves": ["b2"]}, agent="random")
    assert any("random" in each.get("error", "") for each in messages)
    assert sum("judged" in each for each in messages) == 1


@pytest.mark.parametrize(
    "message",
    [{}, [], None, {"do": "judge"}, {"id": 1, "do": "judge", "position": {"game": "chess"}},
     {"id": 1, "do": "judge", "position": {"game": GAME, "moves": []}},
     {"id": 1, "do": "judge", "position": {"game": GAME, "moves": ["b2"]}, "agent": "/etc/x"}],
)  # fmt: skip
def test_invalid_judge_requests_get_one_line(client, message):
    with client.websocket_connect("ws://localhost/api/v1/judge") as socket:
        socket.send_json(message)
        response = socket.receive_json()
        while "error" not in response:
            assert not response["done"]
            response = socket.receive_json()
        assert len(response["error"].splitlines()) == 1


@pytest.mark.parametrize(
    ("best", "played", "verdict"),
    [(3, 3, "good"), (3, 1, "slip"), (3, 0, "mistake"), (0, -2, "mistake"), (-1, -5, "slip"),
     (0, 0, "good"), (-4, -4, "good"), (2, -2, "mistake")],
)  # fmt: skip
def test_mistake_changes_the_result(best, played, verdict):
    assert exact_verdict(best, played) == verdict
