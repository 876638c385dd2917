"""Tournaments from pages: starting, stopping, resuming and refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from tiny_laboratory import new_client

from forks import wait_for
from zerolab.cli.main import main
from zerolab.play.tournament import TOURNAMENT_FOLDER_KIND, Tournament, TournamentSettings
from zerolab.web import folders, laboratory

API = "/api/v1/tournaments"
NEW = {"name": "demo", "game": "gobang:3x3:3", "players": ["random", "mcts:5"], "games_per_pair": 4}


@pytest.fixture
def client(empty_folder, monkeypatch):
    monkeypatch.setattr(folders, "_LOCK_SECONDS", -1.0)  # locks change within a test
    with new_client(workers=0, allow_training=True) as client:
        yield client


def listed(client):
    return {each["tournament"]: each for each in client.get(API).json()}


@pytest.mark.usefixtures("no_figures")
def test_started_command_plays_the_requested_tournament(client, commands):
    request = {**NEW, "opening_plies": 1, "seed": 7}
    response = client.post(f"{API}/start", json=request)
    assert response.status_code == 200, response.text
    assert response.json()["tournament"] == "tournaments/demo"
    (command,) = commands
    assert main(command) == 0  # what the replaced process would have done
    tournament = Tournament.load(Path("tournaments/demo"))
    expected = {"game": "gobang:3x3:3", "games": 4, "openings": 1, "seed": 7}
    settings = tournament.settings.model_dump()
    assert {key: settings[key] for key in expected} == expected
    assert set(settings["players"]) == {"random", "mcts:5"}
    summary = listed(client)["tournaments/demo"]
    ratings = client.get(f"{API}/one", params={"tournament": "tournaments/demo"}).json()["ratings"]
    assert summary["winner"] == ratings[0]["player"]
    assert summary["latest_progress_time"] == Path("tournaments/demo/games.sqlite").stat().st_mtime
    again = client.post(f"{API}/start", json=request)
    assert (again.status_code, "already exists" in again.json()["error"]) == (400, True)
    finished = client.post(f"{API}/resume", json={"tournament": "tournaments/demo"})
    assert (finished.status_code, "is finished" in finished.json()["error"]) == (400, True)


def test_unfinished_tournament_has_no_winner_and_is_resumed(client, commands):
    players = {"random": "", "mcts:5": ""}
    settings = TournamentSettings(game="gobang:3x3:3", games=2, players=players)
    path = Path("tournaments/half")
    with Tournament.open_locked(path, settings):
        locked = client.get(f"{API}/playing", params={"tournament": path.as_posix()}).json()
        assert (locked["is_running"], locked["may_stop"], locked["may_resume"]) == (
            True,
            False,
            False,
        )
        for action in ("stop", "resume"):
            response = client.post(f"{API}/{action}", json={"tournament": path.as_posix()})
            assert response.status_code == 400
    assert listed(client)["tournaments/half"]["winner"] == ""
    state = client.get(f"{API}/playing", params={"tournament": path.as_posix()}).json()
    assert (state["is_running"], state["may_resume"]) == (False, True)
    assert client.post(f"{API}/resume", json={"tournament": path.as_posix()}).status_code == 200
    assert commands == [["tournament", "--folder", "tournaments/half"]]


def test_process_is_stopped(client, monkeypatch):
    launch_detached = laboratory.launch_detached
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(
        laboratory, "launch_detached", lambda _, *rest: launch_detached(sleep, *rest)
    )
    started = client.post(f"{API}/start", json=NEW).json()
    assert (started["is_running"], started["may_stop"]) == (True, True)
    twice = client.post(f"{API}/start", json=NEW)
    assert (twice.status_code, "already working" in twice.json()["error"]) == (400, True)
    stopped = client.post(f"{API}/stop", json={"tournament": "tournaments/demo"})
    assert stopped.status_code == 200
    demo = {"tournament": "tournaments/demo"}
    wait_for(lambda: not client.get(f"{API}/playing", params=demo).json()["is_running"])
    refused = client.post(f"{API}/stop", json=demo)
    assert refused.status_code == 400


def test_playing_needs_permission(empty_folder):
    with new_client(workers=0) as client:
        bodies = {"start": NEW, "stop": {"tournament": "x"}, "resume": {"tournament": "x"}}
        for action, body in bodies.items():
            response = client.post(f"{API}/{action}", json=body)
            assert response.status_code == 403
            assert "--allow-training" in response.json()["error"]
    assert not any(empty_folder.iterdir())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "../out"}, 400), ({"name": ".server"}, 400), ({"name": "-x"}, 400),
        ({"name": "a/b"}, 400), ({"name": ""}, 422),
        ({"game": "chess:8x8"}, 400), ({"game": "--help"}, 400),
        ({"players": ["random"]}, 422), ({"players": ["random", "random"]}, 400),
        ({"players": ["random", "--seed=1"]}, 400), ({"players": ["random", "gtp:touch x"]}, 400),
        ({"players": ["random", "/etc/passwd"]}, 403), ({"players": ["random", "../x"]}, 403),
        ({"players": ["random", "runs/none"]}, 400),
        ({"players": ["random", "mcts:999999999"]}, 400), ({"players": ["random"] * 25}, 422),
        ({"games_per_pair": 3}, 400), ({"games_per_pair": 0}, 422), ({"games_per_pair": 1002}, 422),
        ({"opening_plies": 9}, 400), ({"opening_plies": -1}, 422), ({"seed": -1}, 422),
        ({"surprise": 1}, 422),
    ],
)  # fmt: skip
def test_invalid_tournaments_are_refused_before_start(client, commands, changes, status):
    response = client.post(f"{API}/start", json={**NEW, **changes})
    assert response.status_code == status, response.text
    assert response.json()["error"]
    assert not commands
    assert not Path("tournaments").exists()


@pytest.mark.parametrize("name", ["studies/x-mini/tournaments/y", "tournaments/none", "/tmp"])
def test_only_tournaments_in_their_folder_are_resumed(client, commands, name):
    if name.startswith("studies"):
        settings = TournamentSettings(
            game="gobang:3x3:3", games=2, players={"random": "", "mcts:5": ""}
        )
        with Tournament.open_locked(Path(name), settings):
            pass
        assert TOURNAMENT_FOLDER_KIND.matches(Path(name))
    response = client.post(f"{API}/resume", json={"tournament": name})
    assert response.status_code in (403, 404)
    assert not commands


@pytest.mark.usefixtures("no_figures")
def test_damaged_ratings_have_no_winner(client, commands):
    client.post(f"{API}/start", json={**NEW, "games_per_pair": 2})
    assert main(commands[0]) == 0
    ratings = Path("tournaments/demo/ratings.json")
    undamaged = ratings.read_text()
    for content in ("", "{}", "[]", '{"players": []}', '{"players": [{"elo": "x", "player": 1}]}'):
        ratings.write_text(content)
        assert listed(client)["tournaments/demo"]["winner"] == "", content
        ratings.write_text(undamaged)
        assert listed(client)["tournaments/demo"]["winner"] in NEW["players"]
