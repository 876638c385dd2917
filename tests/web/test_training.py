"""Training from pages: starting, stopping, resuming, restarted servers and refusals."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from tiny_laboratory import new_client

from forks import wait_for
from zerolab.cli.main import main
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import weights_to_arrays
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.web import folders, laboratory

TRAINING = "/api/v1/training"
RUN = {"name": "demo", "game": "gobang:3x3:3", "preset": "smoke"}
LONG = ["iterations=4000", "final_evaluation.games=0", "selfplay.episodes=2", "learn.epochs=1"]


@pytest.fixture
def client(empty_folder):
    (empty_folder / "runs").mkdir()
    with new_client(workers=0, allow_training=True) as client:
        yield client


def training(client, run="runs/demo"):
    return client.get(f"{TRAINING}/one", params={"run": run}).json()


def iteration(tmp_path):
    try:
        return RunFolder.open(tmp_path / "runs/demo").progress.iteration
    except Exception:  # the run does not exist yet
        return 0


def test_run_outlives_server_and_is_stopped_by_another(client, tmp_path, request):
    response = client.post(f"{TRAINING}/start", json={**RUN, "settings": LONG})
    assert response.status_code == 200, response.text
    assert response.json()["is_running"]
    again = client.post(f"{TRAINING}/start", json=RUN)
    wait_for(lambda: iteration(tmp_path) >= 2)
    assert again.status_code == 400
    busy = client.post(f"{TRAINING}/resume", json={"run": "runs/demo"})
    assert busy.status_code == 400
    with new_client(workers=0, allow_training=True) as other:  # sees only files on disk
        assert training(other)["may_stop"]
        assert any("self-play" in line for line in training(other)["output"])
        (listed,) = other.get("/api/v1/runs").json()
        assert listed["status"] == "running"
        assert other.post(f"{TRAINING}/stop", json={"run": "runs/demo"}).status_code == 200
        wait_for(lambda: not training(other)["is_running"])
        assert iteration(tmp_path) < 4000
        request.getfixturevalue("monkeypatch").setattr(folders, "_LOCK_SECONDS", -1.0)
        assert other.get("/api/v1/runs").json()[0]["status"] == "stopped"
        assert other.post(f"{TRAINING}/stop", json={"run": "runs/demo"}).status_code == 400
        commands = request.getfixturevalue("commands")  # only now: the first command is real
        assert other.post(f"{TRAINING}/resume", json={"run": "runs/demo"}).status_code == 200
        assert commands == [["train", "--run", "runs/demo"]]


def test_finished_run_needs_more_iterations_to_resume(client, tmp_path, commands):
    settings = ["iterations=1", "final_evaluation.games=0"]
    options = [each for setting in settings for each in ("--set", setting)]
    assert main(["train", "--preset", "smoke", "--run", "runs/demo", *options]) == 0
    assert RunFolder.open(tmp_path / "runs/demo").progress.finished
    refused = client.post(f"{TRAINING}/resume", json={"run": "runs/demo"})
    assert (refused.status_code, "finished" in refused.json()["error"]) == (400, True)
    more = {"run": "runs/demo", "iterations": 2}
    assert client.post(f"{TRAINING}/resume", json=more).status_code == 200
    assert commands == [["train", "--run", "runs/demo", "--set", "iterations=2"]]


def test_training_needs_permission(empty_folder):
    with new_client(workers=0) as client:
        for action, body in (("start", RUN), ("stop", {"run": "runs/x"}), ("resume", {"run": "x"})):
            response = client.post(f"{TRAINING}/{action}", json=body)
            assert response.status_code == 403
            assert "--allow-training" in response.json()["error"]
    assert not any(empty_folder.iterdir())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "../out"}, 400), ({"name": ".server"}, 400), ({"name": "a/b"}, 400),
        ({"name": "agents"}, 400), ({"name": "puzzles"}, 400),
        ({"name": "-x"}, 400), ({"name": ""}, 422), ({"name": "a" * 81}, 422),
        ({"game": "chess:8x8"}, 400), ({"game": "--help"}, 400),
        ({"preset": "none"}, 400), ({"preset": "/etc/passwd.toml"}, 400),
        ({"settings": ["learn.epoch=1"]}, 400), ({"settings": ["--run=x"]}, 400),
        ({"settings": ["device=cuda:9"]}, 400), ({"settings": ["iterations=0"]}, 400),
        ({"settings": ["seed"]}, 400),
        ({"settings": ['final_evaluation.baselines=["gtp:touch x"]']}, 403),
        ({"settings": ['final_evaluation={baselines=["random", "gtp:touch x"]}']}, 403),
        ({"settings": ['final_evaluation.baselines=["../runs/x"]']}, 403),
        ({"settings": ["supervised.positions=/etc/passwd"]}, 403),
        ({"settings": ["accuracy.positions=secret", "accuracy.every=1"]}, 403),
        ({"settings": ["network.heads.features.source=../x"]}, 403),
        ({"start_network": "/somewhere/run"}, 403), ({"start_network": "runs/none"}, 400),
        ({"surprise": 1}, 422),
    ],
)  # fmt: skip
def test_invalid_runs_are_refused_before_start(client, tmp_path, changes, status):
    response = client.post(f"{TRAINING}/start", json={**RUN, **changes})
    assert response.status_code == status, response.text
    assert response.json()["error"]
    assert not list((tmp_path / "runs").iterdir())


def test_run_starts_from_another_with_frozen_trunk(client, tmp_path, commands):
    settings = resolve_settings(None, "smoke", ["game=gobang:3x3:3"])
    network = build_network(settings.network, parse_game(settings.game), 0)
    source = RunFolder.create(tmp_path / "runs/source", settings.model_dump())
    source.save_network(0, weights_to_arrays(network), {})
    request = {**RUN, "start_network": "runs/source", "transfer": "frozen"}
    refused = client.post(f"{TRAINING}/start", json={**request, "settings": ["learn.frozen=none"]})
    assert refused.status_code == 400
    assert 'contradicts the "frozen" transfer' in refused.json()["error"]
    assert not commands
    assert client.post(f"{TRAINING}/start", json=request).status_code == 200
    (command,) = commands
    for setting in ('start.source="runs/source"', "start.transfer=trunk", "learn.frozen=trunk"):
        assert setting in command


def test_existing_name_is_refused(client, tmp_path):
    (tmp_path / "runs/demo").mkdir()
    response = client.post(f"{TRAINING}/start", json=RUN)
    assert (response.status_code, "demo" in response.json()["error"]) == (400, True)


def test_process_started_elsewhere_is_not_stopped(client, tmp_path):
    RunFolder.create(tmp_path / "runs/demo", {"game": "gobang:3x3:3"})
    response = client.post(f"{TRAINING}/stop", json={"run": "runs/demo"})
    assert response.status_code == 400
    with RunFolder.open(tmp_path / "runs/demo").locked():
        response = client.post(f"{TRAINING}/stop", json={"run": "runs/demo"})
        assert response.status_code == 400


def test_reused_process_number_is_recognised(tmp_path):
    record = tmp_path / "known.json"
    laboratory.launch_detached(
        [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "out", record
    )
    assert laboratory.is_process_alive(record)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(record.read_text()), "began": "1"}))
    assert not laboratory.is_process_alive(other)
    assert not laboratory.terminate_process(other)
    assert laboratory.terminate_process(record)
    wait_for(lambda: not laboratory.is_process_alive(record), 20)


def test_damaged_process_record_is_ignored(tmp_path):
    for number, content in enumerate(
        ["", "{}", "[1]", '{"pid": 1, "began": "x"}', "\0", "[" * 9999]
    ):
        record = tmp_path / str(number)
        record.write_text(content)
        assert not laboratory.is_process_alive(record)
        assert not laboratory.terminate_process(record)


def test_module_runs_command_line():
    process = subprocess.run(
        [sys.executable, "-m", "zerolab", "--version"], capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith("zerolab ")


def test_presets_are_listed(client):
    presets = client.get(f"{TRAINING}/presets").json()
    assert {"mini", "smoke"} <= {each["name"] for each in presets}
    assert all(each["title"] for each in presets)
