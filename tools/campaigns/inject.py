"""Plans that kill a process at a file operation or make the operation fail.

The plan is in the environment, so that child processes inherit it. Each process counts its own
operations. Python's operations on the files of one folder are counted before they happen: opening
files, writing (half of the data is written), flushing to disk, renaming, removing, creating
folders, and SQLite statements. Writes by C libraries are not counted, but kills at random times
can interrupt them.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

CALLS = ("open", "write", "fsync", "rename", "remove", "mkdir", "sql")
"""Kinds of counted operations."""

_VARIABLE = "ZEROLAB_CAMPAIGN_PLAN"
_EVENTS = {
    "open": "open", "os.rename": "rename", "os.link": "rename", "os.remove": "remove",
    "os.mkdir": "mkdir",
}  # fmt: skip
_WRITING = set("wax+")


class Plan(NamedTuple):
    """Disturbance of one file operation."""

    folder: str
    """Folder whose operations are counted."""
    call: str = ""
    """Kind of operation in `CALLS`, or empty for no disturbance."""
    number: int = 0
    """Number of the operation of this kind, starting at 1."""
    error: int = 0
    """Error number with which the operation fails, or 0 to kill the process."""
    lasts: bool = False
    """True if all later operations of this kind fail too."""
    counts: str = ""
    """File that receives a line for each operation."""

    def environment(self) -> dict[str, str]:
        """Return environment variables that pass the plan to a process and its children."""
        return {_VARIABLE: json.dumps(self._asdict())}


def install_from_environment() -> None:
    """Install this process's plan, if there is one."""
    if text := os.environ.get(_VARIABLE):
        _install(Plan(**json.loads(text)))


def counted(path: Path) -> Counter[str]:
    """Return the largest number of operations of each kind in any process."""
    by_process = Counter(path.read_text().splitlines())
    largest: Counter[str] = Counter()
    for line, count in by_process.items():
        call = line.split()[0]
        largest[call] = max(largest[call], count)
    return largest


def _install(plan: Plan) -> None:
    counting = _Counting(plan)
    sys.addaudithook(counting.audit)
    original = os.fsync

    def fsync(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        counting.step("fsync", f"/proc/self/fd/{number}")
        original(file)

    os.fsync = fsync  # type: ignore[assignment]
    builtins.open = io.open = _opening(counting)
    original_connect = sqlite3.connect

    def connect(database: Any, *arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = original_connect(database, *arguments, **named)
        counting.join(connection, os.fsdecode(database))
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


class _Counting:
    """Counter of a process's operations, which also carries out the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._remaining = plan.number
        self._busy = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle an audit event; see `sys.addaudithook`."""
        if self._busy:
            return
        if event in _EVENTS:
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                self.step(_EVENTS[event], os.fsdecode(path))

    def join(self, connection: Any, database: str) -> None:
        """Count a connection's statements or, to make them fail, stop its file from growing."""
        if not self._is_within(database.removeprefix("file:").partition("?")[0]):
            return
        if self._plan.error and self.is_due("sql", self._plan.folder):
            self._busy = True
            connection.execute("PRAGMA max_page_count = 1")
            self._busy = False
        elif not self._plan.error:
            connection.set_trace_callback(lambda _: self.step("sql", self._plan.folder))

    def step(self, call: str, path: str) -> None:
        """Count an operation; carry out the plan if this is its operation."""
        if self.is_due(call, path):
            self.strike(path)

    def strike(self, path: str) -> None:
        """Kill the process or raise OSError."""
        if not self._plan.error:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self._plan.error, os.strerror(self._plan.error), path)

    def is_due(self, call: str, path: str) -> bool:
        """Count an operation; return whether the plan applies to it."""
        if self._busy or not self._is_within(path):
            return False
        self._note(call)
        if call != self._plan.call:
            return False
        self._remaining -= 1
        return self._remaining == 0 or (self._remaining < 0 and self._plan.lasts)

    def _is_within(self, path: str) -> bool:
        if path.startswith("/proc/self/fd/"):
            try:
                path = os.readlink(path)  # noqa: PTH115  hooks must not use pathlib
            except OSError:
                return False
        absolute = os.path.abspath(path)  # noqa: PTH100  hooks must not use pathlib
        return absolute == self._plan.folder or absolute.startswith(f"{self._plan.folder}/")

    def _note(self, call: str) -> None:
        if self._plan.counts:
            self._busy = True
            file = os.open(self._plan.counts, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, f"{call} {os.getpid()}\n".encode())
            os.close(file)
            self._busy = False


def _opening(counting: _Counting) -> Any:
    """Return a replacement of `open` whose files count writes."""
    original = io.open

    class Counted(io.FileIO):
        def write(self, data: Any) -> int:
            if counting.is_due("write", str(self.name)):
                view = memoryview(data).cast("B")
                super().write(view[: len(view) // 2])
                counting.strike(str(self.name))
            return super().write(data)

    def opened(
        file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None,
        errors: str | None = None, newline: str | None = None, closefd: bool = True,
        opener: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(file, int) or not _WRITING & set(mode):
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Counted(file, mode.translate({98: None, 116: None}), closefd, opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text

    return opened
