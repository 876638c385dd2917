"""Processes that work for another one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext


def forked_after_import(*modules: str) -> BaseContext:
    """Return how to start processes that have imported some modules already.

    They are forked from a server that has imported them once and has no threads, which takes
    milliseconds where importing torch takes seconds. Where a system cannot fork, they start anew.
    A program has one server, which imports what the first to start a process asks for.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    return context


def serve_parent() -> None:
    """End this process when its parent ends, even killed; leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
