"""Agents' files that pages bring and take away, and ratings for lessons."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.agents.kinds.file import run_as_shared
from zerolab.cli.main import main
from zerolab.store.arrays import encode_agent
from zerolab.store.run_folder import RunFolder


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


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("leaf_evaluator", {"name": "playout", "playouts": 1_000_000}, "expected at most 1,000 on"),
        ("leaf_evaluator", {"name": "mixed", "playouts": 1001}, "expected at most 1,000 on"),
        ("leaves_per_step", 4096, "expected at most 256 on"),
        ("simulations", 1_000_000, "expected at most 100,000 on"),
    ],
)
def test_what_a_file_says_of_its_search_is_held_to_the_bounds_of_pages(
    client: TestClient, setting: str, value: object, reason: str
) -> None:
    shared = run_as_shared(RunFolder.open(Path(RUN)), 2)
    search = {**shared.header.search, setting: value}
    content = encode_agent(shared.header.model_copy(update={"search": search}), shared.weights)
    spec = client.post("/api/v1/agents", content=content).json()["spec"]
    asked = {"position": {"game": GAME}, "agent": spec}
    for path in ("move", "analysis"):
        answer = client.post(f"/api/v1/{path}", json=asked)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
        assert "\n" not in answer.json()["error"]
    assert client.post("/api/v1/agent", json={"agent": spec, "game": GAME}).status_code == 400
    if isinstance(value, int):  # a spec may say otherwise, for which it is then held to account
        modest = {**asked, "agent": f"{spec}?{setting}=9"}
        assert client.post("/api/v1/move", json=modest).status_code == 200


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
