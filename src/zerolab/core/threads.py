"""Sharing out the work of kernels, which release the interpreter lock, among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

_Result = TypeVar("_Result")


def in_parts(work: Callable[[int, int], _Result], length: int, parts: int) -> list[_Result]:
    """Call `work(begin, end)` for as many parts of range(length), each in a thread of its own.

    The calling thread takes the first part. An exception of any part is raised once all are done.
    """
    bounds = [length * part // parts for part in range(parts + 1)]
    futures = [_pool(parts - 1).submit(work, *bounds[part : part + 2]) for part in range(1, parts)]
    try:
        first = work(*bounds[:2])
    finally:
        others = [future.exception() for future in futures]
    for error in filter(None, others):
        raise error
    return [first, *(future.result() for future in futures)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that wait for work: starting them would take longer than many a part."""
    return ThreadPoolExecutor(threads, "part")
