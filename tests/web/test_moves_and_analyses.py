"""Agents' moves, live analyses, search trees and exact values through the HTTP interface."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession
from tiny_laboratory import GAME, RUN

from zerolab.agents.analysis import analyse
from zerolab.agents.specs import parse_agent
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.laboratory import Laboratory

WON = {"game": GAME, "moves": ["0", "3", "1", "3"]}  # X wins with 2


def test_agent_plays_the_same_move_as_in_python(client: TestClient) -> None:
    for agent in (f"{RUN}?simulations=40", "mcts:60", "random", "rhea:100", f"{RUN}?simulations=0"):
        request = {"position": {"game": GAME, "moves": ["1"]}, "agent": agent, "seed": 5}
        response = client.post("/api/v1/move", json=request)
        assert response.status_code == 200, response.text
        expected = analyse(parse_agent(agent, parse_game(GAME)), Position.start(GAME).play("1"), 5)
        assert response.json()["move"] == expected.chosen_move.name
        assert response.json()["position"]["moves"] == ["1", expected.chosen_move.name]


def test_search_finds_winning_move(client: TestClient) -> None:
    for agent in ("mcts:200", "perfect", f"{RUN}?simulations=200"):
        response = client.post("/api/v1/move", json={"position": WON, "agent": agent}).json()
        assert response["move"] == "2"
        assert response["position"]["result"] == "first"


def test_requested_simulations_and_seconds_are_used(client: TestClient) -> None:
    request = {"position": {"game": GAME}}
    limited = {**request, "agent": RUN, "simulations": 37}
    by_simulations = client.post("/api/v1/move", json=limited).json()
    assert by_simulations["analysis"]["simulations"] == 37
    timed = {**request, "agent": "mcts:9", "seconds": 0.2}
    by_seconds = client.post("/api/v1/move", json=timed).json()
    assert by_seconds["analysis"]["simulations"] >= 1


@pytest.mark.parametrize(
    ("position", "agent", "reason"),
    [
        ({**WON, "moves": [*WON["moves"], "2"]}, "random", "the game is over"),
        ({"game": "othello:6x6"}, RUN, "plays connect_four:4x4:3"),
        ({"game": GAME}, "mtcs:100", 'did you mean "mcts"'),
        ({"game": GAME}, "mcts:100?selection.c=-2", "selection.c = -2"),
        ({"game": GAME}, "runs/none", "neither a run nor one of"),
        ({"game": GAME}, "rhea:1000000", "expected at most 20,000"),
        ({"game": GAME}, "mcts:9?leaf_evaluator.playouts=9999", "expected at most 1,000"),
        ({"game": GAME}, "rhea:1000000 #2", "expected at most 20,000"),
        ({"game": GAME}, "mcts:9?leaf_evaluator.playouts=1_000_000", "expected at most 1,000"),
        ({"game": GAME}, f"{RUN}?cache=67108864", "expected at most 1,048,576"),
        ({"game": GAME}, "mcts:9?leaves_per_step=257", "expected at most 256"),
        (
            {"game": GAME},
            "mcts:9?leaves_per_step=200&leaf_evaluator.playouts=1000",
            "leaves_per_step = 200: expected at most 20",
        ),
        ({"game": GAME}, "mcts:1000000", "expected at most 100,000"),
        ({"game": "gobang:99x99"}, "mcts:9", "rows = 99: expected at most 8; "),
    ],
)
def test_impossible_moves_get_one_line(
    client: TestClient, position: dict[str, object], agent: str, reason: str
) -> None:
    response = client.post("/api/v1/move", json={"position": position, "agent": agent})
    assert response.status_code == 400
    assert reason in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_set_up_positions_can_be_searched(client: TestClient) -> None:
    rows = ["....", "....", "...O", "XX.O"]
    position = {"game": GAME, "starting_board": {"board": rows, "first_to_move": True}}
    for agent in ("mcts:200", "perfect", f"{RUN}?simulations=200"):
        response = client.post("/api/v1/analysis", json={"position": position, "agent": agent})
        assert response.json()["chosen_move"] == "2", response.text


def test_solution_has_best_move_and_scores(client: TestClient) -> None:
    solution = client.post("/api/v1/solution", json={"position": WON, "seconds": 20}).json()
    assert solution["best_moves"] == ["2"]
    assert solution["scores"]["2"] > 0
    assert solution["unsolved_reason"] == ""


def test_unsolved_position_is_reported(client: TestClient) -> None:
    hard = {"position": {"game": "gobang:8x8:5"}, "seconds": 0.2}
    solution = client.post("/api/v1/solution", json=hard).json()
    assert solution["scores"] is None
    assert solution["unsolved_reason"].startswith("not solved within")


def _until_done(socket: WebSocketTestSession, number: int) -> list[dict[str, object]]:
    messages = []
    while True:
        message = socket.receive_json()
        if message["id"] == number:
            messages.append(message)
            if message.get("done"):
                return messages


def test_live_analysis_and_tree_have_all_simulations(client: TestClient) -> None:
    with client.websocket_connect("/api/v1/analysis/live", headers={"host": "localhost"}) as socket:
        agents = [f"{RUN}?simulations=9", "mcts:9"]
        socket.send_json(
            {"id": 1, "do": "analyse", "position": {"game": GAME}, "agents": agents,
             "simulations": 300}
        )  # fmt: skip
        messages = _until_done(socket, 1)
        for agent in agents:
            counts = [
                each["analysis"]["simulations"] for each in messages if each.get("agent") == agent
            ]
            assert counts[-1] == 300
            assert counts == sorted(counts)
        socket.send_json({"id": 2, "do": "node", "agent": agents[0], "path": []})
        (root,) = _until_done(socket, 2)
        children = root["node"]["children"]
        assert sum(child["visits"] for child in children) == 300
        assert sum(child["prior"] for child in children) == pytest.approx(1, abs=1e-4)
        best = children[0]["name"]
        socket.send_json({"id": 3, "do": "node", "agent": agents[0], "path": [best]})
        (node,) = _until_done(socket, 3)
        assert node["node"]["visits"] == children[0]["visits"]
        assert node["node"]["value"] == pytest.approx(-children[0]["value"], abs=1e-4)
        assert node["node"]["first_to_move"] is False


def test_moves_without_visits_have_no_finite_bonus(client: TestClient) -> None:
    """UCT visits all other moves first, so the bonus of the last ones is infinite."""
    with client.websocket_connect("/api/v1/analysis/live", headers={"host": "localhost"}) as socket:
        position = {"game": "gobang:8x8:5"}
        socket.send_json(
            {
                "id": 1,
                "do": "analyse",
                "position": position,
                "agents": ["mcts:5"],
                "simulations": 40,
            }
        )
        _until_done(socket, 1)
        socket.send_json({"id": 2, "do": "node", "agent": "mcts:5", "path": []})
        (root,) = _until_done(socket, 2)
    children = root["node"]["children"]
    assert len(children) == 64
    for child in children:
        assert (child["bonus"] is None) == (child["visits"] == 0)


def test_replaced_searches_are_stopped(client: TestClient) -> None:
    lab: Laboratory = client.app.state.laboratory  # type: ignore[attr-defined]
    request = {"do": "analyse", "position": {"game": GAME}, "simulations": 100_000}
    with client.websocket_connect("/api/v1/analysis/live", headers={"host": "localhost"}) as socket:
        for number in range(20):
            socket.send_json({"id": number, "agents": ["mcts:5", "mcts:5", "mcts:9"], **request})
        while socket.receive_json()["id"] < 19:
            pass
        assert lab.search_pool.active_count <= 2
    assert client.get("/api/v1/server").status_code == 200
    for _ in range(100):
        if lab.search_pool.active_count == 0:
            break
        client.get("/api/v1/server")
    assert lab.search_pool.active_count == 0


def test_invalid_messages_leave_websocket_open(client: TestClient) -> None:
    with client.websocket_connect("/api/v1/analysis/live", headers={"host": "localhost"}) as socket:
        for text in ("", "{", "[]", "7", '"do"', '{"do":"x"}', "[" * 5000, "nul", '{"id":-1}'):
            socket.send_text(text)
            assert socket.receive_json()["error"]
        request = {"id": 4, "do": "analyse", "position": {"game": GAME, "moves": ["9"]}}
        socket.send_json({**request, "agents": ["random"]})
        assert socket.receive_json()["id"] == 4
        socket.send_json({"id": 5, "do": "node", "agent": "random", "path": []})
        assert "is not searching" in socket.receive_json()["error"]
        socket.send_json({"id": 6, "do": "stop"})
        assert socket.receive_json() == {"id": 6, "done": True}


def test_random_frames_do_not_stop_server(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerolab.web.requests._BURST", 10_000)
    for connection in range(5):
        with client.websocket_connect(
            "/api/v1/analysis/live", headers={"host": "localhost"}
        ) as socket:
            for number in range(99):
                size = (number * 7) % 50
                frame = bytes(
                    (number * 37 + index * 11 + connection) % 256 for index in range(size)
                )
                socket.send_text(frame.decode("latin-1"))
                assert "error" in socket.receive_json()
            socket.send_bytes(b"not text")
    assert client.get("/api/v1/server").status_code == 200
