"""Folder of a study, runs shared by several studies, and the ledger of finished work.

::

    studies/runs/KEY/                      run, shared by all studies in the folder
    studies/computed/KEY.json              result of a computation or measurement, shared
    studies/positions/KEY.parquet          solved positions, shared
    studies/NAME-SCALE/study.toml          study, its seeds and a digest of its design
    studies/NAME-SCALE/tournaments/KEY/    settings and games
    studies/NAME-SCALE/failures.json       failed tasks that have not succeeded since
    studies/NAME-SCALE/looks.json          seeds of each look at the claims
    studies/NAME-SCALE/ledger.parquet      everything that the report needs from the finished work
    studies/NAME-SCALE/report/             tables, figures and pages
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, strict_json, write_text
from zerolab.play.tournament import Tournament
from zerolab.store.checks import check_schema_version, read_bytes, user_errors_on_read
from zerolab.store.folder import FolderKind, RunEnvironment, read_environments
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedDataset,
    PlannedRun,
    PlannedTournament,
    run_key,
)
from zerolab.studies.ledger import FinishedWorkRow, Ledger, LedgerHeader, PairScore, pair_scores
from zerolab.studies.looks import TakenLook, check_seeds, format_seeds, parse_looks
from zerolab.studies.study import LEDGER_FILE_NAME, REPORT_FOLDER, Scale, Study
from zerolab.training.configure import saved_settings
from zerolab.training.inputs import read_feature_network_files, read_initial_weights_files
from zerolab.training.reporting import read_records

STUDY_FOLDER_KIND = FolderKind("study", "study.toml", "--folder")

SCHEMA = 1
"""Format version of the results of computations."""

Failures = dict[str, list[str]]
"""Last lines of the error message of each failed task, by title of the task."""

MAX_DATASET_BYTES = 1 << 28
"""Largest size of a file of solved positions, in bytes."""

_LARGEST = 1 << 24  # largest size of other files, in bytes


class StudyFolder:
    """Folder of a study at one scale, with access to the runs that studies share."""

    def __init__(self, root: Path, study: str, scale: str) -> None:
        self.root = root
        self.path = root / f"{study}-{scale}"
        self._looks_path = self.path / "looks.json"
        self._failures_path = self.path / "failures.json"
        self._settings = {"study": study, "scale": scale}

    @contextmanager
    def begin_and_lock(self, design_digest: str, seeds: Sequence[int]) -> Iterator[None]:
        """Begin or resume the study, and lock its folder against other processes.

        Raises UserError if the folder contains other files, or a study with another design or other
        seeds.
        """
        with STUDY_FOLDER_KIND.locked(self.path):
            if self.has_begun:
                self.require_same_design(design_digest, seeds)
            else:
                settings = {**self._settings, "design": design_digest, "seeds": list(seeds)}
                STUDY_FOLDER_KIND.write_settings(self.path, settings)
            yield

    def require_same_design(self, design_digest: str, seeds: Sequence[int]) -> None:
        """Raise UserError if the study has a different design or different seeds, or is damaged."""
        saved = STUDY_FOLDER_KIND.read_settings(self.path)
        saved_seeds = saved.pop("seeds", None)
        if saved != {**self._settings, "design": design_digest}:
            raise UserError(
                f"{quoted(self.path)} was started by a version of zerolab with a different design"
                " of this study: remove that folder (runs are stored elsewhere), or choose another"
                " --folder"
            )
        with user_errors_on_read(self.path / STUDY_FOLDER_KIND.settings_file):
            check_seeds(saved_seeds)
        if saved_seeds != list(seeds):
            raise UserError(
                f"{quoted(self.path)} has the seeds {format_seeds(saved_seeds)}: expected"
                f" {format_seeds(seeds)}; choose another --folder for other seeds"
            )

    def saved_seeds(self) -> list[int]:
        """Return the seeds of a study that has started; empty if there is none or it is damaged."""
        with suppress(UserError), user_errors_on_read(self.path / STUDY_FOLDER_KIND.settings_file):
            if self.has_begun:
                return check_seeds(STUDY_FOLDER_KIND.read_settings(self.path).get("seeds"))
        return []

    @property
    def has_begun(self) -> bool:
        """True if the folder contains a study."""
        return self.path.is_dir() and STUDY_FOLDER_KIND.matches(self.path)

    def run_path(self, run: PlannedRun) -> Path:
        """Return the folder of a run."""
        return self.root / "runs" / run.key

    def open_run(self, run: PlannedRun) -> RunFolder | None:
        """Return the folder of a run, or None if the run has not started.

        Raises UserError if the folder is damaged or contains another run.
        """
        path = self.run_path(run)
        if not is_run(path):
            return None
        run_folder = RunFolder.open(path)
        if run_key(saved_settings(run_folder)) != run.key:
            raise UserError(f"{quoted(path)} has settings that do not match its name: remove it")
        return run_folder

    def is_finished(self, run: PlannedRun) -> bool:
        """Return whether the training of a run is finished."""
        run_folder = self.open_run(run)
        return run_folder is not None and run_folder.progress.finished

    def is_readable_and_finished(self, run: PlannedRun) -> bool:
        """Return whether the training of a run is finished and the run is not damaged."""
        try:
            return self.is_finished(run)
        except UserError:
            return False

    def current_iteration(self, run: PlannedRun) -> int:
        """Return the current iteration of a run, counted from 1."""
        run_folder = self.open_run(run)
        return run_folder.progress.current_iteration if run_folder else 1

    def finished_share(self, run: PlannedRun) -> float:
        """Return the fraction of a run's iterations completed; below 1 even for a finished run."""
        return (self.current_iteration(run) - 1) / run.settings.iterations

    def run_seconds(self, run: PlannedRun) -> float:
        """Return the measured time of a run so far, in seconds."""
        run_folder = self.open_run(run)
        return sum(line["wall_seconds"] for line in run_folder.metrics()) if run_folder else 0.0

    def tournament_path(self, tournament: PlannedTournament) -> Path:
        """Return the folder of a tournament."""
        return self.path / "tournaments" / tournament.key

    def dataset_path(self, dataset: PlannedDataset) -> Path:
        """Return the path of a data set."""
        return self.root / "positions" / dataset.file_name

    def has_dataset(self, dataset: PlannedDataset) -> bool:
        """Return whether the file of a data set exists."""
        return self.dataset_path(dataset).is_file()

    def read_source_files(self, run: PlannedRun) -> dict[str, bytes]:
        """Return the files that a run copies from its source runs, as content by name.

        Raises UserError if a file is damaged.
        """
        files: dict[str, bytes] = {}
        if run.feature_run is not None and (features := self.open_run(run.feature_run)):
            files |= read_feature_network_files(features)
        if run.start_run is not None and (start := self.open_run(run.start_run)):
            files |= read_initial_weights_files(run.settings, start)
        return files

    def _computation_path(self, computation: PlannedComputation) -> Path:
        return self.root / "computed" / f"{computation.key}.json"

    def computation_result(self, computation: PlannedComputation) -> dict[str, Any] | None:
        """Return the stored result of a computation or measurement, or None if there is none.

        Raises UserError if the result is damaged.
        """
        path = self._computation_path(computation)
        if not path.exists():
            return None
        content = read_bytes(path, _LARGEST)
        with user_errors_on_read(path):
            table = json.loads(content)
            check_schema_version(path, table["schema_version"], SCHEMA)
            return dict(table["result"])

    def save_computation_result(
        self, computation: PlannedComputation, result: Mapping[str, Any]
    ) -> None:
        """Store the result of a computation or measurement; raise UserError if it is not JSON."""
        path = self._computation_path(computation)
        make_folder(path.parent)
        table = {
            "schema_version": SCHEMA, "function": computation.function_path,
            "arguments": dict(computation.arguments), "result": dict(result),
        }  # fmt: skip
        write_text(path, strict_json(computation.title, table) + "\n")

    @property
    def ledger_path(self) -> Path:
        """File with everything that the report needs from the finished work."""
        return self.path / LEDGER_FILE_NAME

    def read_looks(self, seeds: Sequence[int]) -> list[TakenLook]:
        """Return the looks at the claims of a study whose planned seeds are `seeds`.

        Raises UserError if the file is damaged.
        """
        if not self._looks_path.exists():
            return []
        content = read_bytes(self._looks_path, _LARGEST)
        with user_errors_on_read(self._looks_path):
            table = json.loads(content)
            check_schema_version(self._looks_path, table["schema_version"], SCHEMA)
            return parse_looks(table["looks"], seeds)

    def save_looks(self, looks: Sequence[TakenLook]) -> None:
        """Store the looks at the claims."""
        table = {"schema_version": SCHEMA, "looks": [look.as_dict() for look in looks]}
        write_text(self._looks_path, json.dumps(table) + "\n")

    @property
    def report_path(self) -> Path:
        """Folder of the report."""
        return self.path / REPORT_FOLDER

    def read_failures(self) -> Failures:
        """Return the stored failures; a damaged file counts as no failures."""
        try:
            content = read_bytes(self._failures_path, _LARGEST)
            with user_errors_on_read(self._failures_path):
                table = dict(json.loads(content))
                return {str(task): [str(line) for line in lines] for task, lines in table.items()}
        except UserError:
            return {}

    def save_failures(self, failures: Failures) -> None:
        """Replace the stored failures."""
        write_text(self._failures_path, json.dumps(failures, indent=1) + "\n")


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

    def other_run(self, planned: PlannedRun) -> FinishedRun | None:
        """Return another run of the study, or None if it is not finished."""
        folder = self.study_folder.open_run(planned)
        if folder is None or not folder.progress.finished:
            return None
        return FinishedRun(planned, folder, self.study_folder, self.design)


def collect_ledger(
    study: Study,
    scale: Scale,
    folder: StudyFolder,
    design: Design,
    seeds: Sequence[int],
    on_run: Callable[[str], None] = lambda title: None,
) -> tuple[Ledger, list[str]]:
    """Return the ledger of the finished work, and messages about damaged files.

    `seeds` are all planned seeds, in ascending order. Damaged files do not count as finished.
    Measurements are cached in the study folder; `on_run` is called before each run is measured.
    """
    messages: list[str] = []

    def read_run(planned: PlannedRun) -> FinishedWorkRow | None:
        on_run(planned.title)
        return _read_run(study, folder, design, planned, played)

    played = list(_readable(lambda each: _read_scores(folder, each), design.tournaments, messages))
    rows = [row for _, row in _readable(read_run, design.runs, messages)]
    for planned, by_player in played:
        rows += [
            FinishedWorkRow(
                "player", planned.part, f"{planned.key}: {spec}", spec, scores=by_player[spec]
            )
            for spec in planned.agent_specs
        ]
    rows += [
        FinishedWorkRow("computation", each.part, each.label, each.key, measurements=result)
        for each, result in _readable(folder.computation_result, design.computations, messages)
    ]
    header = LedgerHeader(study.name, scale, study.design_digest(scale))
    planned_count = study.last_look_size(scale, seeds)
    return Ledger(header, seeds, rows, planned_count, folder.read_looks(seeds)), messages


def _readable(
    read: Callable[[_Planned], _Read | None], plans: Iterable[_Planned], messages: list[str]
) -> Iterator[tuple[_Planned, _Read]]:
    """Yield the finished `plans` with their results, and append errors to `messages`."""
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
) -> FinishedWorkRow | None:
    """Return the row of a run, or None if the run is not finished."""
    run_folder = folder.open_run(planned)
    if run_folder is None or not run_folder.progress.finished:
        return None
    run = FinishedRun(planned, run_folder, folder, design)
    environments: list[RunEnvironment] = []
    with suppress(UserError):  # a damaged file counts as no environments
        environments = read_environments(run_folder.path)
    return FinishedWorkRow(
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
    """Return the measurements of a run; raise UserError if one is not JSON, such as NaN."""
    if not study.measurement_version:
        return {}
    identity = {
        "run": run.planned.key, "weights": run.weights_digest, "version": study.measurement_version,
        "positions": [dataset.key for dataset in run.design.report_datasets],
    }  # fmt: skip
    measurement = PlannedComputation("report", run.planned.title, study.name, identity, 0.0)
    with suppress(UserError):
        if (cached := run.study_folder.computation_result(measurement)) is not None:
            return cached
    result = study.measure_run(run)
    finished = {name: each for name, each in result.items() if each is not None}
    strict_json(run.planned.title, finished)  # before it is part of a ledger
    if len(finished) == len(result):
        with suppress(UserError):
            run.study_folder.save_computation_result(measurement, finished)
    return finished
