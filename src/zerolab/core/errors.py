"""Errors that users can cause and correct, and how messages quote what users have written."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LONGEST_QUOTE = 80
_LONGEST_PATH = 250
_LONGEST_NEAR = 100
"""Nobody misspells a name so badly; comparing longer texts takes long."""


class UserError(Exception):
    """Something the user asked for cannot be done; the message says what was expected.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


class MissingExtraError(UserError):
    """An optional package is not installed; the message says which extra brings it."""


class MissingExtraWarning(UserWarning):
    """Something slower is used in place of an optional package that is not installed."""


def quoted(value: object) -> str:
    """Return a value as messages quote it: on one line, at most about a hundred characters long.

    Paths may have 250 characters. Text is put in quotation marks. What cannot be printed, such as a
    line break or a byte of a file name that is not UTF-8, is escaped. Long text keeps its
    beginning, long paths keep their end.
    """
    if isinstance(value, str):
        if len(value) <= _LONGEST_QUOTE:
            return f'"{printable(value)}"'
        return f'"{printable(value[: _LONGEST_QUOTE // 2])}..." ({len(value):,} characters)'
    if isinstance(value, Path):
        text = str(value)
        return printable(text if len(text) <= _LONGEST_PATH else "..." + text[-_LONGEST_PATH:])
    if isinstance(value, int) and value.bit_length() > 3 * _LONGEST_QUOTE:
        digits = int(value.bit_length() * math.log10(2)) + 1
        return f"a number of about {digits:,} digits"
    text = str(value) if isinstance(value, int | float) else _Brief().repr(value)
    return printable(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "...")


def require(name: str, value: object, kinds: Any, expected: str) -> None:
    """Raise UserError unless the argument `name` is an instance of one of `kinds`."""
    if not isinstance(value, kinds):
        raise UserError(f"{name} = {quoted(value)}: expected {expected}")


def one_line(message: object) -> str:
    """Return a message, such as another library's, on one line and not much longer than that."""
    text = " ".join(str(message).split())
    return text if len(text) <= 4 * _LONGEST_QUOTE else text[: 4 * _LONGEST_QUOTE] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the known spelling closest to `word`, or "".

    Case is ignored: papers write WRoRa and RHEA.
    """
    if len(word) > _LONGEST_NEAR:
        return ""
    spellings = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(word.casefold(), list(spellings), n=1, cutoff=0.5)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""


class _Brief(reprlib.Repr):
    """Shortens nested values; numbers of any length and nesting of any depth are safe."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return quoted(x)


def printable(text: str, kept: str = "") -> str:
    """Return text with all that cannot be printed escaped, except for the characters in `kept`.

    Printed as they are, control characters clear a terminal, and others turn text around.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )
