"""Results of a study, from which its report is generated.

Results are read from disk, so a report needs only the study folder. It can be generated at any time
and lists the unfinished parts.
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
from zerolab.networks.inference import default_device
from zerolab.play.tournament import Tournament
from zerolab.ratings.bayes import Rating, Ratings, rate
from zerolab.report.claims import Verdict
from zerolab.report.document import Provenance
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import Environment, read_environments
from zerolab.studies.claims import Effort, Statistics, judge_claims
from zerolab.studies.design import Design, Level, PlannedComputation, PlannedRun, PlannedTournament
from zerolab.studies.study_folder import StudyFolder
from zerolab.training.context import processor_model
from zerolab.training.records import GateRecord, LearnRecord, Record, SelfPlayRecord
from zerolab.training.reporting import read_records

_Planned = TypeVar("_Planned")
_Read = TypeVar("_Read")

STAGES = ("selfplay", "learn", "gate")
"""Stages whose times add up to the training time [Wang2020a, eq. 2]."""


@dataclass(frozen=True)
class TrainedRun:
    """Finished run with the records of its stages."""

    planned: PlannedRun
    path: Path
    records: Sequence[Record]

    @property
    def factors(self) -> Mapping[str, Level]:
        """Levels that distinguish the run, including the seed."""
        return self.planned.factors

    def records_of(self, record_type: type[Record]) -> list[Any]:
        """Return the records of one type, ordered by iteration."""
        return [record for record in self.records if isinstance(record, record_type)]

    @cached_property
    def last_epoch_losses(self) -> list[dict[str, float]]:
        """Losses by name in the last epoch of each iteration."""
        return [record.loss for record in self.records_of(LearnRecord)]

    @cached_property
    def epoch_losses(self) -> list[list[dict[str, float]]]:
        """Losses by name in each epoch of each iteration."""
        return [record.epoch_losses or [record.loss] for record in self.records_of(LearnRecord)]

    @cached_property
    def training_elos(self) -> list[float]:
        """Training Elo of the best network after each iteration; the untrained network has 0."""
        return [record.elo for record in self.records_of(GateRecord)]

    @cached_property
    def seconds_by_stage(self) -> dict[str, float]:
        """Seconds of self-play, learning and gates, by stage, without measurements."""
        totals = dict.fromkeys(STAGES, 0.0)
        for record in self.records:
            if record.stage in totals:
                totals[record.stage] += record.wall_seconds
        return totals

    @property
    def total_seconds(self) -> float:
        """Total seconds of self-play, learning and gates, without measurements."""
        return sum(self.seconds_by_stage.values())

    @property
    def accepted_count(self) -> int:
        """Number of candidates that became the best network."""
        return sum(record.accepted for record in self.records_of(GateRecord))

    @property
    def position_count(self) -> int:
        """Number of self-play positions."""
        return sum(record.positions for record in self.records_of(SelfPlayRecord))


@dataclass(frozen=True)
class PlayedTournament:
    """Finished tournament."""

    planned: PlannedTournament
    games: Sequence[GameRecord]

    @cached_property
    def ratings(self) -> Ratings:
        """Bayesian Elo of all players."""
        return rate(self.games)

    @cached_property
    def rating_by_player(self) -> dict[str, Rating]:
        """Ratings by name of the player."""
        return {rating.player: rating for rating in self.ratings.players}

    def final_rating(self, run: TrainedRun | PlannedRun) -> Rating:
        """Return the rating of a run's final network."""
        planned = run.planned if isinstance(run, TrainedRun) else run
        name = next(
            name for name, each in self.planned.run_by_player.items()
            if (each.part, each.label) == (planned.part, planned.label)
        )  # fmt: skip
        return self.rating_by_player[name]


@dataclass(frozen=True)
class Results:
    """Finished part of a study."""

    scale: str
    design: Design
    runs: Sequence[TrainedRun]
    tournaments: Mapping[str, PlayedTournament]
    """Finished tournaments by key."""
    computation_results: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Results of finished computations by title, such as ``part: label``."""
    dataset_paths: Mapping[str, Path] = field(default_factory=dict)
    """Files of `Design.report_datasets` by title, such as ``part: positions label``."""
    damage_messages: Sequence[str] = ()
    """Messages about unreadable files, which do not count as finished."""
    folder: StudyFolder | None = None
    """Folder in which reports cache their measurements, or None to repeat them in each report."""

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self.runs)

    def runs_where(self, part: str | None = None, **factors: Level) -> list[TrainedRun]:
        """Return the finished runs with the given levels of factors, of one part or all parts."""
        return [
            run for run in self.runs
            if part in (None, run.planned.part)
            and all(run.factors.get(name) == level for name, level in factors.items())
        ]  # fmt: skip

    def levels(self, factor: str, part: str | None = None) -> list[Level]:
        """Return the planned levels of a factor, in the order of the design."""
        runs = (run for run in self.design.runs if part in (None, run.part))
        return list(dict.fromkeys(run.factors[factor] for run in runs if factor in run.factors))

    def unfinished_message(self, part: str | None = None) -> str:
        """Return a message about unfinished work of one part or all parts, or an empty string."""
        if part not in (None, *self.design.parts):
            return f"{part} is not studied at this scale"
        planned = [run for run in self.design.runs if part in (None, run.part)]
        untrained = len(planned) - len(self.runs_where(part))
        tournaments = [each for each in self.design.tournaments if part in (None, each.part)]
        unplayed = [each.key for each in tournaments if each.key not in self.tournaments]
        messages = []
        if untrained:
            messages.append(f"{untrained} of {len(planned)} runs are not finished")
        uncomputed = [
            each.label for each in self.design.computations
            if part in (None, each.part) and each.title not in self.computation_results
        ]  # fmt: skip
        if uncomputed:
            messages.append(f"{len(uncomputed)} computations are not finished")
        if unplayed:
            messages.append(f"tournaments not finished: {', '.join(unplayed)}")
        return "; ".join(messages)

    def measure_once(
        self, name: str, identity: Mapping[str, Any], measure: Callable[[], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Return the cached result of a measurement, or measure and cache it.

        `identity` must be valid JSON and identify the measurement. Unreadable results are measured
        again. Errors in storing the result are ignored. Like runs, results can also depend on the
        precision and the version of the software.
        """
        if self.folder is None:
            return measure()
        measurement = PlannedComputation("report", name, name, identity, 0.0)
        with suppress(UserError):
            if cached := self.folder.computation_result(measurement):
                return cached
        result = measure()
        with suppress(UserError):
            self.folder.save_computation_result(measurement, result)
        return result

    def judge(self, statistics: Statistics) -> list[Verdict]:
        """Return the verdicts on the claims of a study, given the statistic of each claim."""
        seeds = {run.factors["seed"] for run in self.runs}
        return judge_claims(statistics, Effort(len(seeds), self.training_seconds / 3600))

    @property
    def training_seconds(self) -> float:
        """Total training time of all distinct runs, in seconds."""
        return sum({run.planned.key: run.total_seconds for run in self.runs}.values())


def load_results(folder: StudyFolder, design: Design, scale: str) -> Results:
    """Load the finished part of a study. Damaged files do not count as finished."""
    messages: list[str] = []
    runs = _readable(partial(_read_run, folder), design.runs, messages)
    tournaments = _readable(partial(_read_tournament, folder), design.tournaments, messages)
    computed = _readable(folder.computation_result, design.computations, messages)
    return Results(
        scale,
        design,
        [run for _, run in runs],
        {planned.key: played for planned, played in tournaments},
        {planned.title: result for planned, result in computed},
        {
            each.title: folder.dataset_path(each)
            for each in design.report_datasets
            if folder.has_dataset(each)
        },
        messages,
        folder,
    )


def _readable(
    read: Callable[[_Planned], _Read | None], plans: Iterable[_Planned], messages: list[str]
) -> Iterator[tuple[_Planned, _Read]]:
    """Yield the finished plans with their results, and append errors to `messages`."""
    for planned in plans:
        try:
            result = read(planned)
        except UserError as error:
            messages.append(str(error))
        else:
            if result is not None:
                yield planned, result


def _read_run(folder: StudyFolder, planned: PlannedRun) -> TrainedRun | None:
    """Return a run, or None if it is not finished. A damaged run raises UserError."""
    run = folder.open_run(planned)
    if run is None or not run.progress.finished:
        return None
    return TrainedRun(planned, run.path, read_records(run))


def _read_tournament(folder: StudyFolder, planned: PlannedTournament) -> PlayedTournament | None:
    """Return a tournament, or None if it is not finished. Damaged files raise UserError."""
    path = folder.tournament_path(planned)
    saved = Tournament.load(path) if path.is_dir() else None
    if saved is None or saved.remaining_blocks():
        return None
    return PlayedTournament(planned, saved.games())


def provenance(results: Results) -> Provenance:
    """Return the provenance of results.

    Versions and machines are those that trained the runs, or those of this process without runs.
    """
    runs = {run.planned.key: run for run in results.runs}
    environments = [each for run in runs.values() for each in _environments(run.path)]
    return Provenance(
        run_count=len(runs),
        run_digests=[f"{key} {_network_digest(run.path)}" for key, run in runs.items()],
        versions={
            name: join_distinct(getattr(each, name) for each in environments) or version
            for name, version in current_versions().items()
        },
        seeds=[run.planned.settings.seed for run in runs.values()],
        machine=join_distinct(map(describe_machine, environments)) or describe_this_machine(_gpu()),
        training_hours=results.training_seconds / 3600,
    )


def _network_digest(path: Path) -> str:
    run = RunFolder.open(path)
    return run.weights_digest(run.progress.best)


def _environments(path: Path) -> list[Environment]:
    """Return the environments in which a run was trained; a damaged file counts as none."""
    try:
        return read_environments(path)
    except UserError:
        return []


def _gpu() -> str:
    """Return the name of the GPU that this process would use, or an empty string."""
    device = default_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def describe_this_machine(gpu: str = "") -> str:
    """Describe the processor, number of cores and GPU of this machine."""
    return _joined(processor_model(), _cores(available_cores()), gpu)


def describe_machine(environment: Environment) -> str:
    """Describe the processor, device, precision and number of cores of an environment."""
    machine = _joined(environment.processor, environment.device, environment.precision)
    return f"{machine}, {_cores(environment.threads)} per run"


def _joined(*parts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def join_distinct(texts: Iterable[str]) -> str:
    """Join distinct texts, as in ``2.12.0 and 2.13.0``."""
    return " and ".join(dict.fromkeys(texts))
