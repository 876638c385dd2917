"""Work done by several processes, results in the order of the items."""

from __future__ import annotations

import multiprocessing
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from zerolab.core.errors import MissingExtraWarning, UserError
from zerolab.core.processes import forked_after_import, serve_parent

_AHEAD = 4  # items in hand for each process, so that none waits for the slowest

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def in_order(
    function: Callable[[_Item], _Result], items: Iterator[_Item], processes: int
) -> Iterator[Iterator[_Result]]:
    """Yield an iterator over the results of `function`; leaving the context ends all processes.

    With one process the work is done in this one. Raises UserError where a process dies.
    """
    if processes == 1:
        yield map(function, items)
        return
    others = set(multiprocessing.active_children())
    context = forked_after_import(function.__module__)
    pool = ProcessPoolExecutor(processes, context, initializer=_start_worker)
    try:
        yield _results(pool, function, items, _AHEAD * processes)
    except BrokenProcessPool:
        raise UserError(
            "a process ended unexpectedly, perhaps for lack of memory: repeat the command, with"
            " fewer --processes, to resume"
        ) from None
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    serve_parent()
    warnings.simplefilter("ignore", MissingExtraWarning)  # the parent has said so


def _results(
    pool: ProcessPoolExecutor,
    function: Callable[[_Item], _Result],
    items: Iterator[_Item],
    ahead: int,
) -> Iterator[_Result]:
    waiting: deque[Future[_Result]] = deque(
        pool.submit(function, item) for item in islice(items, ahead)
    )
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(function, item) for item in islice(items, 1))
