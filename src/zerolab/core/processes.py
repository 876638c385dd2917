"""Cores, threads and worker processes.

Worker processes are forked from a server that has imported their modules once (`process_pool`,
`map_in_processes`), may be pinned to shares of the cores (`claim_cores`), and end with their
parent.

The fork server imports this module first, which makes it end silently with its parent. By itself it
notices the end of its parent only between two requests: it would finish imports of many seconds and
then fork a process that prints a traceback because its parent is gone. Other processes may inherit
the environment variable, such as one that another thread starts at the same moment, so the module
does this in a fork server only.
"""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    Future,
    ThreadPoolExecutor,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait as wait_for_connections
from multiprocessing.context import BaseContext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from filelock import FileLock, Timeout

from zerolab.core.errors import MissingExtraWarning, UserError

if TYPE_CHECKING:
    from pebble import ProcessPool

_Result = TypeVar("_Result")


def available_cores() -> int:
    """Return how many cores this process may use, at least 1.

    This can be fewer than the machine has: `taskset` and batch systems pin processes to some cores,
    and containers have a quota of processor time, which is rounded up to whole cores here.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _cpu_quotas())]))


@contextmanager
def on_one_core() -> Iterator[None]:
    """Pin this thread, and threads that it starts meanwhile, to the first of its cores.

    Has no effect if the system cannot pin threads.
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

    Version 2 has one control group per process, version 1 one for each kind of resource, and some
    systems have both. A container may see its group as the topmost one but under its name outside
    the container; then the folders of that name are missing, and the topmost group counts.
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
    """Yield the quotas that `read` finds for a group and the groups above it."""
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
    """Return a limit in cores; negative if there is none."""
    quota, period = (
        int((folder / name).read_text()) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    return quota / period


def run_in_threads(work: Callable[[int, int], _Result], length: int, parts: int) -> list[_Result]:
    """Split range(length) into `parts` and call `work(begin, end)` for each in its own thread.

    The calling thread does the first part. Returns the results in order. An exception of any part
    is raised after all parts are done.
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
    """Return a pool of waiting threads; starting them would take longer than many parts do."""
    return ThreadPoolExecutor(threads, "part")


_UNITS_IN_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10


def peak_memory() -> int:
    """Return the peak memory use of this process so far, in MiB."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _UNITS_IN_MIB)


ProgressBar = Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]]
"""Progress callback for long-running work: called with a title, the total number of units and their
name, it returns a context with a function of the units done so far and a note to show."""


PARENT = "ZEROLAB_FORK_SERVER_OF"
"""Environment variable by which the server learns the process id of its parent."""


def fork_server_context(*modules: str) -> BaseContext:
    """Return a multiprocessing context whose processes have already imported `modules`.

    They are forked from a server that has imported the modules once and runs nothing else, which
    takes milliseconds while importing torch takes seconds. On systems without fork they are
    spawned. A program has one server, which imports the modules of the first call and keeps the
    environment variables and cores of that moment. It ends with the program, even while importing.
    Each process must call `exit_with_parent`.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *modules])
    _start_server()
    return context


def _start_server() -> None:
    """Start the server with Ctrl-C blocked, which would otherwise interrupt its imports."""
    with _environment("PYTHONWARNINGS", _unless_lost(os.environ.get("PYTHONWARNINGS"))):
        resource_tracker.ensure_running()  # which would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with _environment(PARENT, str(os.getpid())):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unless_lost(warnings: str | None) -> str:
    """Add a filter to PYTHONWARNINGS: no warnings of locks that a killed program has left."""
    return ",".join(filter(None, [warnings, "ignore:resource_tracker:UserWarning"]))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes that are started meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def exit_with_parent() -> None:
    """End this process when its parent ends, even if killed; leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # what it starts gets the mask
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_connections([parent.sentinel])
    os._exit(1)


_LOOK_SECONDS = 0.05
_LEFT_BY_A_PARENT = EOFError, OSError, pickle.UnpicklingError
"""Errors of multiprocessing after a parent has ended: broken pipes, removed locks."""


def _exit_server_with_parent(parent: int) -> None:
    """Watch for the end of the parent and exit with it, up to the first fork."""
    forks = threading.Event()

    def follow() -> None:
        while not forks.wait(_LOOK_SECONDS):
            if os.getppid() != parent:
                os._exit(1)

    def stop() -> None:
        """End the thread, because forking is safe only in processes of one thread."""
        forks.set()
        follower.join()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    os.register_at_fork(before=stop)


def _show_unless_parent_has_ended(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an exception of the server or of a starting process, unless its parent has ended."""
    where = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)]
    is_own = bool(where) and where[-1].startswith("multiprocessing.")
    if not (is_own and isinstance(error, _LEFT_BY_A_PARENT)):
        sys.__excepthook__(kind, error, trace)


def _is_server() -> bool:
    """Return whether this process is a fork server of multiprocessing."""
    return getattr(sys.modules["__main__"], "main", None) is forkserver.main


if PARENT in os.environ and _is_server():
    _exit_server_with_parent(int(os.environ.pop(PARENT)))
    atexit.register(os._exit, 0)  # unloading torch would take a second
    sys.excepthook = _show_unless_parent_has_ended


_AHEAD = 4  # items submitted per process, so that none waits for the slowest

_MappedItem = TypeVar("_MappedItem")
_MappedResult = TypeVar("_MappedResult")


def process_pool(
    processes: int,
    *modules: str,
    initializer: Callable[..., None] = exit_with_parent,
    initargs: Sequence[Any] = (),
) -> ProcessPool:
    """Return a pool of processes that have imported `modules`; see `fork_server_context`.

    The death of a process fails its task only, with `pebble.ProcessExpired`. The `initializer` must
    call `exit_with_parent`.
    """
    from pebble import ProcessPool  # noqa: PLC0415  few commands need it

    return ProcessPool(
        processes,
        initializer=initializer,
        initargs=list(initargs),
        context=fork_server_context(*modules),
    )


@contextmanager
def map_in_processes(
    function: Callable[[_MappedItem], _MappedResult], items: Iterator[_MappedItem], processes: int
) -> Iterator[Iterator[_MappedResult]]:
    """Yield an iterator over the results of `function`; leaving the context ends all processes.

    With one process, the work is done in this process. Raises UserError if a process dies.
    """
    if processes == 1:
        yield map(function, items)
        return
    from pebble import ProcessExpired  # noqa: PLC0415  as above

    pool = process_pool(processes, function.__module__, initializer=_start_worker)
    try:
        yield _ordered_results(pool, function, items, _AHEAD * processes)
    except (BrokenProcessPool, ProcessExpired):
        raise UserError(
            "a process ended unexpectedly, perhaps for lack of memory: repeat the command, with"
            " fewer --processes, to resume"
        ) from None
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _start_worker() -> None:
    exit_with_parent()
    warnings.simplefilter("ignore", MissingExtraWarning)  # the parent warns


def _ordered_results(
    pool: ProcessPool,
    function: Callable[[_MappedItem], _MappedResult],
    items: Iterator[_MappedItem],
    ahead: int,
) -> Iterator[_MappedResult]:
    waiting: deque[Future[_MappedResult]] = deque(
        pool.schedule(function, args=[item]) for item in islice(items, ahead)
    )
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.schedule(function, args=[item]) for item in islice(items, 1))


def shares_of_cores(workers: int) -> list[list[int]]:
    """Divide the cores of this process evenly; more workers than cores share them."""
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))[: available_cores()]
    if workers >= len(cores):
        return [[cores[worker % len(cores)]] for worker in range(workers)]
    bounds = [len(cores) * worker // workers for worker in range(workers + 1)]
    return [cores[bounds[worker] : bounds[worker + 1]] for worker in range(workers)]


_claimed_cores: list[FileLock] = []
"""Lock of the share of cores that this process holds."""


def claim_cores(locks: Path, shares: Sequence[Sequence[int]]) -> None:
    """Pin this process to a share of cores that no other process holds, and hold it to the end.

    The first call that finds a free share takes it; until then the process uses a share together
    with another one. Shares are locked by files in the folder `locks`, so that those of ended
    processes are free again. Has no effect where the system cannot pin processes.
    """
    if _claimed_cores or not hasattr(os, "sched_setaffinity"):
        return
    for number, cores in enumerate(shares):
        lock = FileLock(locks / str(number), thread_local=False)
        with suppress(Timeout):
            lock.acquire(timeout=0)
            _claimed_cores.append(lock)
            os.sched_setaffinity(0, cores)
            return
    os.sched_setaffinity(0, shares[os.getpid() % len(shares)])
