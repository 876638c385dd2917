"""Errors that users can cause and correct, and the quoting of user input in their messages."""

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
"""Longer words are no misspelt names, and comparing them takes long."""


class UserError(Exception):
    """An impossible request of the user; the message says what was expected.

    The command line prints the message without a traceback and exits with code 2.
    """


class MissingExtraError(UserError):
    """A missing optional package; the message names the extra that installs it."""


class MissingExtraWarning(UserWarning):
    """A slower substitute is in use, because an optional package is not installed."""


def quoted(value: object) -> str:
    """Return a value for use in a message: on one line of at most about a hundred characters.

    Paths may have 250 characters. Text is put in quotation marks. Characters that cannot be
    printed, such as line breaks or bytes of file names that are not UTF-8, are escaped. Long text
    keeps its beginning, and long paths keep their end.
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
    """Return a message, such as that of another library, on one line of at most 320 characters."""
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
    """Shortens nested values; safe for numbers of any length and nesting of any depth."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return quoted(x)


def printable(text: str, kept: str = "") -> str:
    """Return text with unprintable characters escaped, except for those in `kept`.

    Unescaped, some of them would clear a terminal or reverse the direction of text.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )
