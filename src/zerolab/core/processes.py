"""Cores, threads and worker processes.

Worker processes are forked from a server that has already imported their modules (`process_pool`,
`map_in_processes`), can be pinned to shares of the cores (`claim_cores`), and end with their
parent.

The fork server imports this module first, so that it exits silently with its parent. Otherwise, it
would check only between requests whether its parent had exited. It would finish imports that take
many seconds, and then fork a process that prints a traceback because the parent has exited. This
module watches the parent only in a fork server, since other processes, such as one that another
thread starts at the same time, can inherit the environment variable `_PARENT_PROCESS_VARIABLE`.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait as wait_for_connections
from multiprocessing.context import BaseContext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from filelock import FileLock, Timeout

from zerolab.core.errors import SlowFallbackWarning, UserError
from zerolab.core.resources import cpu_quotas

if TYPE_CHECKING:
    from pebble import ProcessPool

_Result = TypeVar("_Result")


def available_cores() -> int:
    """Return the number of cores that this process can use, at least 1.

    The machine may have more cores. `taskset` and batch systems pin processes to some of them, and
    containers have a quota of processor time, which is rounded up to whole cores.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in cpu_quotas())]))


@contextmanager
def pinned_to_one_core() -> Iterator[None]:
    """Pin this thread, and any threads it starts in the context, to the first of its cores.

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


def run_in_threads(work: Callable[[int, int], _Result], length: int, parts: int) -> list[_Result]:
    """Split range(length) into `parts` parts and call `work(begin, end)` for each in a thread.

    The calling thread processes the first part. Returns the results in order. An exception in any
    part is raised after all parts have finished.
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
    """Return a pool that keeps its threads, since starting one can take longer than its work."""
    return ThreadPoolExecutor(threads, "part")


_PARENT_PROCESS_VARIABLE = "ZEROLAB_FORK_SERVER_OF"
"""Environment variable with the process id of the parent of the fork server."""


def fork_server_context(*modules: str) -> BaseContext:
    """Return a multiprocessing context whose processes have already imported `modules`.

    The processes are forked from a server that has imported the modules and does nothing else. A
    fork takes milliseconds, whereas importing torch takes seconds. On systems without fork, the
    processes are spawned. A program has only one server, which imports the modules named in the
    first call and keeps the environment variables and cores that the program had then. The server
    exits with the program, even during imports. Each process must call `exit_with_parent`.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *modules])
    _start_server()
    return context


def _start_server() -> None:
    """Start the server with Ctrl-C blocked, since Ctrl-C would otherwise interrupt its imports."""
    # A killed program leaves locks behind, which the resource tracker should not warn about.
    filters = [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker:UserWarning"]
    with _environment("PYTHONWARNINGS", ",".join(filter(None, filters))):
        resource_tracker.ensure_running()  # before blocking Ctrl-C, since this call unblocks it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with _environment(_PARENT_PROCESS_VARIABLE, str(os.getpid())):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes started in the context."""
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
    """End this process when its parent ends or is killed; ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # child processes inherit the signal mask
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_connections([parent.sentinel])
    os._exit(1)


_POLL_SECONDS = 0.05
_ERRORS_WITHOUT_PARENT = EOFError, OSError, pickle.UnpicklingError
"""Errors of multiprocessing after the parent has exited, such as broken pipes or removed locks."""


def _exit_server_with_parent(parent: int) -> None:
    """Watch the parent until the first fork, and exit if the parent exits."""
    is_forking = threading.Event()

    def watch_parent() -> None:
        while not is_forking.wait(_POLL_SECONDS):
            if os.getppid() != parent:
                os._exit(1)

    def stop() -> None:
        """End the thread, because only single-threaded processes can fork safely."""
        is_forking.set()
        watcher.join()

    watcher = threading.Thread(target=watch_parent, daemon=True)
    watcher.start()
    os.register_at_fork(before=stop)


def _show_unless_parent_has_ended(
    error_type: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an exception of the server or of a new process, unless the parent's exit caused it.

    For a UserError, only the message is printed.
    """
    if isinstance(error, UserError):
        print(error, file=sys.stderr)
        return
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)]
    is_internal = bool(modules) and modules[-1].startswith("multiprocessing.")
    if not (is_internal and isinstance(error, _ERRORS_WITHOUT_PARENT)):
        sys.__excepthook__(error_type, error, trace)


def is_multiprocessing_child() -> bool:
    """Return True in a process that multiprocessing has started, such as a fork server."""
    return multiprocessing.parent_process() is not None or _is_fork_server()


def _is_fork_server() -> bool:
    """Return True if this process is a fork server of multiprocessing."""
    return getattr(sys.modules["__main__"], "main", None) is forkserver.main


if _PARENT_PROCESS_VARIABLE in os.environ and _is_fork_server():
    _exit_server_with_parent(int(os.environ.pop(_PARENT_PROCESS_VARIABLE)))
    atexit.register(os._exit, 0)  # skip the unloading of torch, which takes a second
    sys.excepthook = _show_unless_parent_has_ended


def require_main_guard() -> None:
    """Raise UserError if called by a script while a new process is importing it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UserError(
            'a script that starts processes needs if __name__ == "__main__": around its commands,'
            " because every process imports the script"
        )


_ITEMS_AHEAD = 4  # items queued per process, so that no process waits for the slowest
_POOL_CHECK_SECONDS = 1.0  # a pool that has given up may leave futures without a result

_MappedItem = TypeVar("_MappedItem")
_MappedResult = TypeVar("_MappedResult")


def process_pool(
    processes: int,
    *modules: str,
    initializer: Callable[..., None] = exit_with_parent,
    initargs: Sequence[Any] = (),
) -> ProcessPool:
    """Return a pool of processes that have imported `modules`; see `fork_server_context`.

    If a process dies, only its task fails, with `pebble.ProcessExpired`. The `initializer` must
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
    function: Callable[[_MappedItem], _MappedResult],
    items: Iterator[_MappedItem],
    processes: int,
    *,
    option: str = "--processes",
) -> Iterator[Iterator[_MappedResult]]:
    """Yield an iterator over the results of `function`; leaving the context ends all processes.

    If `processes` is 1, the function runs in the current process. If a process dies, raises
    UserError with the advice to use fewer. `option` is the command-line option that sets the number
    of processes and that the message names.
    """
    if processes == 1:
        yield map(function, items)
        return
    from pebble import ProcessExpired  # noqa: PLC0415  few commands need it

    pool = process_pool(processes, function.__module__, initializer=_start_worker)
    try:
        yield _ordered_results(pool, function, items, _ITEMS_AHEAD * processes)
    except (BrokenProcessPool, ProcessExpired):
        raise UserError(
            "a process ended unexpectedly, perhaps because memory ran out: repeat the command with"
            f" a smaller {option} to resume"
        ) from None
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _start_worker() -> None:
    exit_with_parent()
    warnings.simplefilter("ignore", SlowFallbackWarning)  # the parent warns


def _ordered_results(
    pool: ProcessPool,
    function: Callable[[_MappedItem], _MappedResult],
    items: Iterator[_MappedItem],
    ahead: int,
) -> Iterator[_MappedResult]:
    pending = deque(_scheduled(pool, function, islice(items, ahead)))
    while pending:
        future = pending.popleft()
        while not wait([future], _POOL_CHECK_SECONDS).done:
            if not pool.active:
                raise BrokenProcessPool
        yield future.result()
        pending.extend(_scheduled(pool, function, islice(items, 1)))


def _scheduled(
    pool: ProcessPool,
    function: Callable[[_MappedItem], _MappedResult],
    items: Iterator[_MappedItem],
) -> Iterator[Future[_MappedResult]]:
    """Yield the future of each item; raise BrokenProcessPool if the pool has given up."""
    for item in items:
        try:
            future = pool.schedule(function, args=[item])
        except RuntimeError:  # pebble gives up if a process dies before any has begun a task
            raise BrokenProcessPool from None
        yield future


def cores_by_worker(workers: int) -> list[list[int]]:
    """Return the cores of each worker: an even share of this process's cores.

    If there are more workers than cores, several workers share a core. The shares are empty if the
    system cannot pin processes.
    """
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))[: available_cores()]
    if workers >= len(cores):
        return [[cores[worker % len(cores)]] for worker in range(workers)]
    bounds = [len(cores) * worker // workers for worker in range(workers + 1)]
    return [cores[bounds[worker] : bounds[worker + 1]] for worker in range(workers)]


_claimed_cores: list[tuple[int, FileLock]] = []
"""Number and lock of the share of cores claimed by this process, if any."""


def claim_cores(locks: Path, shares: Sequence[Sequence[int]]) -> int:
    """Pin this process to a share of cores that no other process uses; return the share's number.

    The process keeps the share until it ends. If all shares are in use, it shares one with another
    process, and the next call tries again. Each share is locked with a file in the `locks` folder,
    so that it becomes free when its process ends. If the system cannot pin processes, nothing is
    pinned and 0 is returned.
    """
    if _claimed_cores or not hasattr(os, "sched_setaffinity"):
        return _claimed_cores[0][0] if _claimed_cores else 0
    for i, cores in enumerate(shares):
        lock = core_share_lock(locks, cores, shares[:i].count(cores))
        with suppress(Timeout):
            lock.acquire(timeout=0)
            _claimed_cores.append((i, lock))
            os.sched_setaffinity(0, cores)
            return i
    shared = os.getpid() % len(shares)
    os.sched_setaffinity(0, shares[shared])
    return shared


def core_share_lock(locks: Path, cores: Sequence[int], number: int) -> FileLock:
    """Return the lock of a share of cores, where `number` earlier shares have the same cores.

    The file is named after a digest, since file names cannot list all cores of a large machine.
    """
    digest = hashlib.sha256(repr(list(cores)).encode()).hexdigest()[:16]
    return FileLock(locks / f"{digest}.{number}", thread_local=False)
