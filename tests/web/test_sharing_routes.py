"""Agents' files that pages bring and take away, and ratings for lessons."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.cli.main import main


@pytest.fixture
def kept(here: Path) -> Iterator[Path]:
    """The folder of agents that pages have brought, emptied afterwards."""
    folder = here / "runs" / "agents"
    yield folder
    for path in folder.glob("*"):
        path.unlink()
    if folder.is_dir():
        folder.rmdir()


def _file(client: TestClient) -> bytes:
    answer = client.get("/api/v1/agents/file", params={"network": f"{RUN}@2"})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="tiny-2.zerolab"'
    return answer.content


@pytest.mark.usefixtures("kept")
def test_an_agent_comes_back_and_plays_the_same(client: TestClient) -> None:
    answer = client.post("/api/v1/agents", content=_file(client))
    assert answer.status_code == 200, answer.text
    spec = answer.json()["spec"]
    assert answer.json()["game"] == GAME
    again = client.post("/api/v1/agents", content=_file(client)).json()
    assert again["spec"] == spec
    listed = client.get("/api/v1/agents", params={"game": GAME}).json()
    assert [each["spec"] for each in listed].count(spec) == 1
    asked = {"position": {"game": GAME, "moves": ["1"]}, "simulations": 40, "seed": 3}
    played = [
        client.post("/api/v1/move", json={**asked, "agent": agent}).json()["analysis"]
        for agent in (spec, f"{RUN}@2")
    ]
    assert played[0]["moves"] == played[1]["moves"]


def test_files_that_are_no_agents_leave_nothing(client: TestClient, kept: Path) -> None:
    content = _file(client)
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 1
    wrong = [b"", b"x" * 100, pickle.dumps({"a": 1}), content[:-1], content + b"x", bytes(flipped)]
    for each in wrong:
        answer = client.post("/api/v1/agents", content=each)
        assert answer.status_code == 400
        assert "\n" not in answer.json()["error"]
    assert not list(kept.glob("*"))


@pytest.mark.parametrize("network", ["/etc", "../x", "runs/none", f"{RUN}@99", "runs/tiny@x", ""])
def test_only_networks_of_served_runs_are_given_away(client: TestClient, network: str) -> None:
    answer = client.get("/api/v1/agents/file", params={"network": network})
    assert answer.status_code in (400, 403)
    assert answer.json()["error"]


def test_lessons_know_the_ratings_of_a_tournament(client: TestClient, here: Path) -> None:
    assert client.get("/api/v1/ratings", params={"game": "hex:3x3"}).json() == []
    command = ["tournament", RUN, "random", "mcts:50", "--games", "4", "--openings", "1"]
    assert main([*command, "--folder", "tournaments/first"]) == 0
    found = client.get("/api/v1/ratings", params={"game": GAME}).json()
    assert {each["spec"] for each in found} >= {"random", "mcts:50"}
    assert [each["elo"] for each in found] == sorted((e["elo"] for e in found), reverse=True)
