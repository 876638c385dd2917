"""Errors that a user can cause and mend, each told in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user asked for cannot be done; the message says what was expected.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the known spelling closest to `word`, or nothing.

    Capitals make no difference: papers write WRoRa and RHEA.
    """
    spellings = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(word.casefold(), list(spellings), n=1, cutoff=0.5)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""
