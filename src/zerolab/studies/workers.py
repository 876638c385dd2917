"""Workers of a study: their interface, and processes on this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from pebble import ProcessExpired, ProcessPool

from zerolab.core.errors import one_line
from zerolab.core.processes import (
    claim_cores,
    exit_with_parent,
    process_pool,
    shares_of_cores,
)
from zerolab.studies.tasks import Outcome, Task, perform

_IMPORTS = (perform.__module__,)
"""Modules of workers that take long to import."""

_NOT_BEGUN = "its worker ended unexpectedly: before it began"


class Workers(Protocol):
    """Perform up to `count` tasks at a time; leaving the context ends all of them at once."""

    count: int

    def __enter__(self) -> Self:
        """Start the workers."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop all workers; unfinished tasks are abandoned."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task; fewer than `count` must be under way."""
        ...

    def finished(self, seconds: float) -> list[Outcome]:
        """Wait up to `seconds` for an outcome; return all outcomes available by then."""
        ...


class LocalWorkers:
    """Processes on this machine, each pinned to its share of the cores.

    The death of a process fails its task only, and another process takes its place. All of them end
    with this process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._running: dict[Future[Outcome], Task] = {}

    def __enter__(self) -> Self:
        self._locks = Path(tempfile.mkdtemp(prefix="zerolab-workers-"))
        self._pool = self._new_pool()
        return self

    def _new_pool(self) -> ProcessPool:
        return process_pool(
            self.count,
            *_IMPORTS,
            initializer=_start_worker,
            initargs=(self._locks, shares_of_cores(self.count)),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_pool()
        shutil.rmtree(self._locks, ignore_errors=True)

    def _replace_pool(self) -> None:
        self._stop_pool()
        self._pool = self._new_pool()

    def _stop_pool(self) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def submit(self, task: Task) -> None:
        try:
            future = self._pool.schedule(perform, args=[task])
        except RuntimeError:  # pebble gives up if a process dies before any has begun a task
            self._replace_pool()
            future = self._pool.schedule(perform, args=[task])
        self._running[future] = task

    def finished(self, seconds: float) -> list[Outcome]:
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        if not done and not self._pool.active:
            return self._lose_all()
        return [self._outcome(future) for future in done]

    def _lose_all(self) -> list[Outcome]:
        """Replace a pool that pebble has given up; its tasks would never have an outcome."""
        self._replace_pool()
        lost, self._running = list(self._running.values()), {}
        return [Outcome(task, failure=[_NOT_BEGUN]) for task in lost]

    def _outcome(self, future: Future[Outcome]) -> Outcome:
        task = self._running.pop(future)
        try:
            return future.result()
        except ProcessExpired as error:
            return Outcome(task, failure=[f"its worker ended unexpectedly: {_ending(error)}"])
        except BrokenProcessPool:
            return Outcome(task, failure=[_NOT_BEGUN])
        except Exception as error:  # such as a result that cannot be pickled
            return Outcome(task, failure=[f"{type(error).__name__}: {one_line(error)}"])


def _start_worker(locks: Path, shares: Sequence[Sequence[int]]) -> None:
    exit_with_parent()
    claim_cores(locks, shares)


def _ending(error: ProcessExpired) -> str:
    code = error.exitcode
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
