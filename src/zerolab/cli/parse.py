"""Calling a function with the arguments of a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

Assignments = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]
"""A repeatable --set option."""


def call(function: Callable[..., Any], command: str, arguments: Sequence[str]) -> None:
    """Call a function whose parameters are the options of a command; its docstring is the help.

    Wrong options end the program with code 2 after a message on standard error.
    """
    tyro.cli(
        function,
        args=list(arguments),
        prog=f"zerolab {command}",
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    )
