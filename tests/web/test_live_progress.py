"""Progress within a stage: the file that training writes, and what the server reads from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.cli.main import main
from zerolab.rules.position import Position
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training import reporting
from zerolab.training.reporting import (
    LIVE_FILE_NAME,
    LiveReporter,
    NullReporter,
    RunClock,
    read_live_progress,
)
from zerolab.web import folders

COPY = "runs/live-copy"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a stopped clock."""
    now = [100.0]
    frozen = SimpleNamespace(monotonic=lambda: now[0])
    for module in (reporting, reporting):
        monkeypatch.setattr(module, "time", frozen)
    return now


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunFolder]:
    """Unfinished copy of the tiny run, as if its iterations had been extended."""
    monkeypatch.setattr(folders, "_LOCK_SECONDS", -1.0)  # locks change from test to test
    shutil.copytree(here / RUN, here / COPY)
    copy = RunFolder.open(Path(COPY))
    copy.commit(copy.progress.model_copy(update={"finished": False}), [])
    yield copy
    shutil.rmtree(here / COPY)


def test_time_left_is_proportional_to_the_work_left(run: RunFolder, clock: list[float]) -> None:
    reporter = LiveReporter(run, NullReporter(), RunClock(10))
    reporter.stage_started(1, "self-play", 40, "games")
    started = read_live_progress(run.path)
    assert started is not None
    assert (started.done, started.seconds_left, started.run_seconds_left) == (0, None, None)
    clock[0] += 30
    reporter.progress(10, "7 positions/s")
    shown = read_live_progress(run.path)
    assert shown is not None
    assert (shown.done, shown.total, shown.seconds_left) == (10, 40, 90)
    clock[0] += 0.5
    reporter.progress(20)
    assert read_live_progress(run.path) == shown, "at most one write per second"
    clock[0] += 69.5
    reporter.stage_started(2, "learn", 5, "epochs")
    second = read_live_progress(run.path)
    assert second is not None
    # 100 s for one and a half iterations: the second is taken to be half done.
    assert second.run_seconds_left == pytest.approx(100 / 1.5 * 8.5)
    reporter.close()
    assert read_live_progress(run.path) is None


def test_file_of_killed_training_is_removed_at_the_start(run: RunFolder) -> None:
    killed = LiveReporter(run, NullReporter(), RunClock(10))
    killed.stage_started(1, "self-play", 40, "games")
    assert read_live_progress(run.path) is not None
    LiveReporter(run, NullReporter(), RunClock(10))
    assert read_live_progress(run.path) is None


def test_latest_game_belongs_to_the_iteration(run: RunFolder, clock: list[float]) -> None:
    game = run.games.stage_games(1, "selfplay")[0]
    reporter = LiveReporter(run, NullReporter(), RunClock(10))
    reporter.stage_started(1, "self-play", 8, "games")
    reporter.show_game(game)
    clock[0] += 2
    reporter.progress(1)
    shown = read_live_progress(run.path)
    assert shown is not None
    assert shown.latest_game is not None
    assert shown.latest_game.actions == game.actions[: game.ply_count]
    clock[0] += 2
    reporter.stage_started(1, "gate", 8, "games")
    same = read_live_progress(run.path)
    assert same is not None
    assert same.latest_game == shown.latest_game
    clock[0] += 2
    reporter.stage_started(2, "self-play", 8, "games")
    later = read_live_progress(run.path)
    assert later is not None
    assert later.latest_game is None


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"iteration": -1}', "x" * (1 << 17)])
def test_unreadable_file_means_no_progress(run: RunFolder, content: str) -> None:
    (run.path / LIVE_FILE_NAME).write_text(content)
    assert read_live_progress(run.path) is None


def test_training_writes_the_file_and_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write_text = set(), reporting.write_text

    def recorded(path: Path, text: str, **options: bool) -> None:
        written.add(path.name)
        write_text(path, text, **options)

    monkeypatch.setattr(reporting, "write_text", recorded)
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "iterations=1", "--set", "final_evaluation.games=0"]
    assert main(["train", GAME, "--preset", "smoke", "--run", RUN, *settings]) == 0
    assert written == {LIVE_FILE_NAME}
    assert not (tmp_path / RUN / LIVE_FILE_NAME).exists()


def test_pages_get_the_stage_and_the_game_of_a_running_run(
    client: TestClient, run: RunFolder, clock: list[float]
) -> None:
    game = next(each for each in run.games.stage_games(1, "selfplay") if not each.is_forfeited)
    reporter = LiveReporter(run, NullReporter(), RunClock(10))
    reporter.stage_started(1, "self-play", 8, "games")
    reporter.show_game(game)
    clock[0] += 2
    reporter.progress(3, "5 positions/s")
    with (
        run.locked(),
        client.websocket_connect(f"ws://localhost/api/v1/runs/live?run={COPY}") as socket,
    ):
        shown = socket.receive_json()["stage_progress"]
    assert (shown["task"], shown["done"], shown["total"]) == ("self-play", 3, 8)
    position = Position.start(GAME)
    for move in shown["latest_game"]["moves"]:
        position = position.play(move)
    winner = {1: "first", 0: "draw", -1: "second"}[position.first_player_outcome]
    assert shown["latest_game"]["result"] == winner


def test_moves_that_are_not_of_the_game_are_left_out(
    client: TestClient, run: RunFolder, clock: list[float]
) -> None:
    reporter = LiveReporter(run, NullReporter(), RunClock(10))
    reporter.stage_started(1, "self-play", 8, "games")
    reporter.show_game(GameRecord(0, "@0", "@0", (99,), 1))
    clock[0] += 2
    reporter.progress(1)
    with (
        run.locked(),
        client.websocket_connect(f"ws://localhost/api/v1/runs/live?run={COPY}") as socket,
    ):
        shown = socket.receive_json()["stage_progress"]
    assert (shown["done"], shown["latest_game"]) == (1, None)


def test_stopped_run_has_no_stage(client: TestClient, run: RunFolder) -> None:
    LiveReporter(run, NullReporter(), RunClock(10)).stage_started(1, "self-play", 8, "games")
    with client.websocket_connect(f"ws://localhost/api/v1/runs/live?run={COPY}") as socket:
        assert socket.receive_json()["stage_progress"] is None
