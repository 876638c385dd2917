"""Linux processes of an attempt and their memory, read from /proc."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """Running process."""

    number: int
    parent: int
    session: int
    resident: int
    """Resident bytes, including those shared with other processes."""


def processes() -> list[Process]:
    """Return all processes on the machine except zombies."""
    names = os.listdir("/proc")  # noqa: PTH208  called twenty times a second
    read = (_read(int(name)) for name in names if name.isdecimal())
    return [each for each in read if each is not None]


def _read(number: int) -> Process | None:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, parent, session, resident = fields[0], fields[1], fields[3], fields[21]
    if state in "ZX":
        return None
    return Process(number, int(parent), int(session), int(resident) * _PAGE)


def family(root: int) -> list[Process]:
    """Return a process, the processes of its session, and all their descendants."""
    every = processes()
    members = {each.number for each in every if root in (each.number, each.session)}
    size = 0
    while len(members) > size:
        size = len(members)
        members |= {each.number for each in every if each.parent in members}
    return [each for each in every if each.number in members]


def leftovers(session: int, folder: Path, mark: str) -> list[str]:
    """Return the command lines of processes left behind by an attempt.

    These are processes in the attempt's session, with its folder as their working directory or in
    their command line, or with its mark in their environment.
    """
    remaining = []
    for each in processes():
        if each.number != os.getpid() and _belongs(each, session, str(folder), mark):
            words = _content(each.number, "cmdline").replace(b"\0", b" ").decode(errors="replace")
            remaining.append(f"{each.number} {words.strip()[:200]}")
    return remaining


def _belongs(process: Process, session: int, folder: str, mark: str) -> bool:
    if process.session == session:
        return True
    try:
        place = str(Path(f"/proc/{process.number}/cwd").readlink())
    except OSError:
        place = ""
    within = place == folder or place.startswith(f"{folder}/")
    return (
        within
        or folder.encode() in _content(process.number, "cmdline")
        or mark.encode() in _content(process.number, "environ").split(b"\0")
    )


def _content(number: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{number}/{name}").read_bytes()
    except OSError:
        return b""


def memory(members: list[Process]) -> int:
    """Return the memory of the largest process in bytes."""
    return max((each.resident for each in members), default=0)


def kill(members: list[Process]) -> None:
    """Kill processes."""
    for each in members:
        try:
            os.kill(each.number, signal.SIGKILL)
        except ProcessLookupError:
            continue
