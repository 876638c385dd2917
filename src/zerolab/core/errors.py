"""Errors caused by user input, and the quoting of that input in messages."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any

_LONGEST_QUOTE = 80
_LONGEST_PATH = 250
_LONGEST_WORD = 100
"""Maximum length of words to compare.

Longer ones are slow to compare and unlikely to be misspelt names.
"""


class UserError(Exception):
    """Error that the user can correct; the message states what was expected.

    The command line prints the message without a traceback and exits with `exit_code`.
    """

    exit_code = 2


class DisagreementError(UserError):
    """Error for a measurement that contradicts a statement, such as a number on an agent's card."""

    exit_code = 1


class MissingExtraError(UserError):
    """Error for a missing optional package; the message names the extra that installs it."""

    @classmethod
    def for_package(cls, purpose: str, package: str | None, extra: str) -> MissingExtraError:
        """Return the error for a missing package; its message begins with `purpose`."""
        return cls(
            f'{purpose} requires {package}, which is not installed: install the "{extra}" extra,'
            f" as in pip install '.[{extra}]' in the folder with zerolab's pyproject.toml"
        )


class SlowFallbackWarning(UserWarning):
    """Warning about a slower fallback, due to a missing optional package or a change in numba."""


class PluginWarning(UserWarning):
    """Warning about a plug-in that is skipped because it cannot be imported."""


def quoted(value: object) -> str:
    """Return a value as text for a message, on one line of at most about 100 characters.

    Paths can be up to 250 characters long. Text is enclosed in quotation marks. Unprintable
    characters, such as line breaks or file name bytes that are not UTF-8, are escaped. Long text is
    cut at the end, and long paths are cut at the beginning.
    """
    if isinstance(value, str):
        if len(value) <= _LONGEST_QUOTE:
            return f'"{escape_unprintable(value)}"'
        return (
            f'"{escape_unprintable(value[: _LONGEST_QUOTE // 2])}..." ({len(value):,} characters)'
        )
    if isinstance(value, Path):
        text = str(value)
        return escape_unprintable(
            text if len(text) <= _LONGEST_PATH else "..." + text[-_LONGEST_PATH:]
        )
    if isinstance(value, int) and value.bit_length() > 3 * _LONGEST_QUOTE:
        digits = int(value.bit_length() * math.log10(2)) + 1
        return f"a number with about {digits:,} digits"
    text = str(value) if isinstance(value, int | float) else _Brief().repr(value)
    return escape_unprintable(
        text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."
    )


def require_type(name: str, value: object, types: Any, expected: str) -> None:
    """Raise UserError unless `value`, the argument called `name`, is an instance of `types`."""
    if not isinstance(value, types):
        raise UserError(f"{name} = {quoted(value)}: expected {expected}")


def checked_whole_number(name: str, value: object, minimum: int = 0) -> int:
    """Return `value` as an int; raise UserError unless `minimum` <= `value` < 2**63."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"{name} = {quoted(value)}: expected a whole number") from None
    if not minimum <= number < 1 << 63:
        raise UserError(
            f"{name} = {quoted(number)}: expected at least {minimum} and less than 2**63"
        )
    return number


def one_line(message: object) -> str:
    """Return a message, such as one from another library, on one line, cut after 320 characters."""
    text = " ".join(str(message).split())
    return text if len(text) <= 4 * _LONGEST_QUOTE else text[: 4 * _LONGEST_QUOTE] + "..."


_MEMORY_MESSAGES = ("out of memory", "can't allocate memory")


def is_memory_error(error: Exception) -> bool:
    """Return whether an exception reports a lack of memory; torch raises RuntimeError for it."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in _MEMORY_MESSAGES)
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint, such as ``; did you mean "x"?``, or "" if no known word is close to `word`.

    Case is ignored, since papers use names such as WRoRa and RHEA.
    """
    if len(word) > _LONGEST_WORD:
        return ""
    spellings = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(word.casefold(), list(spellings), n=1, cutoff=0.6)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""


def closest_value(
    word: str, known: Mapping[str, str], cutoff: float
) -> Iterator[tuple[float, str]]:
    """Yield the similarity of the closest known word, from `cutoff` to 1, and that word's value.

    Yields nothing if no word is similar enough.
    """
    if len(word) <= _LONGEST_WORD:
        for each in difflib.get_close_matches(word, known, n=1, cutoff=cutoff):
            yield difflib.SequenceMatcher(None, each, word).ratio(), known[each]


class _Brief(reprlib.Repr):
    """Abbreviated repr of nested values, for numbers of any length and nesting of any depth."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return quoted(x)


def escape_unprintable(text: str, allowed: str = "") -> str:
    """Return text with unprintable characters escaped, except for those in `allowed`.

    Some unprintable characters would clear a terminal or reverse the text direction.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in allowed else each.encode("unicode_escape").decode()
        for each in text
    )
