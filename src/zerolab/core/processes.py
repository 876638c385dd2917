"""Processes that work for another one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext


def forked_after_import(*modules: str) -> BaseContext:
    """Return how to start processes that have imported some modules already.

    They are forked from a server that has imported them once and runs nothing else, which takes
    milliseconds where importing torch takes seconds. Where a system cannot fork, they start anew.
    A program has one server, which imports what the first to ask for it names, and keeps the
    environment variables and the cores of that moment. Each process must call `serve_parent`.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    _start_server()
    return context


def _start_server() -> None:
    """Start the server with Ctrl-C blocked, which would end its imports with a traceback."""
    resource_tracker.ensure_running()  # which would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
