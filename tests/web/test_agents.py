"""Agents suggested for a game."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from tiny_laboratory import new_client

from zerolab.agents import file_agents
from zerolab.agents.exporting import encode_agent_of_run
from zerolab.cli.main import main
from zerolab.store.arrays import decode_agent, encode_agent
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import Folders
from zerolab.web.requests import ForbiddenError


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


def test_networks_of_a_run_that_is_itself_served_are_served(client):
    folders = Folders((Path("runs/one"),))
    for name in ("runs/one", "runs/one@1"):
        assert folders.require_served_network_path(name) == name
    Path("runs/one@0").symlink_to("/etc")
    for name in ("runs/one@0", "runs/other@1", "runs/one@x", "runs/one@/../other"):
        with pytest.raises(ForbiddenError):
            folders.require_served_network_path(name)
    Path("runs/one@0").unlink()


def test_networks_of_runs_precede_agents_without_network(client):
    suggestions = client.get("/api/v1/agents", params={"game": "gobang:3x3:3"}).json()
    from_runs = [each for each in suggestions if each["run"]]
    assert [each["spec"] for each in from_runs] == [
        "runs/one", "runs/one@2", "runs/one@1", "runs/one@0",
    ]  # fmt: skip
    assert [each["iteration"] for each in from_runs] == [2, 2, 1, 0]
    assert {each["group"] for each in from_runs} == {"runs/one"}
    assert [each["label"] for each in from_runs] == [
        "one, iteration 2 (best network)",
        "one, iteration 2",
        "one, iteration 1",
        "one, iteration 0",
    ]
    without_run = [each["spec"] for each in suggestions if not each["run"]]
    assert without_run == ["random", "mcts:100", "mcts:1000", "rave:100", "rhea:100", "perfect"]


def _default(client, game):
    suggestions = client.get("/api/v1/agents", params={"game": game}).json()
    (default,) = [each for each in suggestions if each["is_default"]]
    return default


def _copied_run(name, seconds_later):
    """Return a copy of the finished run whose progress is more recent."""
    path = Path(shutil.copytree("runs/one", f"runs/{name}"))
    time = Path("runs/one/state.json").stat().st_mtime + seconds_later
    os.utime(path / "state.json", (time, time))
    return path


def test_default_is_latest_run_and_not_alphabetically_first(client):
    first, later = _copied_run("a-first", 5), _copied_run("z-later", 10)
    try:
        default = _default(client, "gobang:3x3:3")
        assert (default["spec"], default["name"]) == ("runs/z-later", "z-later, iteration 2")
    finally:
        shutil.rmtree(first)
        shutil.rmtree(later)


@pytest.mark.parametrize("damage", ["weights", "settings"])
def test_default_is_never_damaged_run(client, damage):
    path = _copied_run("a-damaged", 10)
    try:
        assert _default(client, "gobang:3x3:3")["spec"] == "runs/a-damaged"
        name = "checkpoints/0002.safetensors" if damage == "weights" else "state.json"
        os.truncate(path / name, 100)
        assert _default(client, "gobang:3x3:3")["spec"] == "runs/one"
    finally:
        shutil.rmtree(path)


def test_default_without_run_is_mcts(client, monkeypatch, tmp_path):
    monkeypatch.setattr(file_agents, "SHIPPED_FOLDER", tmp_path)
    assert _default(client, "othello:6x6")["spec"] == "mcts:1000"


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """Two agents of the package, one for a game without a run."""
    monkeypatch.setattr(file_agents, "SHIPPED_FOLDER", tmp_path)
    content = encode_agent_of_run(RunFolder.open(Path("runs/one")), 2)
    (tmp_path / "gobang-3x3-3.zerolab").write_bytes(content)
    header, weights, _ = decode_agent(content, "it")
    for name, game in (("gobang-5x5", "gobang:5x5"), ("gobang-5x5-b", "gobang:5x5")):
        other = header.model_copy(update={"game": game})
        (tmp_path / f"{name}.zerolab").write_bytes(encode_agent(other, weights))
    (tmp_path / "gobang-5x5-damaged.zerolab").write_bytes(content[:-1])


def test_agents_of_the_package_follow_runs_and_are_default_without_any(client, shipped):
    assert _default(client, "gobang:3x3:3")["spec"] == "runs/one"
    suggestions = client.get("/api/v1/agents", params={"game": "gobang:3x3:3"}).json()
    included = [each for each in suggestions if each["group"] == "Included with zerolab"]
    assert [(each["spec"], each["run"], each["iteration"]) for each in included] == [
        ("gobang-3x3-3", None, 2),
    ]  # fmt: skip
    request = {"agent": "gobang-3x3-3?simulations=2", "game": "gobang:3x3:3"}
    assert client.post("/api/v1/agent", json=request).status_code == 200
    assert _default(client, "gobang:5x5")["spec"] == "gobang-5x5"
    assert _default(client, "gobang:6x6")["spec"] == "mcts:1000"


def test_every_suggested_agent_is_accepted(client):
    for each in client.get("/api/v1/agents", params={"game": "gobang:4x4:3"}).json():
        request = {"agent": each["spec"], "game": "gobang:4x4:3"}
        assert client.post("/api/v1/agent", json=request).status_code == 200, each


def test_unknown_or_missing_game_is_refused(client):
    response = client.get("/api/v1/agents", params={"game": "chess:8x8"})
    assert response.status_code == 400
    assert "chess" in response.json()["error"]
    assert client.get("/api/v1/agents").status_code == 422
