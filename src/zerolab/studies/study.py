"""Base class of studies, scales of studies, and the caveats at the top of reports.

A study plans its runs and tournaments (`Study.design`) and turns the results into a report
(`Study.report`). This package does everything else: it schedules tasks on processes or machines,
resumes unfinished work, estimates times and judges claims. The docstring of the class is the help
text of ``zerolab study NAME``, and its first line appears in the list printed by ``zerolab study``.
"""

from __future__ import annotations

import inspect
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from zerolab.core.errors import UserError, quoted
from zerolab.core.registry import Registry, load_plugins
from zerolab.studies.looks import FIRST_SEED, format_seeds

if TYPE_CHECKING:
    from pathlib import Path

    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.design import Design
    from zerolab.studies.ledger import LedgerHeader
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun


Scale = Literal["smoke", "mini", "small", "paper"]
"""Amount of training and play.

`smoke` takes seconds and only shows that the study works. `mini` takes an hour or more on two
cores, and `small` hours or days. `paper` is the published design."""

SCALES: tuple[Scale, ...] = get_args(Scale)


class Study(ABC):
    """Reproduction of a paper's measurements; subclasses are registered by `register_study`."""

    name: ClassVar[str]
    """Name on the command line."""

    measurement_version: ClassVar[int] = 0
    """Version of `measure_run`, to be increased when its results change; 0 without measurements."""

    @property
    def description(self) -> str:
        """First line of the docstring, without indentation."""
        return (inspect.getdoc(self) or "").partition("\n")[0]

    @abstractmethod
    def seed_count(self, scale: Scale) -> int:
        """Return the planned number of seeds; 0 for a study without runs."""

    @abstractmethod
    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        """Return the planned runs and tournaments for the given seeds.

        Work for different seeds is independent, so results from several machines can be combined.
        """

    def planned_seeds(self, scale: Scale) -> list[int]:
        """Return the planned seeds."""
        return list(range(FIRST_SEED, FIRST_SEED + self.seed_count(scale)))

    def last_look_size(self, scale: Scale, seeds: Sequence[int]) -> int:
        """Return the number of seeds required for the last look at a study with the given seeds.

        If some of the seeds are planned ones, the look waits for all planned seeds.
        """
        own = set(self.planned_seeds(scale))
        return len(own | set(seeds)) if own & set(seeds) else len(seeds)

    def repeat_command(self, scale: Scale, seeds: Sequence[int]) -> str:
        """Return the command that repeats the measurements with given seeds, in ascending order."""
        command = ["zerolab", "study", self.name, "--scale", scale]
        if seeds and list(seeds) != self.planned_seeds(scale):
            command += ["--seeds", format_seeds(seeds)]
        return shlex.join(command)

    def planned_design(self, scale: Scale) -> Design:
        """Return the design for all planned seeds."""
        return self.design(scale, self.planned_seeds(scale))

    def design_digest(self, scale: Scale) -> str:
        """Return a digest of the design that does not depend on the number of seeds.

        It covers the design for a single seed and the version of the measurements.
        """
        digest = self.design(scale, [FIRST_SEED]).digest
        return f"{digest}-{self.measurement_version}" if self.measurement_version else digest

    def scale_of_ledger(self, path: Path, header: LedgerHeader) -> Scale:
        """Return the scale of a ledger, read from `path`.

        Raises UserError if the ledger belongs to a different study or a different design of this
        study.
        """
        scale = next((each for each in SCALES if each == header.scale), None)
        if header.study != self.name or scale is None:
            raise UserError(
                f"{quoted(path)} is a ledger of {quoted(header.study)} at the"
                f" {quoted(header.scale)} scale: expected a ledger of {self.name}"
            )
        if header.design != self.design_digest(scale):
            raise UserError(
                f"{quoted(path)} is for a different design of {self.name} at the {scale} scale:"
                " expected a ledger written by this version of zerolab"
            )
        return scale

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        """Return the measurements of a finished run that the report needs in addition to metrics.

        Measurements have names and are stored as JSON. A measurement that needs unfinished runs or
        data sets is None and is tried again later.
        """
        return {}

    @abstractmethod
    def verdicts(self, results: Results) -> list[Verdict]:
        """Return the verdicts on the claims of the paper."""

    @abstractmethod
    def report(self, results: Results) -> Document:
        """Return the report on the finished part, including claims without data."""


LEDGER_FILE_NAME = "ledger.parquet"
"""File name of ledgers (`zerolab.studies.ledger`)."""
REPORT_FOLDER = "report"
"""Name of the report folder in the folder of a study."""

_STUDIES: Registry[Study] = Registry("study")


def register_study(study: type[Study]) -> type[Study]:
    """Register the decorated study under its name."""
    _STUDIES.add(study.name, study())
    return study


@cache
def registered_studies() -> Registry[Study]:
    """Return all studies, including those of plug-ins."""
    load_plugins("papers")
    return _STUDIES


_ONE_SYMMETRY = ", training on each example under one symmetry instead of all"

_RUNS = {
    "mini": (
        "networks with a few thousand weights, and a fraction of the published iterations, games"
        " and simulations"
    ),
    "small": (
        "networks with about fifty thousand weights, and a fraction of the published iterations and"
        " simulations"
    ),
    "paper": "the published sizes of networks and runs",
}


def scale_caveats(scale: str, seeds: int, subject: str, *, symmetries: bool = True) -> str:
    """Return the caveats at the top of a report, which state the limits of its scale.

    `seeds` is the largest number of runs per setting. `subject` is a phrase such as ``which loss
    function is best`` that completes "no conclusion about". `symmetries` is true if the published
    runs train on each example under all symmetries of the board.
    """
    if scale == "smoke":
        return (
            "Scale smoke: a few games of nearly untrained networks, which only show that the study"
            f" works. The numbers below are due to chance and allow no conclusion about {subject}."
        )
    one_symmetry = _ONE_SYMMETRY if symmetries and scale != "paper" else ""
    if seeds > 1:
        runs = f"There are up to {seeds} runs per setting with different seeds."
    else:
        runs = (
            "There is one run per setting, so the effect of a setting can be distinguished from"
            " chance only by averaging over other settings."
        )
    summary = f"Scale {scale}: {_RUNS[scale]}{one_symmetry}. {runs}"
    if scale == "paper":
        return (
            f"{summary} No conclusion about {subject} extends to other games, networks or budgets."
        )
    return (
        f"{summary} The results apply to runs of this size and allow no conclusion about {subject}"
        " at the published size. Effects smaller than the difference between two runs of a setting"
        " cannot be detected, so undecided does not mean equal."
    )
