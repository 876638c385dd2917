"""Interface of study workers, and workers that are processes on this machine."""

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
    core_shares,
    exit_with_parent,
    process_pool,
)
from zerolab.studies.tasks import Task, TaskOutcome, perform_task

_IMPORTS = (perform_task.__module__,)
"""Modules that workers import at their start, because the import is slow."""

_NOT_BEGUN = "its worker ended unexpectedly before the task began"


class Workers(Protocol):
    """Workers that perform up to `count` tasks at a time. Leaving the context stops all tasks."""

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
        """Stop all workers and abandon unfinished tasks."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task; at most `count` - 1 tasks may be active."""
        ...

    def wait_for_outcomes(self, seconds: float) -> list[TaskOutcome]:
        """Wait up to `seconds` for an outcome and return all available outcomes."""
        ...


class LocalWorkers:
    """Worker processes on this machine, each pinned to its share of the cores.

    If a process dies, only its task fails, and a new process takes its place. All workers end with
    this process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._running: dict[Future[TaskOutcome], Task] = {}

    def __enter__(self) -> Self:
        self._locks = Path(tempfile.mkdtemp(prefix="zerolab-workers-"))
        self._pool = self._new_pool()
        return self

    def _new_pool(self) -> ProcessPool:
        return process_pool(
            self.count,
            *_IMPORTS,
            initializer=_start_worker,
            initargs=(self._locks, core_shares(self.count)),
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
            future = self._pool.schedule(perform_task, args=[task])
        except RuntimeError:  # the pool breaks if a process dies before any task has begun
            self._replace_pool()
            future = self._pool.schedule(perform_task, args=[task])
        self._running[future] = task

    def wait_for_outcomes(self, seconds: float) -> list[TaskOutcome]:
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        if not done and not self._pool.active:
            return self._lose_all()
        return [self._outcome(future) for future in done]

    def _lose_all(self) -> list[TaskOutcome]:
        """Replace a broken pool and return an error for each of its tasks."""
        self._replace_pool()
        lost, self._running = list(self._running.values()), {}
        return [TaskOutcome(task, error_lines=[_NOT_BEGUN]) for task in lost]

    def _outcome(self, future: Future[TaskOutcome]) -> TaskOutcome:
        task = self._running.pop(future)
        try:
            return future.result()
        except ProcessExpired as error:
            return TaskOutcome(
                task, error_lines=[f"its worker ended unexpectedly: {_ending(error)}"]
            )
        except BrokenProcessPool:
            return TaskOutcome(task, error_lines=[_NOT_BEGUN])
        except Exception as error:  # such as a result that cannot be pickled
            return TaskOutcome(task, error_lines=[f"{type(error).__name__}: {one_line(error)}"])


def _start_worker(locks: Path, shares: Sequence[Sequence[int]]) -> None:
    exit_with_parent()
    claim_cores(locks, shares)


def _ending(error: ProcessExpired) -> str:
    code = error.exitcode
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
