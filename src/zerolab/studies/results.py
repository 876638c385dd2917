"""What the runs and tournaments of a study have shown: all that its tables and figures are made of.

Results are read from disk, so a report needs nothing but the folder. What is missing is listed, and
whatever is there can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from zerolab.networks.inference import best_device
from zerolab.play.tournament import Tournament
from zerolab.ratings.bayes import Rating, Ratings, rate
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, Level, PlannedRun, PlannedTournament
from zerolab.studies.engine.layout import StudyFolder
from zerolab.studies.report.provenance import Provenance, current_versions, this_machine
from zerolab.training.records import (
    GateRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
    read_records,
)

STAGES = ("selfplay", "learn", "gate")
"""Those whose time adds up to that of training [Wang2020a, eq. 2]."""


@dataclass(frozen=True)
class TrainedRun:
    """A finished run and the records of its stages."""

    planned: PlannedRun
    path: Path
    records: Sequence[Record]

    @property
    def factors(self) -> Mapping[str, Level]:
        """See `PlannedRun.factors`."""
        return self.planned.factors

    def of(self, kind: type[Record]) -> list[Any]:
        """Return the records of a kind, in order of iterations."""
        return [record for record in self.records if isinstance(record, kind)]

    @cached_property
    def final_losses(self) -> list[dict[str, float]]:
        """The losses of the last epoch of every iteration, by name."""
        return [record.loss for record in self.of(LearnRecord)]

    @cached_property
    def epoch_losses(self) -> list[list[dict[str, float]]]:
        """The losses of every epoch of every iteration, by name."""
        return [record.epoch_losses or [record.loss] for record in self.of(LearnRecord)]

    @cached_property
    def training_elo(self) -> list[float]:
        """Training Elo of the best network after every iteration; the untrained one has 0."""
        return [record.elo for record in self.of(GateRecord)]

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds of self-play, learning and gates, by stage; final evaluations do not count."""
        spent = dict.fromkeys(STAGES, 0.0)
        for record in self.records:
            if record.stage in spent:
                spent[record.stage] += record.wall_seconds
        return spent

    @property
    def total_seconds(self) -> float:
        """Seconds of training."""
        return sum(self.seconds.values())

    @property
    def accepted(self) -> int:
        """How many candidates became the best network."""
        return sum(record.accepted for record in self.of(GateRecord))

    @property
    def positions(self) -> int:
        """Positions played for learning."""
        return sum(record.positions for record in self.of(SelfPlayRecord))


@dataclass(frozen=True)
class PlayedTournament:
    """A finished tournament."""

    planned: PlannedTournament
    games: Sequence[GameRecord]

    @cached_property
    def ratings(self) -> Ratings:
        """Bayesian Elo of all players."""
        return rate(self.games)

    @cached_property
    def by_name(self) -> dict[str, Rating]:
        """The ratings by players."""
        return {rating.player: rating for rating in self.ratings.players}

    def rating(self, run: TrainedRun | PlannedRun) -> Rating:
        """Return the rating of a run's final network."""
        planned = run.planned if isinstance(run, TrainedRun) else run
        name = next(
            name for name, each in self.planned.entrants.items()
            if (each.part, each.label) == (planned.part, planned.label)
        )  # fmt: skip
        return self.by_name[name]


@dataclass(frozen=True)
class Results:
    """Everything of a study that is finished."""

    scale: str
    design: Design
    runs: Sequence[TrainedRun]
    tournaments: Mapping[str, PlayedTournament]
    """By their keys."""
    computed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The results of computations by ``part: label``."""

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self.runs)

    def where(self, part: str | None = None, **factors: Level) -> list[TrainedRun]:
        """Return the finished runs of a part, or all, that have some levels."""
        return [
            run for run in self.runs
            if part in (None, run.planned.part)
            and all(run.factors.get(name) == level for name, level in factors.items())
        ]  # fmt: skip

    def levels(self, factor: str, part: str | None = None) -> list[Level]:
        """Return the levels of a factor that were planned, in order."""
        every = (run for run in self.design.runs if part in (None, run.part))
        return list(dict.fromkeys(run.factors[factor] for run in every if factor in run.factors))

    def missing(self, part: str | None = None) -> str:
        """Say what is not finished of a part, or of all; nothing if everything is."""
        if part not in (None, *self.design.parts):
            return f"{part} is not studied at this scale"
        planned = [run for run in self.design.runs if part in (None, run.part)]
        left = len(planned) - len(self.where(part))
        tournaments = [each for each in self.design.tournaments if part in (None, each.part)]
        unplayed = [each.key for each in tournaments if each.key not in self.tournaments]
        parts = []
        if left:
            parts.append(f"{left} of {len(planned)} runs are not finished")
        uncomputed = [
            each.label for each in self.design.computations
            if part in (None, each.part) and each.title not in self.computed
        ]  # fmt: skip
        if uncomputed:
            parts.append(f"{len(uncomputed)} computations are not finished")
        if unplayed:
            parts.append(f"tournaments not finished: {', '.join(unplayed)}")
        return "; ".join(parts)

    @property
    def seconds(self) -> float:
        """Seconds of training, of all distinct runs together."""
        return sum({run.planned.key: run.total_seconds for run in self.runs}.values())


def load_results(folder: StudyFolder, design: Design, scale: str) -> Results:
    """Read what is finished of a study; runs and computations that are damaged are not.

    Raises UserError for other files that are damaged.
    """
    runs = [
        TrainedRun(run, folder.run_path(run), read_records(RunFolder.open(folder.run_path(run))))
        for run in design.runs
        if folder.is_readable_and_finished(run)
    ]
    computed = {
        each.title: result
        for each in design.computations
        if (result := folder.readable_computed(each)) is not None
    }
    return Results(scale, design, runs, dict(_played(folder, design)), computed)


def _played(folder: StudyFolder, design: Design) -> Iterator[tuple[str, PlayedTournament]]:
    for planned in design.tournaments:
        path = folder.tournament_path(planned)
        saved = Tournament.saved(path) if path.is_dir() else None
        if saved is not None and not saved.blocks_left():
            yield planned.key, PlayedTournament(planned, saved.games())


def provenance(results: Results) -> Provenance:
    """Return where the results of a study come from."""
    runs = {run.planned.key: run for run in results.runs}
    return Provenance(
        runs=len(runs),
        digests=[f"{key} {_network_digest(run.path)}" for key, run in runs.items()],
        versions=current_versions(),
        seeds=[run.planned.settings.seed for run in runs.values()],
        machine=this_machine(_gpu()),
        hours=results.seconds / 3600,
    )


def _network_digest(path: Path) -> str:
    run = RunFolder.open(path)
    return run.weights_digest(run.progress.best)


def _gpu() -> str:
    """Return the name of the GPU that runs are trained on, if there is one."""
    device = best_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""
