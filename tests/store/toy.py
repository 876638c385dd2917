"""A toy run with all file operations of training but without learning."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from zerolab.core.errors import UserError
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord, GameStore
from zerolab.store.run_folder import RunFolder, is_run

CONFIG = {"game": "othello:4x4", "preset": "toy", "iterations": 2, "network": {"name": "conv"}}


def examples(iteration: int, count: int = 20) -> Examples:
    random = np.random.default_rng(iteration)
    return Examples(
        states=random.integers(0, 2**64, (count, 2), np.uint64),
        policies=random.random((count, 17)).astype(np.float16),
        root_values=random.random(count).astype(np.float16),
        root_draws=np.full(count, np.nan, np.float16),
        action_values=random.random((count, 17)).astype(np.float16),
        surprises=np.full(count, np.nan, np.float16),
        outcomes=random.integers(-1, 2, count, np.int8),
        plies_left=np.arange(count, 0, -1, dtype=np.int16),
        games=np.full(count, iteration, np.int32),
        plies=np.arange(count, dtype=np.int16),
        actions=random.integers(0, 17, count, np.int16),
        full=random.integers(0, 2, count, np.int8).astype(np.bool_),
    )


def weights(iteration: int) -> dict:
    random = np.random.default_rng(iteration)
    return {"bias": random.random(5, np.float32), "filter": random.random((5, 3), np.float32)}


def games(iteration: int, count: int = 6) -> list[GameRecord]:
    random = np.random.default_rng(iteration)
    return [
        GameRecord(i, "network 0", "random", tuple(random.integers(0, 17, 9).tolist()), i % 3 - 1)
        for i in range(count)
    ]


def train(path: Path, iterations: int = 2) -> RunFolder:
    """Begin or resume a run; as in the trainer, every stage saves its files and then commits."""
    run = RunFolder.open(path) if is_run(path) else RunFolder.create(path, CONFIG)
    with run.locked():
        if (run.progress.iteration, run.progress.stage) == (1, "selfplay"):
            run.save_network(0, weights(0), weights(1000))
        run.prune()
        while run.progress.iteration <= iterations:
            {"selfplay": _play, "learn": _learn, "gate": _gate}[run.progress.stage](run)
    return run


def _commit(run: RunFolder, **changes: object) -> None:
    head = {"iteration": run.progress.iteration, "stage": run.progress.stage}
    line = {**head, "loss_policy": 1 / run.progress.iteration, "wall_seconds": time.perf_counter()}
    run.commit(run.progress.model_copy(update=changes), [line])


def _play(run: RunFolder) -> None:
    iteration = run.progress.iteration
    features = np.random.default_rng(iteration).random((20, 3)).astype(np.float16)
    run.save_examples(iteration, examples(iteration), features if iteration == 1 else None)
    run.games.write_stage(iteration, "selfplay", games(iteration))
    _commit(run, stage="learn")


def _learn(run: RunFolder) -> None:
    iteration = run.progress.iteration
    best_bias = (
        run.load_weights(run.progress.best)["bias"]
        + run.load_optimizer_state(run.progress.best)["bias"]
    )
    run.load_examples(iteration)
    run.save_network(
        iteration, weights(iteration) | {"bias": best_bias}, weights(-iteration % 1000)
    )
    _commit(run, stage="gate")


def _gate(run: RunFolder) -> None:
    iteration = run.progress.iteration
    run.games.write_stage(iteration, "gate", games(iteration + 100))
    best = iteration if iteration % 2 else run.progress.best
    _commit(run, stage="selfplay", iteration=iteration + 1, best=best, elo=10.0 * best)
    run.prune()


def everything(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file, to detect any change."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_child(work: Callable[[], object]) -> str:
    """Call `work` in a forked process; return the message of its UserError, or an empty string."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except UserError as error:
            os.write(writer, str(error).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        message = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return message


def snapshots(folder: Path, copies: Path) -> int:
    """Train, and copy the run before each operation that can change files; return their number.

    A copy has what a process killed at that moment would leave behind.
    """
    count, is_copying = 0, False

    def copy(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count, is_copying
        if is_copying or not _can_change_files(event, arguments):
            return
        is_copying = True
        if folder.is_dir():
            shutil.copytree(folder, copies / str(count))
        count += 1
        is_copying = False

    sys.addaudithook(copy)
    train(folder)
    is_copying = True  # hooks cannot be removed
    return count


_CHANGING_EVENTS = {"os.rename", "os.remove", "os.truncate", "os.mkdir", "sqlite3.connect"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _can_change_files(event: str, arguments: tuple[object, ...]) -> bool:
    """Return False for reads: kills before and after a read leave the same files."""
    if event == "open":
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & _WRITING)
    return event in _CHANGING_EVENTS


def killed_at(moment: int, folder: Path) -> bool:
    """Train in a forked process that is killed before its file operation number `moment`.

    Operations that only read do not count. Return True if it was killed, and False if it finished
    first.
    """
    child = os.fork()
    if child == 0:
        remaining = moment

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal remaining
            if _can_change_files(event, arguments):
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            sys.addaudithook(count)
            train(folder)
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def killed_while_recording(path: Path, seconds: float) -> None:
    """Record stages in a forked process, and kill it `seconds` after the first one."""
    store = GameStore(path)
    stages = len(store.stages())
    recorder = multiprocessing.get_context("fork").Process(target=_record_forever, args=(path,))
    recorder.start()
    try:
        while len(store.stages()) == stages:
            assert recorder.is_alive()
            time.sleep(0.001)
        time.sleep(seconds)
    finally:
        recorder.kill()
        recorder.join()


def _record_forever(path: Path) -> None:
    store = GameStore(path)
    while True:
        latest = len(store.stages())
        store.write_stage(latest, "selfplay", games(latest, 40))
