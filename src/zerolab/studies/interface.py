"""What a study is. A new study is one new file in this folder, which registers its class.

A study says what it trains and plays (`Study.design`) and what it makes of the results
(`Study.document`). Everything else, that is working on any number of processes or machines, going
on, estimates, figures on disk and pages, is the engine's. The docstring of the class is the help of
``zerolab study NAME``, its first line the one that ``zerolab study`` lists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from zerolab.core.registry import Registry, import_modules, load_plugins

if TYPE_CHECKING:
    from zerolab.studies.design import Design
    from zerolab.studies.report.document import Document
    from zerolab.studies.results import Results

Scale = Literal["smoke", "mini", "small", "paper"]
"""How much a study trains and plays: `smoke` takes seconds and shows nothing but that everything
works, `mini` takes minutes, `small` a night on two cores; `paper` is the published design."""

SCALES: tuple[Scale, ...] = get_args(Scale)


class Study(ABC):
    """Base of all studies."""

    name: ClassVar[str]
    """What the study is called on the command line."""

    @abstractmethod
    def design(self, scale: Scale) -> Design:
        """Return what is trained and played; always the same for a scale."""

    @abstractmethod
    def document(self, results: Results) -> Document:
        """Return the report on whatever is finished; claims without data say so."""


_STUDIES: Registry[Study] = Registry("study")


def register_study(study: type[Study]) -> type[Study]:
    """Register the decorated study under its name."""
    _STUDIES.add(study.name, study())
    return study


@cache
def registered_studies() -> Registry[Study]:
    """Return all studies: every module of zerolab.studies, and plug-ins of other packages."""
    import_modules("zerolab.studies")
    load_plugins("studies")
    return _STUDIES
