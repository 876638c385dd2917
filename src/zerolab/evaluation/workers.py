"""Work done by several processes, its results taken in the order of the tasks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait
from typing import TypeVar

from zerolab.core.errors import UserError

_AHEAD = 4  # tasks in hand for each process, so that none waits for the slowest

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@contextmanager
def in_order(
    function: Callable[[_Task], _Result], tasks: Iterator[_Task], processes: int
) -> Iterator[Iterator[_Result]]:
    """Give an iterator over the results of `function`; leaving it ends the processes at once.

    With one process the work is done in this one. Raises UserError where a process dies.
    """
    if processes == 1:
        yield map(function, tasks)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_prepare)
    try:
        yield _results(pool, function, tasks, _AHEAD * processes)
    except BrokenProcessPool:
        raise UserError(
            "a process ended unexpectedly, perhaps for want of memory: give the same command again"
            " to go on, with fewer --processes"
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _results(
    pool: ProcessPoolExecutor,
    function: Callable[[_Task], _Result],
    tasks: Iterator[_Task],
    ahead: int,
) -> Iterator[_Result]:
    waiting: deque[Future[_Result]] = deque(
        pool.submit(function, task) for task in islice(tasks, ahead)
    )
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(function, task) for task in islice(tasks, 1))


def _prepare() -> None:
    """End this process when its parent ends, even killed; Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
