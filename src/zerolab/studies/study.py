"""Base class of studies, their scales, and the caveats that head a report.

A study plans its runs and tournaments (`Study.design`) and turns their results into a report
(`Study.document`). This package does everything else: scheduling over processes or machines,
resuming, estimates, verdicts on claims. The docstring of the class is the help text of
``zerolab study NAME``; its first line appears in the list of ``zerolab study``.
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
"""Amount of training and play: `smoke` takes seconds and only shows that everything works, `mini`
takes minutes, `small` a night on two cores; `paper` is the published design."""

SCALES: tuple[Scale, ...] = get_args(Scale)


class Study(ABC):
    """Base class of studies."""

    name: ClassVar[str]
    """Name on the command line."""

    @abstractmethod
    def design(self, scale: Scale) -> Design:
        """Plan runs and tournaments; the design depends only on the scale."""

    @abstractmethod
    def document(self, results: Results) -> Document:
        """Return the report on the finished part; claims without data are marked as such."""


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
    "Times were measured on the machine named in the last line, where several workers may have"
    " trained runs side by side: compare ratios of times with published ones, not the times"
    " themselves."
)
"""Addition to `scale_caveats` for studies that report times."""

_ONE_SYMMETRY = ", and each example learned under one symmetry instead of all of them"

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
    """Return the caveats that head a report: what cannot be concluded from its scale.

    `seeds` is the largest number of runs per setting; `what` is the subject of the study, such as
    ``which loss function is best``, to follow "no conclusion about"; `symmetries` tells whether the
    published runs learn each example under all symmetries of the board.
    """
    if scale == "smoke":
        return (
            "Scale smoke: a few games of nearly untrained networks, which show that everything"
            f" works. They allow no conclusion about {what}: the numbers below are chance."
        )
    one = _ONE_SYMMETRY if symmetries and scale != "paper" else ""
    made_of = f"Scale {scale}: {_RUNS[scale]}{one}; {_seeds(seeds)}."
    if scale == "paper":
        return f"{made_of} No conclusion about {what} extends to other games, networks or budgets."
    return (
        f"{made_of} The results hold for runs of this size and allow no conclusion about {what} at"
        " the published size. Effects smaller than the difference between two runs of one setting"
        " cannot be seen: undecided does not mean equal."
    )


def _seeds(seeds: int) -> str:
    if seeds > 1:
        return f"up to {seeds} runs per setting with different seeds"
    return (
        "one run per setting, so that effects of settings cannot be separated from chance unless"
        " an average over other settings does so"
    )
