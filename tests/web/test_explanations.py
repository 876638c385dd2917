"""Values of whole games and single simulations through the HTTP interface."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.agents.analysis import analyse
from zerolab.agents.specs import parse_agent
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.folders import Folders
from zerolab.web.live_search import AgentCache
from zerolab.web.searches import SimulationRequest, SimulationTrace, SimulationWork

WON = ["0", "3", "1", "3", "2"]  # X completes a line


def test_values_of_whole_game_are_those_of_its_positions(client: TestClient) -> None:
    """The expected values are the network's for each position alone, and the result."""
    request = {"position": {"game": GAME, "moves": WON}, "agent": RUN}
    values = client.post("/api/v1/values", json=request).json()["values"]
    policy = parse_agent(f"{RUN}?simulations=0", parse_game(GAME))
    position, expected = Position.start(GAME), []
    for move in WON:
        value = analyse(policy, position).value
        assert value is not None
        expected.append(value if position.first_to_move else -value)
        position = position.play(move)
    assert values == pytest.approx([*expected, 1.0], abs=1e-3)  # X has won


def test_agent_without_network_searches_every_position(client: TestClient) -> None:
    request = {"position": {"game": GAME, "moves": WON}, "agent": "mcts:1"}
    values = client.post("/api/v1/values", json=request).json()["values"]
    assert len(values) == len(WON) + 1
    assert values[4] == values[5] == 1.0 or values[4] > 0.5  # X wins with the next move
    assert all(-1 <= value <= 1 for value in values)


@pytest.mark.parametrize("number", [0, 1, 25, 60])
def test_simulations_lead_to_visits_of_compiled_search(client: TestClient, number: int) -> None:
    position = {"game": GAME, "moves": ["0"]}
    step = {"position": position, "agent": RUN, "number": number}
    response = client.post("/api/v1/simulation", json=step)
    assert response.status_code == 200, response.text
    trace = response.json()
    assert trace["number"] == number
    assert sum(trace["root_visits"].values()) == number
    if number == 0:
        assert trace["selections"] == [] and trace["leaf"]["path"] == []
        return
    agent = f"{RUN}?proven_values=false"
    request = {"position": position, "agent": agent, "simulations": number}
    analysis = client.post("/api/v1/analysis", json=request).json()
    assert trace["root_visits"] == {each["name"]: each["visits"] for each in analysis["moves"]}
    assert trace["backups"][0]["mean_after"] == pytest.approx(analysis["value"], abs=1e-6)
    assert [each["path"] for each in trace["backups"]][-1] == trace["leaf"]["path"]


def test_next_simulation_continues_the_search_of_the_last_one(here: Path) -> None:
    def traces(number: int) -> list[SimulationTrace | None]:
        position = Position.start(GAME).play("1")
        work = SimulationWork(SimulationRequest(RUN, position, Folders(), number))
        return list(work.steps(AgentCache(), lambda size: None))

    assert len(traces(20)) == 21
    continued = traces(23)
    assert len(continued) == 3  # numbers 21, 22 and 23
    repeated = traces(23)
    assert len(repeated) == 24
    assert repeated[-1] == continued[-1]


@pytest.mark.parametrize(
    ("route", "change", "reason"),
    [
        ("values", {"agent": "random"}, "does not estimate outcomes"),
        ("values", {"agent": "runs/none"}, "neither a run nor one of"),
        ("simulation", {"agent": "mcts:10", "number": 1}, "expected a run"),
        ("simulation", {"agent": "random", "number": 1}, "expected a run"),
        ("simulation", {"agent": RUN, "number": 201}, "number"),
        (
            "simulation",
            {"agent": RUN, "number": 1, "position": {"game": GAME, "moves": WON}},
            "over",
        ),
    ],
)
def test_impossible_requests_are_explained(
    client: TestClient, route: str, change: dict[str, object], reason: str
) -> None:
    request = {"position": {"game": GAME, "moves": ["0"]}, **change}
    response = client.post(f"/api/v1/{route}", json=request)
    assert response.status_code in (400, 422)
    assert reason in response.json()["error"]
