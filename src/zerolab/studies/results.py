"""Results of a study: its finished runs and tournaments, from which reports are made.

Results are read from disk, so a report needs nothing but the folder. It can be made at any time;
unfinished parts are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from zerolab.core.code_digests import current_versions
from zerolab.core.errors import UserError
from zerolab.core.processes import available_cores
from zerolab.networks.inference import best_device
from zerolab.play.tournament import Tournament
from zerolab.ratings.bayes import Rating, Ratings, rate
from zerolab.report.document import Provenance
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import Environment, read_environments
from zerolab.studies.design import Design, Level, PlannedComputation, PlannedRun, PlannedTournament
from zerolab.studies.study_folder import StudyFolder
from zerolab.training.context import processor_model
from zerolab.training.records import GateRecord, LearnRecord, Record, SelfPlayRecord
from zerolab.training.reporting import read_records

_Planned = TypeVar("_Planned")
_Read = TypeVar("_Read")

STAGES = ("selfplay", "learn", "gate")
"""Stages whose times add up to the time of training [Wang2020a, eq. 2]."""


@dataclass(frozen=True)
class TrainedRun:
    """A finished run and the records of its stages."""

    planned: PlannedRun
    path: Path
    records: Sequence[Record]

    @property
    def factors(self) -> Mapping[str, Level]:
        """Levels that distinguish the run, including the seed."""
        return self.planned.factors

    def of(self, kind: type[Record]) -> list[Any]:
        """Return the records of a kind, in order of iterations."""
        return [record for record in self.records if isinstance(record, kind)]

    @cached_property
    def final_losses(self) -> list[dict[str, float]]:
        """Losses of the last epoch of each iteration, by name."""
        return [record.loss for record in self.of(LearnRecord)]

    @cached_property
    def epoch_losses(self) -> list[list[dict[str, float]]]:
        """Losses of each epoch of each iteration, by name."""
        return [record.epoch_losses or [record.loss] for record in self.of(LearnRecord)]

    @cached_property
    def training_elo(self) -> list[float]:
        """Training Elo of the best network after each iteration; the untrained one has 0."""
        return [record.elo for record in self.of(GateRecord)]

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds of self-play, learning and gates, by stage, excluding measurements."""
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
        """Number of candidates that became the best network."""
        return sum(record.accepted for record in self.of(GateRecord))

    @property
    def positions(self) -> int:
        """Number of self-play positions."""
        return sum(record.positions for record in self.of(SelfPlayRecord))


@dataclass(frozen=True)
class PlayedTournament:
    """A finished tournament."""

    planned: PlannedTournament
    games: Sequence[GameRecord]

    @cached_property
    def ratings(self) -> Ratings:
        """Bayesian Elo of all entrants and agents."""
        return rate(self.games)

    @cached_property
    def by_name(self) -> dict[str, Rating]:
        """Ratings by player."""
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
    """The finished part of a study."""

    scale: str
    design: Design
    runs: Sequence[TrainedRun]
    tournaments: Mapping[str, PlayedTournament]
    """Finished tournaments by key."""
    computed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Results of computations by ``part: label``."""
    solved: Mapping[str, Path] = field(default_factory=dict)
    """Files of `Design.solved` by ``part: positions label``."""
    damaged: Sequence[str] = ()
    """Messages about unreadable files, which do not count as finished."""
    folder: StudyFolder | None = None
    """Folder in which reports store their measurements; without it, each report repeats them."""

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self.runs)

    def where(self, part: str | None = None, **factors: Level) -> list[TrainedRun]:
        """Return the finished runs of one or all parts whose factors have the given levels."""
        return [
            run for run in self.runs
            if part in (None, run.planned.part)
            and all(run.factors.get(name) == level for name, level in factors.items())
        ]  # fmt: skip

    def levels(self, factor: str, part: str | None = None) -> list[Level]:
        """Return the planned levels of a factor, in order."""
        every = (run for run in self.design.runs if part in (None, run.part))
        return list(dict.fromkeys(run.factors[factor] for run in every if factor in run.factors))

    def missing_message(self, part: str | None = None) -> str:
        """Return a message about unfinished work of one or all parts, or an empty string."""
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

    def measure_once(
        self, name: str, facts: Mapping[str, Any], measure: Callable[[], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Return the stored result of a measurement of finished runs, or measure and store it.

        The result depends on `facts`, which must be valid JSON, and like runs on precision and
        version. An unreadable result is measured again; one that cannot be stored is returned
        nevertheless.
        """
        if self.folder is None:
            return measure()
        measurement = PlannedComputation("report", name, name, facts, 0.0)
        with suppress(UserError):
            if kept := self.folder.computed(measurement):
                return kept
        found = measure()
        with suppress(UserError):
            self.folder.save_computed(measurement, found)
        return found

    @property
    def seconds(self) -> float:
        """Total training seconds of all distinct runs."""
        return sum({run.planned.key: run.total_seconds for run in self.runs}.values())


def load_results(folder: StudyFolder, design: Design, scale: str) -> Results:
    """Read the finished part of a study; damaged files do not count as finished."""
    damaged: list[str] = []
    runs = _readable(partial(_trained, folder), design.runs, damaged)
    tournaments = _readable(partial(_played, folder), design.tournaments, damaged)
    computed = _readable(folder.computed, design.computations, damaged)
    return Results(
        scale,
        design,
        [run for _, run in runs],
        {planned.key: played for planned, played in tournaments},
        {planned.title: result for planned, result in computed},
        {
            each.title: folder.positions_path(each)
            for each in design.solved
            if folder.has_positions(each)
        },
        damaged,
        folder,
    )


def _readable(
    read: Callable[[_Planned], _Read | None], planned: Iterable[_Planned], damaged: list[str]
) -> Iterator[tuple[_Planned, _Read]]:
    """Yield plans with their results; add messages about unreadable ones to `damaged`."""
    for each in planned:
        try:
            found = read(each)
        except UserError as error:
            damaged.append(str(error))
        else:
            if found is not None:
                yield each, found


def _trained(folder: StudyFolder, planned: PlannedRun) -> TrainedRun | None:
    """Return a run if it is finished; raise UserError if it is damaged."""
    opened = folder.open_run(planned)
    if opened is None or not opened.progress.finished:
        return None
    return TrainedRun(planned, opened.path, read_records(opened))


def _played(folder: StudyFolder, planned: PlannedTournament) -> PlayedTournament | None:
    """Return a tournament if it is finished; raise UserError if it is damaged."""
    path = folder.tournament_path(planned)
    saved = Tournament.saved(path) if path.is_dir() else None
    if saved is None or saved.blocks_left():
        return None
    return PlayedTournament(planned, saved.games())


def provenance(results: Results) -> Provenance:
    """Return the provenance of results: the environments of their runs, or else this process."""
    runs = {run.planned.key: run for run in results.runs}
    trained_in = [each for run in runs.values() for each in _environments(run.path)]
    return Provenance(
        runs=len(runs),
        digests=[f"{key} {_network_digest(run.path)}" for key, run in runs.items()],
        versions={
            name: distinct(getattr(each, name) for each in trained_in) or number
            for name, number in current_versions().items()
        },
        seeds=[run.planned.settings.seed for run in runs.values()],
        machine=distinct(map(machine_of, trained_in)) or this_machine(_gpu()),
        hours=results.seconds / 3600,
    )


def _network_digest(path: Path) -> str:
    run = RunFolder.open(path)
    return run.weights_digest(run.progress.best)


def _environments(path: Path) -> list[Environment]:
    """Return the environments in which a run was trained; none if the file is damaged."""
    try:
        return read_environments(path)
    except UserError:
        return []


def _gpu() -> str:
    """Return the name of the GPU that this process would use; empty without one."""
    device = best_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def this_machine(gpu: str = "") -> str:
    """Return the processor model, the number of cores and the GPU of this machine."""
    return _joined(processor_model(), _cores(available_cores()), gpu)


def machine_of(environment: Environment) -> str:
    """Return processor, device (architecture or GPU), precision and cores of a run."""
    machine = _joined(environment.processor, environment.device, environment.precision)
    return f"{machine}, {_cores(environment.threads)} per run"


def _joined(*parts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def distinct(texts: Iterable[str]) -> str:
    """Join distinct texts, as in ``2.12.0 and 2.13.0``."""
    return " and ".join(dict.fromkeys(texts))
