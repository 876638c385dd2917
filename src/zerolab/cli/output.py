"""How commands print: consoles on which text is text, and JSON."""

from __future__ import annotations

import json
from typing import Any

import rich.console

WIDTH = 160
"""Of tables, whatever the width of the terminal: a narrow one would cut names first."""


class Console(rich.console.Console):
    """A console on which text is text: no markup, no colour by guess, and no emoji.

    ``mcts:100:`` would be taken for one. A reader who closes the pipe raises BrokenPipeError, as it
    does for `print`.
    """

    def __init__(self, **options: Any) -> None:
        plain = {"markup": False, "emoji": False, "highlight": False}
        super().__init__(**{**plain, **options})

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled; rich would exit with code 1."""
        raise  # noqa: PLE0704


def table_console() -> Console:
    """Return a console on standard output for tables, which are never cut."""
    return Console(width=WIDTH, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=1))
