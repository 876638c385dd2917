"""Processes that work for another one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

PARENT = "ZEROLAB_FORK_SERVER_OF"
"""The environment variable that gives the server the process id of its parent."""

# By its name, as nothing but the server is to import it.
_PRELOAD = f"{__package__}.fork_server_preload"


def forked_after_import(*modules: str) -> BaseContext:
    """Return how to start processes that have imported some modules already.

    They are forked from a server that has imported them once and runs nothing else, which takes
    milliseconds where importing torch takes seconds. Where a system cannot fork, they start anew.
    A program has one server, which imports what the first to ask for it names, and keeps the
    environment variables and the cores of that moment. It ends with the program, even while it
    imports. Each process must call `serve_parent`.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD, *modules])
    _start_server()
    return context


def _start_server() -> None:
    """Start the server with Ctrl-C blocked, which would end its imports with a traceback."""
    with _environment("PYTHONWARNINGS", _unless_lost(os.environ.get("PYTHONWARNINGS"))):
        resource_tracker.ensure_running()  # which would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with _environment(PARENT, str(os.getpid())):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unless_lost(warnings: str | None) -> str:
    """Return which warnings to show: none of locks that a killed program has left."""
    return ",".join(filter(None, [warnings, "ignore:resource_tracker:UserWarning"]))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for the processes that are started meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def serve_parent() -> None:
    """End this process when its parent ends, even killed; leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # what it starts gets the mask
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
