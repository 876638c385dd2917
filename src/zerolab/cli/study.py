"""`zerolab study`: what a paper measured, measured again."""

from __future__ import annotations

import inspect
import json as json_format
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from zerolab.cli.output import Console
from zerolab.cli.parse import call
from zerolab.cli.process import resumable
from zerolab.cli.progress_bar import progress_bar
from zerolab.core.config import explained
from zerolab.core.errors import UserError
from zerolab.studies.interface import Study, registered_studies

_FOLDERS = Path("studies")
_WIDTH = 160
_Name = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]


def studies(
    name: tyro.conf.Positional[_Name] = "",
    *,
    json: bool = False,
) -> None:
    """Reproduce a study of a paper; without a name, list the studies.

    The help of a study, zerolab study NAME --help, explains its options.

    Examples:
      zerolab study
      zerolab study table-5.1 --games 500

    Args:
        name: Which study; its options follow the name.
        json: Print JSON.
    """
    if name:
        raise UserError("expected the name first, as in zerolab study table-5.1 --json")
    listed = {name: _headline(study) for name, study in registered_studies().items()}
    if json:
        json_format.dump(
            [{"name": name, "help": text} for name, text in listed.items()], sys.stdout
        )
        print()
        return
    table = Table(box=None, header_style="bold")
    for heading in ("study", "what it does"):
        table.add_column(heading)
    for row in listed.items():
        table.add_row(*map(Text, row))
    Console(width=_WIDTH, soft_wrap=True).print(table)


def _headline(study: type[Study]) -> str:
    return inspect.getdoc(study).partition("\n")[0]  # type: ignore[union-attr]


def _command(study: type[Study], again: str) -> Callable[..., None]:
    """Return the function whose options are the study's settings and those of all studies."""

    def command(
        settings: Study, *, folder: Path = _FOLDERS / study.name, json: bool = False
    ) -> None:
        with resumable("what is finished is stored", again):
            report = settings.run(folder, progress_bar)
        if json:
            json_format.dump(report.as_dict(), sys.stdout, indent=1)
            print()
        else:
            report.show(Console(width=_WIDTH, soft_wrap=True))

    fields: Any = Annotated[study, tyro.conf.arg(name="")]  # an option each, without a prefix
    command.__annotations__ = {"settings": fields, "folder": Path, "json": bool}
    command.__doc__ = f"{inspect.getdoc(study)}\n\n{_SHARED_OPTIONS}"
    return command


_SHARED_OPTIONS = """Args:
    folder: Where everything is kept.
    json: Print the results as JSON."""


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and run a study, or list them."""
    if not arguments or arguments[0].startswith("-"):
        call(studies, "study", arguments)
        return
    study = registered_studies()[arguments[0]]
    command = _command(study, shlex.join(["zerolab", "study", *arguments]))
    try:
        call(command, f"study {study.name}", arguments[1:])
    except ValidationError as error:
        raise explained(study, error) from None
