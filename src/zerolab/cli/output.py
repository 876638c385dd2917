"""Output of commands: consoles and lines that escape control characters, data and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from zerolab.core.errors import printable

WIDTH = 160
"""Width of tables on every terminal; a narrow one would cut names first."""


class Console(rich.console.Console):
    """A console without markup, guessed colours or emoji, which ``mcts:100:`` might become.

    Unprintable characters are escaped, so that a name in a file from elsewhere cannot clear the
    terminal. Closing the pipe raises BrokenPipeError, as for `print`.
    """

    def __init__(self, **options: Any) -> None:
        plain = {"markup": False, "emoji": False, "highlight": False}
        super().__init__(**{**plain, **options})

    def on_broken_pipe(self) -> None:
        """Raise the error being handled; rich would exit with code 1."""
        raise  # noqa: PLE0704

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return the text for the terminal, with unprintable characters escaped.

        All output passes here: table cells, bars and text. Control segments of rich are kept.
        """
        return super()._render_buffer(
            each if each.control else each._replace(text=printable(each.text, "\n"))
            for each in buffer
        )


def table_console() -> Console:
    """Return a console on standard output that never cuts tables."""
    return Console(width=WIDTH, soft_wrap=True)


def say(*lines: object, end: str = "\n", error: bool = False) -> None:
    """Print lines to standard output, or standard error.

    Unprintable characters, including line breaks, are escaped.
    """
    text = "\n".join(printable(str(line), "\t") for line in lines)
    print(text, end=end, file=sys.stderr if error else sys.stdout)


def print_data(text: str) -> None:
    """Print data for programs, such as CSV, unchanged; in a terminal, escaped."""
    print(printable(text, "\n\t") if sys.stdout.isatty() else text, end="")


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=1))
