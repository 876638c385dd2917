"""Runs whose games are played by several processes: equal bytes, ended processes, resuming."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import threading
import time
from types import SimpleNamespace

import pytest

import zerolab
from forks import wait_for
from promised import contents, differences
from training.tiny_training import KilledError, Killing, train
from zerolab.core.errors import UserError
from zerolab.play import executors
from zerolab.play.executors import PlayProgress, ProcessExecutor
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training import trainer
from zerolab.training.configure import resolve_settings, resume_settings
from zerolab.training.selfplay_stage import GamesAhead

EPISODIC = ["iterations=1", "selfplay.episodes=6", "selfplay.chunks=3", "final_evaluation.games=4"]
CONTINUOUS = [
    "iterations=3", "selfplay.parallel_games=6", "selfplay.chunks=2", "selfplay.lag=1",
    'selfplay.mode={name = "continuous", plies = 8}', "gate=always", "final_evaluation.games=0",
    "selfplay.start=archive",
]  # fmt: skip


@pytest.fixture(scope="module")
def executor():
    with ProcessExecutor(2) as executor:
        yield executor


class _Job:
    """Job that needs no preparation for another process."""

    def to_portable(self, make_portable):
        return self


def _exit(job, batches, report):
    os._exit(1)


def _sleep(job, batches, report):
    ((path,),) = batches
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    time.sleep(60)


def _report_twice(job, batches, report):
    """Report progress, and wait until another process has begun the other batch."""
    (((counts, mine, other),),) = batches
    report(PlayProgress(1, 3))
    report(PlayProgress(*counts))
    mine.touch()
    wait_for(other.exists)
    return os.getpid()


def test_bytes_do_not_depend_on_processes(executor, tmp_path):
    settings = resolve_settings(None, "smoke", EPISODIC)
    runs = [train(tmp_path / str(each), settings, executor=each) for each in (None, executor)]
    assert differences(*(contents(run.path) for run in runs)) == []


def test_games_ahead_have_equal_bytes_after_resuming_with_processes(tmp_path, monkeypatch):
    settings = resolve_settings(None, "smoke", CONTINUOUS)
    expected = contents(train(tmp_path / "threads", settings).path)
    used = []
    run_batches, begin_ahead = ProcessExecutor.run, GamesAhead.__init__
    monkeypatch.setattr(
        ProcessExecutor, "run", lambda *args: used.append("processes") or run_batches(*args)
    )
    monkeypatch.setattr(
        GamesAhead, "__init__", lambda *args: used.append("ahead") or begin_ahead(*args)
    )
    background = property(lambda executor: executor)  # as on a GPU, where learning is not delayed
    monkeypatch.setattr(ProcessExecutor, "background_executor", background)
    monkeypatch.setattr(trainer, "available_cores", lambda: 2)
    with pytest.raises(KilledError):
        train(tmp_path / "run", settings, Killing(2, "learn"))
    run = RunFolder.open(tmp_path / "run")
    run = train(run.path, resume_settings(run, ["selfplay.processes=2"]))
    changed = differences(contents(run.path), expected)
    assert [name for name in changed if "config" not in name] == []
    assert used == ["ahead", "processes"]  # iteration 3, while iteration 2 learnt


def test_final_evaluation_does_not_wait_for_games_ahead(tmp_path, monkeypatch):
    """The rule ends the run while the games of another iteration are being played."""
    changes = ["selfplay.processes=2", "stop=0.00001h", "final_evaluation.games=2"]
    settings = resolve_settings(None, "smoke", [*CONTINUOUS, *changes])
    monkeypatch.setattr(ProcessExecutor, "background_executor", property(lambda each: each))
    monkeypatch.setattr(trainer, "available_cores", lambda: 2)
    cancelled, cancel = [], GamesAhead.cancel
    monkeypatch.setattr(
        GamesAhead, "cancel", lambda ahead: cancelled.append(ahead) or cancel(ahead)
    )
    run = train(tmp_path / "run", settings)
    assert [ahead.iteration for ahead in cancelled] == [2]
    assert run.progress.finished
    assert run.metrics()[-1]["iteration"] == 1


def test_extended_run_uses_its_processes(tmp_path, monkeypatch):
    settings = resolve_settings(None, "smoke", [*EPISODIC, "final_evaluation.games=0"])
    run = train(tmp_path / "run", settings)
    began = []
    monkeypatch.setattr(trainer, "ProcessExecutor", began.append)
    with pytest.raises(TypeError):  # the stub is no context manager
        train(run.path, resume_settings(run, ["selfplay.processes=2", "iterations=2"]))
    assert len(began) == 1


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ([], None),
        (["selfplay.processes=3"], 3),
        (["selfplay.processes=3", "selfplay.chunks=5"], 5),
        (["selfplay.processes=3", "selfplay.mode=service"], None),
    ],
)
def test_each_process_plays_a_chunk(changes, count):
    assert resolve_settings(None, "smoke", changes).selfplay.chunk_count == count


def test_training_while_a_process_imports_the_script_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(UserError, match="__main__"):
        zerolab.train("gobang:3x3:3", preset="smoke", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_progress_is_the_sum_over_processes(executor, tmp_path):
    shown, paths = [], [tmp_path / "a", tmp_path / "b"]
    batches = [[((2, 10), *paths)], [((5, 20), *reversed(paths))]]
    processes = executor.run(_report_twice, _Job(), batches, shown.append)
    assert len(set(processes)) == 2
    assert os.getpid() not in processes
    assert PlayProgress(7, 30) in shown


def test_dead_process_is_an_error():
    with ProcessExecutor(1) as executor, pytest.raises(UserError, match=r"selfplay\.processes"):
        executor.run(_exit, _Job(), [[]])


def test_games_end_with_the_executor(tmp_path):
    errors, path = [], tmp_path / "process"

    def play():
        try:
            executor.run(_sleep, _Job(), [[path]])
        except UserError as error:
            errors.append(error)

    with ProcessExecutor(1) as executor:
        thread = threading.Thread(target=play)
        thread.start()
        wait_for(path.exists)
    thread.join(30)
    assert errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


def test_long_progress_is_sent_without_the_game(monkeypatch):
    sent = []
    monkeypatch.setattr(executors, "_writers", [SimpleNamespace(send_bytes=sent.append)])
    for plies in (3, 10_000):
        game = GameRecord(0, "a", "b", tuple(range(plies)), 0)
        executors._send_progress(7, PlayProgress(1, plies, game))
    short, long = map(pickle.loads, sent)
    assert short[1].latest_game.actions == (0, 1, 2)
    assert long == (7, PlayProgress(1, 10_000))
    assert all(len(each) < select.PIPE_BUF for each in sent)
