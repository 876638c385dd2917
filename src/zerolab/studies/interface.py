"""What a study is. A new study is one new file in this folder, which registers its class.

A study's class is its settings: each field is an option of ``zerolab study NAME``, explained by the
field's docstring; the class's own docstring is the command's help, its first line the one that
``zerolab study`` lists. `Study.run` does the work.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from rich.console import Console

from zerolab.core.config import Settings
from zerolab.core.registry import Registry, import_modules, load_plugins

ProgressBar = Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]]
"""Shows progress: takes a title, the number of units in all and their name; its context gives a
function that takes the units done so far and a note to show beside them."""


class Report(Protocol):
    """What a study has found; its files have been written when there is one."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        ...

    def show(self, console: Console) -> None:
        """Print it for people."""
        ...


class Study(Settings):
    """Base of all studies; checked like all settings before any work starts."""

    name: ClassVar[str]
    """What the study is called on the command line."""

    @abstractmethod
    def run(self, folder: Path, progress_bar: ProgressBar) -> Report:
        """Do what is left to do, keep everything in `folder`, and report.

        Work that was stopped or killed is resumed when the same study is run again in its folder
        (see `studies.folder`); one that is finished only reports. Raises UserError for every
        mistake, before there is a folder where that is possible.
        """


_STUDIES: Registry[type[Study]] = Registry("study")


def register_study(study: type[Study]) -> type[Study]:
    """Register the decorated study under its name."""
    _STUDIES.add(study.name, study)
    return study


@cache
def registered_studies() -> Registry[type[Study]]:
    """Return all studies: every module of zerolab.studies, and plug-ins of other packages."""
    import_modules("zerolab.studies")
    load_plugins("studies")
    return _STUDIES
