"""Calling a function with the arguments of a command line."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

from zerolab.core.errors import UserError

Assignments = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]
"""A repeatable --set option."""


def call(function: Callable[..., Any], command: str, arguments: Sequence[str]) -> None:
    """Call a function whose parameters are the options of a command; its docstring is the help.

    Raises UserError for wrong options, in one line where tyro draws a box.
    """

    @functools.wraps(function)
    def bind(*positional: Any, **named: Any) -> Callable[[], Any]:
        return functools.partial(function, *positional, **named)

    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            bound = tyro.cli(
                bind,
                args=list(arguments),
                prog=f"zerolab {command}",
                description=_description(function),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
            )
    except SystemExit as ended:
        if not ended.code:
            raise
        message = _plain(_first_paragraph(errors.getvalue()))
        raise UserError(f"{message} (see zerolab {command} --help)") from None
    bound()


def _description(function: Callable[..., Any]) -> str:
    """Return a docstring up to its arguments, each paragraph in a line, and its examples.

    Left to itself, tyro leaves out what stands under "Examples:".
    """
    text = (inspect.getdoc(function) or "").partition("\nArgs:\n")[0].strip()
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        each if each.startswith("Examples:") else each.replace("\n", " ") for each in paragraphs
    )


def _plain(message: str) -> str:
    """Say in few words what does not fit an option that may be left out; drop markup."""
    message = re.sub(r"\[/?bold\]", "", message)
    return re.sub(
        r"^(Error parsing \S+): no type matching \{None\}\|\{?(.+?)\}? could be instantiated from"
        r" \[(.*?)\]\. .*",
        r"\1: expected \2, not \3",
        message,
    )


def _first_paragraph(box: str) -> str:
    """Return the text between the first two rules of a box, as one line.

    The title stands in or above the first rule. Where the output's encoding has no characters for
    boxes, rules are hyphens and the sides are left out.
    """
    paragraphs: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip("│| ")
        if text.startswith(("╭", "─", "╰", "---")):
            paragraphs.append([])
        else:
            paragraphs[-1].append(text)
    return " ".join(paragraphs[1]) if len(paragraphs) > 1 else box.strip()
