"""Collection of the finished work of a study folder into a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from zerolab.core.errors import UserError
from zerolab.play.tournament import Tournament
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import Environment, read_environments
from zerolab.studies.design import Design, PlannedComputation, PlannedRun, PlannedTournament
from zerolab.studies.ledger import Ledger, LedgerHeader, LedgerRow, PairScore, pair_scores
from zerolab.studies.study import Scale, Study
from zerolab.studies.study_folder import StudyFolder
from zerolab.training.reporting import read_records

_Planned = TypeVar("_Planned")
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class FinishedRun:
    """Finished run in a study folder, for measurements of its networks and games."""

    planned: PlannedRun
    folder: RunFolder
    study_folder: StudyFolder
    design: Design

    @cached_property
    def weights_digest(self) -> str:
        """Digest of the best network."""
        return self.folder.weights_digest(self.folder.progress.best)

    def other(self, planned: PlannedRun) -> FinishedRun | None:
        """Return another run of the study, or None if it is not finished."""
        folder = self.study_folder.open_run(planned)
        if folder is None or not folder.progress.finished:
            return None
        return FinishedRun(planned, folder, self.study_folder, self.design)


def collect_ledger(
    study: Study, scale: Scale, folder: StudyFolder, design: Design, seeds: Sequence[int]
) -> tuple[Ledger, list[str]]:
    """Return the ledger of the finished work, and messages about damaged files.

    `seeds` are all planned seeds, in ascending order. Damaged files do not count as finished.
    Measurements are cached in the study folder.
    """
    messages: list[str] = []
    played = list(_readable(lambda each: _read_scores(folder, each), design.tournaments, messages))
    rows = [
        row
        for _, row in _readable(
            lambda planned: _read_run(study, folder, design, planned, played), design.runs, messages
        )
    ]
    for planned, by_player in played:
        rows += [
            LedgerRow(
                "player", planned.part, f"{planned.key}: {spec}", spec, scores=by_player[spec]
            )
            for spec in planned.agent_specs
        ]
    rows += [
        LedgerRow("computation", planned.part, planned.label, planned.key, numbers=result)
        for planned, result in _readable(folder.computation_result, design.computations, messages)
    ]
    header = LedgerHeader(study.name, scale, study.design_digest(scale))
    planned_count = study.planned_count(scale, seeds)
    return Ledger(header, seeds, rows, planned_count, folder.read_looks(seeds)), messages


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


def _read_scores(
    folder: StudyFolder, planned: PlannedTournament
) -> dict[str, list[PairScore]] | None:
    """Return the scores of all players, or None if the tournament is not finished."""
    path = folder.tournament_path(planned)
    saved = Tournament.load(path) if path.is_dir() else None
    if saved is None or saved.remaining_blocks():
        return None
    return pair_scores(planned.key, saved.games())


def _read_run(
    study: Study,
    folder: StudyFolder,
    design: Design,
    planned: PlannedRun,
    played: Sequence[tuple[PlannedTournament, Mapping[str, list[PairScore]]]],
) -> LedgerRow | None:
    """Return the row of a run, or None if the run is not finished."""
    run_folder = folder.open_run(planned)
    if run_folder is None or not run_folder.progress.finished:
        return None
    run = FinishedRun(planned, run_folder, folder, design)
    environments: list[Environment] = []
    with suppress(UserError):  # a damaged file counts as no environments
        environments = read_environments(run_folder.path)
    return LedgerRow(
        "run",
        planned.part,
        planned.label,
        planned.key,
        int(planned.factors["seed"]),
        run.weights_digest,
        environments,
        read_records(run_folder),
        [
            score
            for tournament, by_player in played
            for player, entrant in tournament.run_by_player.items()
            if (entrant.part, entrant.label) == (planned.part, planned.label)
            for score in by_player[player]
        ],
        _measured(study, run),
    )


def _measured(study: Study, run: FinishedRun) -> Mapping[str, Any]:
    """Return the measurements of a run for the report, from the cache if possible."""
    if not study.measurement_version:
        return {}
    identity = {
        "run": run.planned.key, "weights": run.weights_digest, "version": study.measurement_version,
    }  # fmt: skip
    measurement = PlannedComputation("report", run.planned.title, study.name, identity, 0.0)
    with suppress(UserError):
        if (cached := run.study_folder.computation_result(measurement)) is not None:
            return cached
    result = study.measure(run)
    finished = {name: each for name, each in result.items() if each is not None}
    if len(finished) == len(result):
        with suppress(UserError):
            run.study_folder.save_computation_result(measurement, finished)
    return finished
