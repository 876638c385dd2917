"""Agents suggested for a game."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")

from tiny_laboratory import new_client

from zerolab.cli.main import main


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A server with a finished run, a damaged run and a run of another game."""
    folder = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        smaller = ["--set", "iterations=2", "--set", "final_evaluation.games=0"]
        train = ["train", "--preset", "smoke", *smaller]
        assert main([*train, "--set", "gate.name=always", "--run", "runs/one"]) == 0
        assert main(["train", "gobang:4x4:3", *train[1:], "--run", "runs/other"]) == 0
        damaged = folder / "runs/damaged"
        damaged.mkdir()
        (damaged / "config.toml").write_text("not ours")
        with new_client(workers=0) as client:
            yield client


def test_networks_of_runs_precede_agents_without_network(client):
    suggestions = client.get("/api/v1/agents", params={"game": "gobang:3x3:3"}).json()
    from_runs = [each for each in suggestions if each["run"]]
    assert [each["spec"] for each in from_runs] == [
        "runs/one", "runs/one@2", "runs/one@1", "runs/one@0",
    ]  # fmt: skip
    assert [each["iteration"] for each in from_runs] == [2, 2, 1, 0]
    assert {each["group"] for each in from_runs} == {"runs/one"}
    assert from_runs[-1]["elo"] == 0
    without_run = [each["spec"] for each in suggestions if not each["run"]]
    assert without_run == ["random", "mcts:100", "mcts:1000", "rave:100", "rhea:100", "perfect"]


def test_every_suggested_agent_is_accepted(client):
    for each in client.get("/api/v1/agents", params={"game": "gobang:4x4:3"}).json():
        request = {"agent": each["spec"], "game": "gobang:4x4:3"}
        assert client.post("/api/v1/agent", json=request).status_code == 200, each


def test_unknown_or_missing_game_is_refused(client):
    response = client.get("/api/v1/agents", params={"game": "chess:8x8"})
    assert response.status_code == 400
    assert "chess" in response.json()["error"]
    assert client.get("/api/v1/agents").status_code == 422
