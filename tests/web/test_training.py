"""Training from pages: started, found again by another server, stopped, resumed; or refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="pages need the extra web")

from starlette.testclient import TestClient

from zerolab.cli.main import main
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import weights_to_arrays
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.web.app import make_app
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.routes import training as training_routes

TRAINING = "/api/v1/training"
RUN = {"name": "demo", "game": "gobang:3x3:3", "preset": "smoke"}
LONG = ["iterations=4000", "final_evaluation.games=0"]


@contextmanager
def server(allow_training=True, runs="runs"):
    folders = Folders((Path(runs),))
    laboratory = Laboratory(folders, allow_training=allow_training, workers=0)  # nobody searches
    with TestClient(make_app(laboratory), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with server() as client:
        yield client
    for known in tmp_path.glob("runs/.server/*.json"):
        training_routes.terminate(known)


def launched_by(monkeypatch):
    """Return the list of commands launched from now on; they are replaced by one that ends."""
    commands, launch = [], training_routes.launch

    def launch_another(command, *rest):
        commands.append(command[3:])
        launch([sys.executable, "-c", "pass"], *rest)

    monkeypatch.setattr(training_routes, "launch", launch_another)
    return commands


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


def training(client, run="runs/demo"):
    return client.get(f"{TRAINING}/one", params={"run": run}).json()


def iteration(tmp_path):
    try:
        return RunFolder.open(tmp_path / "runs/demo").progress.iteration
    except Exception:  # not there yet
        return 0


def test_a_run_outlives_its_server_and_is_stopped_by_another_one(client, tmp_path, monkeypatch):
    answer = client.post(f"{TRAINING}/start", json={**RUN, "settings": LONG})
    assert answer.status_code == 200, answer.text
    assert answer.json()["at_work"]
    again = client.post(f"{TRAINING}/start", json=RUN)
    wait_for(lambda: iteration(tmp_path) >= 2)
    assert again.status_code == 400
    busy = client.post(f"{TRAINING}/resume", json={"run": "runs/demo"})
    assert busy.status_code == 400
    with server() as other:  # as after a restart: nothing is known but what is on disk
        assert training(other)["may_stop"]
        assert any("self-play" in line for line in training(other)["output"])
        (listed,) = other.get("/api/v1/runs").json()
        assert listed["status"] == "running"
        assert other.post(f"{TRAINING}/stop", json={"run": "runs/demo"}).status_code == 200
        wait_for(lambda: not training(other)["at_work"])
        assert iteration(tmp_path) < 4000
        time.sleep(0.5)  # the state of locks is remembered for a moment
        assert other.get("/api/v1/runs").json()[0]["status"] == "stopped"
        assert other.post(f"{TRAINING}/stop", json={"run": "runs/demo"}).status_code == 400
        commands = launched_by(monkeypatch)
        assert other.post(f"{TRAINING}/resume", json={"run": "runs/demo"}).status_code == 200
        assert commands == [["train", "--run", "runs/demo"]]


def test_a_finished_run_is_resumed_with_more_iterations_only(client, tmp_path, monkeypatch):
    less = ["iterations=1", "final_evaluation.games=0"]
    begun = [each for setting in less for each in ("--set", setting)]
    assert main(["train", "--preset", "smoke", "--run", "runs/demo", *begun]) == 0
    assert RunFolder.open(tmp_path / "runs/demo").progress.finished
    refused = client.post(f"{TRAINING}/resume", json={"run": "runs/demo"})
    assert (refused.status_code, "finished" in refused.json()["error"]) == (400, True)
    commands = launched_by(monkeypatch)
    more = {"run": "runs/demo", "iterations": 2}
    assert client.post(f"{TRAINING}/resume", json=more).status_code == 200
    assert commands == [["train", "--run", "runs/demo", "--set", "iterations=2"]]


def test_nothing_is_trained_unless_the_server_allows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with server(allow_training=False) as client:
        for what, asked in (("start", RUN), ("stop", {"run": "runs/x"}), ("resume", {"run": "x"})):
            answer = client.post(f"{TRAINING}/{what}", json=asked)
            assert answer.status_code == 403
            assert "--allow-training" in answer.json()["error"]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "../out"}, 400), ({"name": ".server"}, 400), ({"name": "a/b"}, 400),
        ({"name": "-x"}, 400), ({"name": ""}, 422), ({"name": "a" * 81}, 422),
        ({"game": "chess:8x8"}, 400), ({"game": "--help"}, 400),
        ({"preset": "none"}, 400), ({"preset": "/etc/passwd.toml"}, 400),
        ({"settings": ["learn.epoch=1"]}, 400), ({"settings": ["--run=x"]}, 400),
        ({"settings": ["iterations=0"]}, 400), ({"settings": ["seed"]}, 400),
        ({"settings": ['final_evaluation.baselines=["gtp:touch x"]']}, 403),
        ({"settings": ['final_evaluation={baselines=["random", "gtp:touch x"]}']}, 403),
        ({"settings": ['final_evaluation.baselines=["../runs/x"]']}, 403),
        ({"settings": ["supervised.positions=/etc/passwd"]}, 403),
        ({"settings": ["accuracy.positions=secret", "accuracy.every=1"]}, 403),
        ({"settings": ["network.heads.features.source=../x"]}, 403),
        ({"source": "/somewhere/run"}, 403), ({"source": "runs/none"}, 400),
        ({"surprise": 1}, 422),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_run_is_said_before_anything_begins(client, tmp_path, changes, status):
    answer = client.post(f"{TRAINING}/start", json={**RUN, **changes})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]
    assert not list((tmp_path / "runs").iterdir())


def test_a_run_starts_from_another_with_its_trunk_frozen(client, tmp_path, monkeypatch):
    settings = resolve_settings(None, "smoke", ["game=gobang:3x3:3"])
    network = build_network(settings.network, parse_game(settings.game), 0)
    source = RunFolder.create(tmp_path / "runs/source", settings.model_dump())
    source.save_network(0, weights_to_arrays(network), {})
    begun = launched_by(monkeypatch)
    asked = {**RUN, "source": "runs/source", "transfer": "frozen"}
    refused = client.post(f"{TRAINING}/start", json={**asked, "settings": ["learn.frozen=none"]})
    assert refused.status_code == 400
    assert 'contradicts the transfer "frozen"' in refused.json()["error"]
    assert not begun
    assert client.post(f"{TRAINING}/start", json=asked).status_code == 200
    (command,) = begun
    for setting in ('start.source="runs/source"', "start.transfer=trunk", "learn.frozen=trunk"):
        assert setting in command


def test_a_name_is_taken_once(client, tmp_path):
    (tmp_path / "runs/demo").mkdir()
    answer = client.post(f"{TRAINING}/start", json=RUN)
    assert (answer.status_code, "demo" in answer.json()["error"]) == (400, True)


def test_a_process_that_no_page_has_started_is_left_alone(client, tmp_path):
    RunFolder.create(tmp_path / "runs/demo", {"game": "gobang:3x3:3"})
    answer = client.post(f"{TRAINING}/stop", json={"run": "runs/demo"})
    assert answer.status_code == 400
    with RunFolder.open(tmp_path / "runs/demo").locked():
        answer = client.post(f"{TRAINING}/stop", json={"run": "runs/demo"})
        assert answer.status_code == 400


def test_another_process_of_the_same_number_is_not_taken_for_the_one_that_was_begun(tmp_path):
    known = tmp_path / "known.json"
    training_routes.launch(
        [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "out", known
    )
    assert training_routes.is_alive(known)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(known.read_text()), "began": "1"}))
    assert not training_routes.is_alive(other)
    assert not training_routes.terminate(other)
    assert training_routes.terminate(known)
    wait_for(lambda: not training_routes.is_alive(known), 20)


def test_a_damaged_file_is_no_process(tmp_path):
    for number, content in enumerate(
        ["", "{}", "[1]", '{"pid": 1, "began": "x"}', "\0", "[" * 9999]
    ):
        known = tmp_path / str(number)
        known.write_text(content)
        assert not training_routes.is_alive(known)
        assert not training_routes.terminate(known)


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "zerolab", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("zerolab ")


def test_presets_are_listed(client):
    found = client.get(f"{TRAINING}/presets").json()
    assert {"mini", "smoke"} <= {each["name"] for each in found}
    assert all(each["title"] for each in found)
