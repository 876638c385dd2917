"""Uploads and downloads of agent files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.agents.exporting import checked_agent_of_run
from zerolab.store.arrays import encode_agent
from zerolab.store.run_folder import RunFolder


@pytest.fixture
def uploads(here: Path) -> Iterator[Path]:
    """The folder of uploaded agents, which is removed after the test."""
    folder = here / "runs" / "agents"
    yield folder
    for path in folder.glob("*"):
        path.unlink()
    if folder.is_dir():
        folder.rmdir()


def _file(client: TestClient) -> bytes:
    response = client.get("/api/v1/agents/file", params={"network": f"{RUN}@2"})
    assert response.status_code == 200
    assert response.headers["content-disposition"] == 'attachment; filename="tiny-2.zerolab"'
    return response.content


@pytest.mark.usefixtures("uploads")
def test_uploaded_agent_plays_the_same_as_run(client: TestClient) -> None:
    response = client.post("/api/v1/agents", content=_file(client))
    assert response.status_code == 200, response.text
    spec = response.json()["spec"]
    assert response.json()["game"] == GAME
    again = client.post("/api/v1/agents", content=_file(client)).json()
    assert again["spec"] == spec
    listed = client.get("/api/v1/agents", params={"game": GAME}).json()
    assert [each["spec"] for each in listed].count(spec) == 1
    request = {"position": {"game": GAME, "moves": ["1"]}, "simulations": 40, "seed": 3}
    analyses = [
        client.post("/api/v1/move", json={**request, "agent": agent}).json()["analysis"]
        for agent in (spec, f"{RUN}@2")
    ]
    assert analyses[0]["moves"] == analyses[1]["moves"]


def test_invalid_agent_files_are_refused_and_not_stored(client: TestClient, uploads: Path) -> None:
    content = _file(client)
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 1
    invalid = [b"", b"x" * 100, pickle.dumps({"a": 1})]
    invalid += [content[:-1], content + b"x", bytes(flipped)]
    for each in invalid:
        response = client.post("/api/v1/agents", content=each)
        assert response.status_code == 400
        assert "\n" not in response.json()["error"]
    assert not list(uploads.glob("*"))


@pytest.mark.usefixtures("uploads")
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("leaf_evaluator", {"name": "playout", "playouts": 1_000_000}, "expected at most 1,000 on"),
        ("leaf_evaluator", {"name": "mixed", "playouts": 1001}, "expected at most 1,000 on"),
        ("leaves_per_step", 4096, "expected at most 256 on"),
        ("simulations", 1_000_000, "expected at most 100,000 on"),
    ],
)
def test_search_settings_of_uploaded_agent_are_bounded(
    client: TestClient, setting: str, value: object, reason: str
) -> None:
    shared = checked_agent_of_run(RunFolder.open(Path(RUN)), 2)
    search = {**shared.header.search, setting: value}
    content = encode_agent(shared.header.model_copy(update={"search": search}), shared.weights)
    spec = client.post("/api/v1/agents", content=content).json()["spec"]
    request = {"position": {"game": GAME}, "agent": spec}
    for path in ("move", "analysis"):
        response = client.post(f"/api/v1/{path}", json=request)
        assert response.status_code == 400
        assert reason in response.json()["error"]
        assert "\n" not in response.json()["error"]
    assert client.post("/api/v1/agent", json={"agent": spec, "game": GAME}).status_code == 400
    if isinstance(value, int):  # a spec can override the file's setting
        modest = {**request, "agent": f"{spec}?{setting}=1"}
        assert client.post("/api/v1/move", json=modest).status_code == 200


@pytest.mark.parametrize("network", ["/etc", "../x", "runs/none", f"{RUN}@99", "runs/tiny@x", ""])
def test_only_networks_of_served_runs_can_be_downloaded(client: TestClient, network: str) -> None:
    response = client.get("/api/v1/agents/file", params={"network": network})
    assert response.status_code in (400, 403)
    assert response.json()["error"]
