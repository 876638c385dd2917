"""Stored games through the server: found, exported, judged."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="pages need the extra web")

from tiny_laboratory import new_page

from zerolab.cli.main import main
from zerolab.oracles.solver import oracle_for
from zerolab.play.game_files import read_pgn
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.web.routes.judging import exact_verdict

GAME = "gobang:3x3:3"
PLAYED = "/api/v1/played"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("games")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train = ["train", "--preset", "smoke", "--run", "runs/demo"]
        assert main([*train, "--set", "final_evaluation.games=0"]) == 0
        players = ["random", "mcts:5", "perfect", "--game", GAME, "--games", "4"]
        assert main(["tournament", *players, "--folder", "tournaments/first"]) == 0
        yield folder


@pytest.fixture(scope="module")
def client(folder, search_threads):
    with new_page() as client:
        yield client


def test_facets_say_what_is_there(client, folder):
    found = client.get(f"{PLAYED}/facets", params={"source": "runs/demo"}).json()
    store = RunFolder.open(folder / "runs/demo").games
    assert found["games"] == store.count()
    assert {each["stage"] for each in found["stages"]} == {stage for _, stage in store.stages()}
    assert "runs/demo@0" in found["players"]
    found = client.get(f"{PLAYED}/facets", params={"source": "tournaments/first"}).json()
    assert (found["kind"], found["game"], found["games"]) == ("tournament", GAME, 12)
    assert found["players"] == ["mcts:5", "perfect", "random"]


def test_games_are_filtered_and_paged(client, folder):
    asked = {"source": "runs/demo", "stage": "selfplay", "iteration": 2, "limit": 3}
    stored = RunFolder.open(folder / "runs/demo").games.games(2, "selfplay")
    pages = [client.get(PLAYED, params={**asked, "offset": at}).json() for at in (0, 3, 6, 9)]
    assert {page["total"] for page in pages} == {len(stored)}
    games = [game for page in pages for game in page["games"]]
    assert [game["number"] for game in games] == [game.number for game in stored]
    for game, record in zip(games, stored, strict=True):
        position = Position.start(GAME)
        for move in game["moves"]:
            position = position.play(move)
        assert position.history == record.actions
        assert game["result"] == {1: "first", -1: "second", 0: "draw"}[record.result]


def test_an_opening_is_given_by_names(client):
    every = client.get(PLAYED, params={"source": "runs/demo", "limit": 200}).json()["games"]
    begun = every[0]["moves"][:2]
    asked = {"source": "runs/demo", "opening": ",".join(begun), "limit": 200}
    found = client.get(PLAYED, params=asked).json()
    assert found["total"] == sum(game["moves"][:2] == begun for game in every) > 0
    wrong = client.get(PLAYED, params={"source": "runs/demo", "opening": "a1,a1"})
    assert wrong.status_code == 400


def test_a_cell_of_a_tournament_leads_to_its_games(client):
    asked = {"source": "tournaments/first", "player": "random", "opponent": "perfect"}
    found = client.get(PLAYED, params=asked).json()
    assert found["total"] == 4
    assert {frozenset((g["first"], g["second"])) for g in found["games"]} == {
        frozenset(("random", "perfect"))
    }
    lost = client.get(PLAYED, params={**asked, "player": "perfect", "opponent": "random",
                                      "result": "lost"}).json()  # fmt: skip
    assert lost["total"] == 0


def test_one_game_by_its_place(client):
    first = client.get(PLAYED, params={"source": "runs/demo"}).json()["games"][0]
    place = {key: first[key] for key in ("source", "iteration", "stage", "number")}
    assert client.get(f"{PLAYED}/one", params=place).json() == first
    missing = client.get(f"{PLAYED}/one", params={**place, "number": 10**9})
    assert missing.status_code == 404


def test_exported_pgn_has_the_games_that_were_asked_for(client):
    asked = {"source": "tournaments/first", "player": "mcts:5"}
    answer = client.get(f"{PLAYED}/export", params={**asked, "format": "pgn"})
    assert "attachment" in answer.headers["content-disposition"]
    results = read_pgn(answer.content, "export").results
    shown = client.get(PLAYED, params=asked).json()["games"]
    sign = {"first": 1, "second": -1, "draw": 0}
    assert [tuple(each)[:3] for each in results] == [
        (game["first"], game["second"], sign[game["result"]]) for game in shown
    ]
    text = client.get(f"{PLAYED}/export", params={**asked, "format": "text"}).text
    assert len(text.splitlines()) == 1 + len(shown)


@pytest.mark.parametrize(
    ("source", "status"),
    [("..", 403), ("/etc", 403), ("runs", 404), ("runs/none", 404), ("runs/../../x", 403),
     ("runs/\0", 400), ("", 422), ("x" * 500, 422)],
)  # fmt: skip
def test_nothing_else_is_read(client, source, status):
    answer = client.get(PLAYED, params={"source": source})
    assert answer.status_code == status
    assert len(answer.json()["error"].splitlines()) == 1


def judged(client, **asked):
    with client.websocket_connect("ws://localhost/api/v1/judge") as socket:
        socket.send_json({"id": 4, "do": "judge", **asked})
        found = []
        while not found or not found[-1]["done"]:
            found.append(socket.receive_json())
    return found


def test_the_solver_finds_the_mistakes_of_tic_tac_toe(client):
    moves = ["b2", "b1", "a1", "c3", "a3", "a2", "c1"]  # b1 loses, then a1 and c3 answer well
    found = judged(client, position={"game": GAME, "moves": moves})
    verdicts = {each["judged"]["ply"]: each["judged"] for each in found if "judged" in each}
    assert sorted(verdicts) == list(range(len(moves)))
    oracle, at = oracle_for(parse_game(GAME)), Position.start(GAME)
    for ply, move in enumerate(moves):
        values = oracle.action_values(at.state[None])[0]
        legal = {at.name(action): int(values[action]) for action in at.legal_actions}
        each = verdicts[ply]
        assert (each["move"], each["value"], each["after"]) == (
            move, max(legal.values()), legal[move],
        )  # fmt: skip
        assert each["verdict"] == exact_verdict(max(legal.values()), legal[move])
        at = at.play(move)
    assert verdicts[1]["verdict"] == "mistake"
    assert verdicts[0]["verdict"] == "good"


def test_an_agent_judges_by_what_it_expects(client):
    moves = ["b2", "b1", "a1", "c3", "a3", "a2", "c1"]
    position = {"game": GAME, "moves": moves}
    found = judged(client, position=position, exactly=False, agent="mcts:400")
    by_ply = {each["judged"]["ply"]: each["judged"] for each in found if "judged" in each}
    assert sorted(by_ply) == list(range(len(moves)))
    for ply in range(len(moves) - 1):  # what the mover has after a move is the other's, turned
        assert by_ply[ply]["after"] == -by_ply[ply + 1]["value"]
    assert all(-1 <= each["value"] <= 1 for each in by_ply.values())


def test_who_expects_nothing_is_no_judge_and_leaves_the_solver_alone(client):
    found = judged(client, position={"game": GAME, "moves": ["b2"]}, agent="random")
    assert any("random" in each.get("error", "") for each in found)
    assert sum("judged" in each for each in found) == 1


@pytest.mark.parametrize(
    "message",
    [{}, [], None, {"do": "judge"}, {"id": 1, "do": "judge", "position": {"game": "chess"}},
     {"id": 1, "do": "judge", "position": {"game": GAME, "moves": []}},
     {"id": 1, "do": "judge", "position": {"game": GAME, "moves": ["b2"]}, "agent": "/etc/x"}],
)  # fmt: skip
def test_what_makes_no_sense_is_answered_in_one_line(client, message):
    with client.websocket_connect("ws://localhost/api/v1/judge") as socket:
        socket.send_json(message)
        answer = socket.receive_json()
        while "error" not in answer:
            assert not answer["done"]
            answer = socket.receive_json()
        assert len(answer["error"].splitlines()) == 1


@pytest.mark.parametrize(
    ("best", "played", "verdict"),
    [(3, 3, "good"), (3, 1, "slip"), (3, 0, "mistake"), (0, -2, "mistake"), (-1, -5, "slip"),
     (0, 0, "good"), (-4, -4, "good"), (2, -2, "mistake")],
)  # fmt: skip
def test_a_mistake_changes_the_result(best, played, verdict):
    assert exact_verdict(best, played) == verdict
