"""Replacements for search processes: unresponsive processes, threads and forks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from forks import Fork
from zerolab.web.search_process import execute_commands

_SECONDS = 60
MARK = Path("respond")


def read_nothing(connection: Connection) -> None:
    """Sleep for a long time."""
    time.sleep(_SECONDS)


def read_nothing_at_first(connection: Connection) -> None:
    """Serve searches if the file MARK exists, and sleep for a long time otherwise."""
    if MARK.exists():
        execute_commands(connection)
    else:
        read_nothing(connection)


class SearchThread:
    """A thread that replaces a search process, with all modules imported and kernels compiled."""

    def __init__(
        self, target: Callable[[Connection], None], args: tuple[Connection], daemon: bool
    ) -> None:
        self._connection = Connection(os.dup(args[0].fileno()))  # the worker closes the original
        self._thread = threading.Thread(target=self._serve, daemon=daemon)

    def _serve(self) -> None:
        execute_commands(self._connection)
        with suppress(OSError):
            self._connection.close()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def kill(self) -> None:
        """End the thread by shutting down its connection in both directions."""
        with (
            suppress(OSError),
            socket.socket(fileno=os.dup(self._connection.fileno())) as connected,
        ):
            connected.shutdown(socket.SHUT_RDWR)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        self._thread.join(timeout)


class ForkedProcess:
    """A search process forked from a server, so that it spends no seconds on imports."""

    _CODE = """
import os
from multiprocessing.connection import Connection
from zerolab.web.search_process import execute_commands
connection = Connection(os.dup(1))
os.dup2(2, 1)
execute_commands(connection)
"""

    def __init__(
        self, target: Callable[[Connection], None], args: tuple[Connection], daemon: bool
    ) -> None:
        self._connection = args[0]

    def start(self) -> None:
        """Start the process with the connection in place of its standard output."""
        self._fork = Fork(code=self._CODE, stdout=self._connection.fileno())
        self.pid = self._fork.pid

    def kill(self) -> None:
        """Kill the process if it is running."""
        if self._fork.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def join(self, timeout: float) -> None:
        """Wait until the process has ended."""
        self._fork.finish(timeout)


def fork_context(method: str) -> Any:
    """Replace `multiprocessing.get_context`."""
    return SimpleNamespace(Pipe=multiprocessing.Pipe, Process=ForkedProcess)


def thread_context(method: str) -> Any:
    """Replace `multiprocessing.get_context`."""
    return SimpleNamespace(Pipe=multiprocessing.Pipe, Process=SearchThread)
