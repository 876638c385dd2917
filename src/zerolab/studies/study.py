"""Base class of studies, their scales, and the caveats that head a report.

A study says what it trains and plays (`Study.design`) and what it makes of the results
(`Study.document`). Everything else, that is working on any number of processes or machines, going
on, estimates, figures on disk and pages, is the engine's. The docstring of the class is the help of
``zerolab study NAME``, its first line the one that ``zerolab study`` lists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from zerolab.core.registry import Registry, load_plugins

if TYPE_CHECKING:
    from zerolab.report.document import Document
    from zerolab.studies.design import Design
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
    """Return all studies: the plug-ins of zerolab.papers, those of this package included."""
    load_plugins("papers")
    return _STUDIES


TIMES_CAVEAT = (
    "Times are those of runs that went on beside others of the study where it had several workers,"
    " on the machine that the last line names: compare their ratios, not the times themselves with"
    " published ones."
)
"""For studies that report times, after `limits`."""

_ONE_SYMMETRY = ", and each example learned under one symmetry instead of all"

_RUNS = {
    "mini": (
        "networks of a few thousand weights, iterations, games and simulations cut to a fraction of"
        " the published ones"
    ),
    "small": (
        "networks of some fifty thousand weights, iterations and simulations cut to a fraction of"
        " the published ones"
    ),
    "paper": "the published sizes of networks and runs",
}


def scale_caveats(scale: str, seeds: int, what: str, *, symmetries: bool = True) -> str:
    """Return what a reader must know before anything else.

    `seeds` is the largest number of runs per setting; `what` the subject of the study, such as
    ``which loss function is best``, to follow "nothing follows about" and the like; `symmetries`
    whether the published runs learn each example under all symmetries of the board.
    """
    if scale == "smoke":
        return (
            f"Scale smoke: a few games by nearly untrained networks, which show that everything"
            f" works. Nothing follows about {what}: whatever numbers say below is chance."
        )
    one = _ONE_SYMMETRY if symmetries and scale != "paper" else ""
    made_of = f"Scale {scale}: {_RUNS[scale]}{one}; {_seeds(seeds)}."
    if scale == "paper":
        return f"{made_of} Nothing follows about {what} with other games, networks or budgets."
    return (
        f"{made_of} The results say what such small runs do; for the published size nothing follows"
        f" about {what}. Effects smaller than the difference between two runs of one setting cannot"
        " be seen: undecided does not mean equal."
    )


def _seeds(seeds: int) -> str:
    if seeds > 1:
        return f"up to {seeds} runs of each setting, which differ in their seed"
    return (
        "one run of each setting, so that settings cannot be told from chance where nothing else"
        " averages over it"
    )
