"""The journal in which Optuna keeps trials: JSON lines, appended by several processes.

Optuna's own file backend waits half a minute for a process that was killed while it wrote, and
takes the half line that such a process leaves for damage. Here the lock ends with its process, and
half a line is removed before the next one. Every line has a digest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock
from optuna.storages.journal import BaseJournalBackend

from zerolab.core.errors import UserError
from zerolab.core.files import check_file
from zerolab.store.checks import check_schema, digest, reading, writing

SCHEMA = 1
_LARGEST = 1 << 30


class Journal(BaseJournalBackend):
    """A journal that is read on from where it was read before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._entries: list[dict[str, Any]] = []
        self._bytes = 0  # read so far

    def read_logs(self, log_number_from: int) -> Sequence[dict[str, Any]]:
        """Return the entries from a number on; raise UserError for a line that is damaged."""
        if self._path.exists():
            check_file(self._path, _LARGEST)
            with reading(self._path), open(self._path, "rb") as file:
                file.seek(self._bytes)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]  # another process may be writing
            found = complete.splitlines(keepends=True)
            for line in found:
                self._entries.append(self._parsed(line))
                self._bytes += len(line)
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries; they are on the disk afterwards.

        Raises UserError where the disk is full or cannot be written.
        """
        lines = "".join(_line(each) for each in logs)
        with writing(self._path), self._lock, open(self._path, "ab") as file:
            file.truncate(_complete_bytes(self._path))
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            check_schema(self._path, entry.pop("schema", None), SCHEMA)
            if entry.pop("digest", None) == _digest(entry):
                return entry
        number = len(self._entries) + 1
        raise UserError(f"{self._path} is damaged at line {number}; restore it from a backup")


def _line(entry: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(entry))  # enumerations become numbers, as they are read back
    return json.dumps({"schema": SCHEMA, **plain, "digest": _digest(plain)}) + "\n"


def _digest(entry: dict[str, Any]) -> str:
    return digest(json.dumps(entry, sort_keys=True).encode())


def _complete_bytes(path: Path) -> int:
    """Return the length of a file without a last line that was never finished."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        begin = size
        while begin:
            begin = max(0, begin - 4096)
            file.seek(begin)
            end = file.read(4096).rfind(b"\n")
            if end >= 0:
                return begin + end + 1
    return 0
