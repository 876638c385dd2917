"""Kills a process at one of its operations on files, or lets one fail, as a plan says.

The plan is in the environment, so that the processes that a command starts have it, too; each
counts for itself. Operations of Python on files of one folder are counted before they happen:
opened files, writes (of which half is done), flushes to disk, renames, removals, made folders,
statements of SQLite. What libraries in C write of themselves is not seen; random moments reach it.
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
"""The kinds of operations that are counted."""

_VARIABLE = "ZEROLAB_CAMPAIGN_PLAN"
_EVENTS = {
    "open": "open", "os.rename": "rename", "os.link": "rename", "os.remove": "remove",
    "os.mkdir": "mkdir",
}  # fmt: skip
_WRITING = set("wax+")


class Plan(NamedTuple):
    """A disturbance: the operation to strike and its effect."""

    folder: str
    """Only operations on what is in here count."""
    call: str = ""
    """One of `CALLS`; none: nothing happens."""
    number: int = 0
    """At which of them, counted from 1."""
    error: int = 0
    """The errno it fails with; 0: SIGKILL."""
    lasts: bool = False
    """True if all later operations fail as well."""
    counts: str = ""
    """A file that gets a line for each operation."""

    def environment(self) -> dict[str, str]:
        """Return the variables by which a process and its children get the plan."""
        return {_VARIABLE: json.dumps(self._asdict())}


def install_from_environment() -> None:
    """Install the plan of this process, if it has one."""
    if text := os.environ.get(_VARIABLE):
        _install(Plan(**json.loads(text)))


def counted(path: Path) -> Counter[str]:
    """Return how many operations of each kind the busiest process has made."""
    each = Counter(path.read_text().splitlines())
    found: Counter[str] = Counter()
    for line, count in each.items():
        call = line.split()[0]
        found[call] = max(found[call], count)
    return found


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
    """Counts operations, and does what the plan says."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left = plan.number
        self._busy = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """See `sys.addaudithook`."""
        if self._busy:
            return
        if event in _EVENTS:
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                self.step(_EVENTS[event], os.fsdecode(path))

    def join(self, connection: Any, database: str) -> None:
        """Count the statements of a connection; let its file grow no more where they fail."""
        if not self._is_within(database.removeprefix("file:").partition("?")[0]):
            return
        if self._plan.error and self.is_due("sql", self._plan.folder):
            self._busy = True
            connection.execute("PRAGMA max_page_count = 1")
            self._busy = False
        elif not self._plan.error:
            connection.set_trace_callback(lambda _: self.step("sql", self._plan.folder))

    def step(self, call: str, path: str) -> None:
        """Count an operation; raise OSError where it is to fail."""
        if self.is_due(call, path):
            self.strike(path)

    def strike(self, path: str) -> None:
        """Do what the plan says."""
        if not self._plan.error:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self._plan.error, os.strerror(self._plan.error), path)

    def is_due(self, call: str, path: str) -> bool:
        """Count an operation; return whether it is the one of the plan."""
        if self._busy or not self._is_within(path):
            return False
        self._note(call)
        if call != self._plan.call:
            return False
        self._left -= 1
        return self._left == 0 or (self._left < 0 and self._plan.lasts)

    def _is_within(self, path: str) -> bool:
        if path.startswith("/proc/self/fd/"):
            try:
                path = os.readlink(path)  # noqa: PTH115  no paths of pathlib in a hook
            except OSError:
                return False
        whole = os.path.abspath(path)  # noqa: PTH100  likewise
        return whole == self._plan.folder or whole.startswith(f"{self._plan.folder}/")

    def _note(self, call: str) -> None:
        if self._plan.counts:
            self._busy = True
            file = os.open(self._plan.counts, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, f"{call} {os.getpid()}\n".encode())
            os.close(file)
            self._busy = False


def _opening(counting: _Counting) -> Any:
    """Return `open`, whose files count what is written to them."""
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
