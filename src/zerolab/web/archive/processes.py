"""Processes that outlive the server: begun, found again, and told to stop.

What is known of a process is a file with its number and when it began. So a server that is started
again finds it, and never takes another process of the same number for it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, read_text, write_text

_LARGEST = 1 << 16
_PS_SECONDS = 5


class KnownProcess(Settings):
    """A process that was begun."""

    pid: int = Field(ge=2)
    began: str = Field(min_length=1)
    """When, as the system tells it: no other process has both this number and this time."""


def begin(command: Sequence[str], output: Path, known: Path) -> None:
    """Begin a process of its own session, whose output goes to a file.

    `known` is the file by which it is found again. Raises UserError where that is impossible.
    """
    make_folder(known.parent)
    try:
        with open(output, "wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise UserError(f"cannot start {command[0]}: {error.strerror or error}") from error
    # Somebody has to take its exit code, or it stays in the list of processes when it has ended.
    threading.Thread(target=process.wait, daemon=True).start()
    began = _began(process.pid)
    if began:
        found = KnownProcess(pid=process.pid, began=began)
        write_text(known, json.dumps(found.model_dump()) + "\n")


def is_alive(known: Path) -> bool:
    """Return whether the process of a file is there."""
    return _find(known) is not None


def stop(known: Path) -> bool:
    """Ask the process of a file to end; return whether it was there."""
    found = _find(known)
    if found is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    return True


def _find(known: Path) -> KnownProcess | None:
    """Return the process of a file; None where it has ended, or the file is none of ours."""
    try:
        table = json.loads(read_text(known, _LARGEST))
        found = validate(KnownProcess, table, source=str(known))
    except (UserError, ValueError, RecursionError):
        return None
    return found if _began(found.pid) == found.began else None


def _began(pid: int) -> str:
    """Return when a process began; empty where there is none, or it has ended."""
    try:
        # After the name, which may hold anything: state, and as the 20th field the time.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PS_SECONDS, check=False
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
