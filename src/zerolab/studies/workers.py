"""Workers of a study: the protocol, and processes on this machine."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from pebble import ProcessExpired, ProcessPool

from zerolab.core.errors import one_line
from zerolab.core.processes import (
    claim_cores,
    fork_server_context,
    shares_of_cores,
)
from zerolab.studies.tasks import Outcome, Task, perform

_IMPORTS = perform.__module__, "torch._dynamo"
"""What workers need that takes long to import; optimizers import the last."""

_NOT_BEGUN = "its worker ended unexpectedly: before it began"


class Workers(Protocol):
    """Does tasks, `count` at a time. It is a context: leaving it ends all work at once."""

    count: int

    def __enter__(self) -> Self:
        """Get ready."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; tasks that are not done are not."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task; at most `count` are under way."""
        ...

    def finished(self, seconds: float) -> list[Outcome]:
        """Wait that long for an outcome; return all that there are by then."""
        ...


class LocalWorkers:
    """Processes on this machine, each pinned to its share of the cores.

    One that dies, whatever kills it, fails its task alone and is replaced. All of them end with
    this process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._running: dict[Future[Outcome], Task] = {}

    def __enter__(self) -> Self:
        """See `Workers`."""
        self._locks = Path(tempfile.mkdtemp(prefix="zerolab-workers-"))
        self._pool = self._new_pool()
        return self

    def _new_pool(self) -> ProcessPool:
        return ProcessPool(
            self.count,
            initializer=claim_cores,
            initargs=(str(self._locks), shares_of_cores(self.count)),
            context=fork_server_context(*_IMPORTS),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `Workers`."""
        self._stop_pool()
        shutil.rmtree(self._locks, ignore_errors=True)

    def _replace_pool(self) -> None:
        self._stop_pool()
        self._pool = self._new_pool()

    def _stop_pool(self) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def submit(self, task: Task) -> None:
        """See `Workers`."""
        try:
            future = self._pool.schedule(perform, args=[task])
        except RuntimeError:  # pebble gives up where a process dies while none has begun a task
            self._replace_pool()
            future = self._pool.schedule(perform, args=[task])
        self._running[future] = task

    def finished(self, seconds: float) -> list[Outcome]:
        """See `Workers`."""
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        if not done and not self._pool.active:
            return self._lose_all()
        return [self._outcome(future) for future in done]

    def _lose_all(self) -> list[Outcome]:
        """End a pool that pebble has given up, some of whose tasks will never have an outcome."""
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
        except Exception as error:  # such as a result that could not travel
            return Outcome(task, failure=[f"{type(error).__name__}: {one_line(error)}"])


def _ending(error: ProcessExpired) -> str:
    code = error.exitcode
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
