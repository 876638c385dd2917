"""Threads for kernels, which release the interpreter lock, and the cores there are for them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")


def available_cores() -> int:
    """Return how many cores this process may use, at least 1.

    That can be fewer than the machine has: `taskset` and batch systems bind processes to some of
    them, and containers have a quota of processor time (rounded up to whole cores here).
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _cpu_quotas())]))


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let this thread, and those that it starts meanwhile, use only the first of its cores.

    Where the system cannot bind threads to cores, nothing changes.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _cpu_quotas(root: Path = Path("/")) -> Iterator[float]:
    """Yield the limits, in cores, of this process's control groups and of those above them.

    With version 2 of control groups there is one, with version 1 one for each kind of resource;
    systems in between have both. A container may see its own group as the topmost one under the
    name that it has outside: then the folders of that name are missing, and the topmost counts.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mounts = root / "sys/fs/cgroup"
    for _, resources, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not resources:
            yield from _quotas_up(mounts, group, _quota_of_version_2)
        elif "cpu" in resources.split(","):
            for name in {resources, "cpu"}:  # one is often a link to the other
                yield from _quotas_up(mounts / name, group, _quota_of_version_1)


def _quotas_up(mount: Path, group: str, read: Callable[[Path], float]) -> Iterator[float]:
    """Yield what `read` finds for a group and those above it."""
    folder = mount / group.strip("/")
    for each in (folder, *folder.parents):
        if not each.is_relative_to(mount):
            return
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota = read(each)
            if 0 < quota < math.inf:
                yield quota


def _quota_of_version_2(folder: Path) -> float:
    quota, period = (folder / "cpu.max").read_text().split()
    return float(quota.replace("max", "inf")) / int(period)


def _quota_of_version_1(folder: Path) -> float:
    """Return a limit in cores, negative where there is none."""
    quota, period = (
        int((folder / name).read_text()) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    return quota / period


def in_parts(work: Callable[[int, int], _Result], length: int, parts: int) -> list[_Result]:
    """Split range(length) into `parts` and call `work(begin, end)` for each in its own thread.

    The calling thread takes the first part. Returns the results in order. An exception of any
    part is raised once all are done.
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
    """Return threads that wait for work: starting them takes longer than many parts do."""
    return ThreadPoolExecutor(threads, "part")
