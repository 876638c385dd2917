"""Lines of the Go Text Protocol, version 2 (Farnebäck 2002, draft 2, sections 2 and 3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

LONGEST_LINE = 1 << 14
"""Bytes of a line that are read; what stands beyond them is ignored."""

SYNTAX_ERROR = "syntax error"
ILLEGAL_MOVE = "illegal move"

FIRST, SECOND = "black", "white"
_COLOURS = {
    "black": FIRST, "b": FIRST, "first": FIRST,
    "white": SECOND, "w": SECOND, "second": SECOND,
}  # fmt: skip
_CONTROL = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_LARGEST = (1 << 31) - 1


class RefusedError(Exception):
    """A command cannot be obeyed; the message is the answer after the question mark."""


class Command(NamedTuple):
    """One line of a controller."""

    id: str
    """Digits to be repeated in the answer, or nothing."""
    name: str
    arguments: tuple[str, ...]


def read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream, an unfinished last one too, each cut to LONGEST_LINE bytes."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line


def parse_command(line: bytes) -> Command | None:
    """Return the command of a line; None where it is empty or only a comment (section 2.6)."""
    text = line.translate(None, _CONTROL).partition(b"#")[0]
    parts = [word.decode(errors="replace") for word in text.split()]
    if not parts:
        return None
    number = parts.pop(0) if _is_integer(parts[0]) else ""
    return Command(number, parts[0] if parts else "", tuple(parts[1:]))


def answer(command: Command, text: str, success: bool) -> bytes:
    """Return the bytes that answer a command; empty lines, which would end it, are left out.

    A text that begins with a new line stands below the mark, as diagrams do.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    body = "\n".join(lines).encode(errors="replace").translate(None, _CONTROL)
    separator = b"\n" if text.startswith("\n") else b" "
    mark = b"=" if success else b"?"
    return mark + command.id.encode() + (separator + body if body else b"") + b"\n\n"


def parse_colour(word: str) -> str:
    """Return FIRST or SECOND; raise RefusedError for anything else."""
    if word.lower() not in _COLOURS:
        raise RefusedError(SYNTAX_ERROR)
    return _COLOURS[word.lower()]


def parse_number(word: str) -> int:
    """Return a non-negative integer; raise RefusedError for anything else."""
    if not _is_integer(word):
        raise RefusedError(SYNTAX_ERROR)
    return int(word)


def _is_integer(word: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,10}", word)) and int(word) <= _LARGEST
