"""Output of commands: escaped lines and consoles, data and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from zerolab.core.errors import printable

WIDTH = 160
"""Of tables, whatever the width of the terminal: a narrow one would cut names first."""


class Console(rich.console.Console):
    """A console on which text is text: no markup, no colour by guess, and no emoji.

    ``mcts:100:`` would be taken for one. What cannot be printed is escaped: a name that a stranger
    has chosen does not clear the terminal. A reader who closes the pipe raises BrokenPipeError, as
    it does for `print`.
    """

    def __init__(self, **options: Any) -> None:
        plain = {"markup": False, "emoji": False, "highlight": False}
        super().__init__(**{**plain, **options})

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled; rich would exit with code 1."""
        raise  # noqa: PLE0704

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return what is written to the terminal; segments of rich's own control stay as they are.

        Everything that is printed comes through here: cells of tables, bars, texts.
        """
        return super()._render_buffer(
            each if each.control else each._replace(text=printable(each.text, "\n"))
            for each in buffer
        )


def table_console() -> Console:
    """Return a console on standard output for tables, which are never cut."""
    return Console(width=WIDTH, soft_wrap=True)


def say(*lines: object, end: str = "\n", error: bool = False) -> None:
    """Print each on a line of standard output or standard error.

    Characters that cannot be printed are escaped, line breaks included.
    """
    text = "\n".join(printable(str(line), "\t") for line in lines)
    print(text, end=end, file=sys.stderr if error else sys.stdout)


def print_data(text: str) -> None:
    """Print what programs read, such as CSV, as it is; what a terminal shows is escaped."""
    print(printable(text, "\n\t") if sys.stdout.isatty() else text, end="")


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=1))
