"""Folder of a study, and of the runs that studies share.

::

    studies/runs/KEY/                      a run, shared by all studies of the folder
    studies/computed/KEY.json              results of computations and measurements, also shared
    studies/positions/KEY.parquet          solved positions, also shared
    studies/NAME-SCALE/study.toml          the study and the digest of its design
    studies/NAME-SCALE/tournaments/PART/   games and ratings
    studies/NAME-SCALE/failures.json       failures of tasks that have not succeeded since
    studies/NAME-SCALE/report/             tables, figures and pages
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, write_text
from zerolab.store.checks import check_schema, read_bytes, reading
from zerolab.store.folder import FolderKind
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedPositions,
    PlannedRun,
    PlannedTournament,
    run_key,
)
from zerolab.training.configure import saved_settings
from zerolab.training.inputs import read_feature_files, start_files

STUDY = FolderKind("study", "study.toml", "--folder")

SCHEMA = 1
"""Version of the files with results of computations."""

Failures = dict[str, list[str]]
"""Last lines of errors by the title of the task."""

LARGEST_POSITIONS = 1 << 28
"""Bytes of a file of solved positions."""

_LARGEST = 1 << 24  # bytes of other files


class StudyFolder:
    """Folder of one study at one scale, beside the runs that it shares with others."""

    def __init__(self, root: Path, study: str, scale: str) -> None:
        self.root = root
        self.path = root / f"{study}-{scale}"
        self._settings = {"study": study, "scale": scale}

    @contextmanager
    def locked(self, design: Design) -> Iterator[None]:
        """Begin or resume the study, and keep other processes out.

        Raises UserError if the folder holds something else or was begun with another design.
        """
        with STUDY.locked(self.path):
            if self.exists:
                self.require(design)
            else:
                STUDY.write_settings(self.path, {**self._settings, "design": design.digest})
            yield

    def require(self, design: Design) -> None:
        """Raise UserError if the study was begun with another design or its file is damaged."""
        if STUDY.read_settings(self.path) != {**self._settings, "design": design.digest}:
            raise UserError(
                f"{quoted(self.path)} was begun by a version of zerolab with another design of"
                " this study: choose another --folder, or remove it (its runs are stored elsewhere)"
            )

    @property
    def exists(self) -> bool:
        """True if the study has been begun."""
        return self.path.is_dir() and STUDY.is_in(self.path)

    def run_path(self, run: PlannedRun) -> Path:
        """Return the folder of a run."""
        return self.root / "runs" / run.key

    def open_run(self, run: PlannedRun) -> RunFolder | None:
        """Return a run if it has been begun; raise UserError if it is damaged or another run."""
        path = self.run_path(run)
        if not is_run(path):
            return None
        opened = RunFolder.open(path)
        if run_key(saved_settings(opened)) != run.key:
            raise UserError(f"{quoted(path)} has settings that do not match its name: remove it")
        return opened

    def is_finished(self, run: PlannedRun) -> bool:
        """Return whether a run has been trained to its end."""
        opened = self.open_run(run)
        return opened is not None and opened.progress.finished

    def is_readable_and_finished(self, run: PlannedRun) -> bool:
        """Return whether a run has been trained to its end and is not damaged."""
        try:
            return self.is_finished(run)
        except UserError:
            return False

    def iteration(self, run: PlannedRun) -> int:
        """Return the iteration that a run is in, counted from 1."""
        opened = self.open_run(run)
        return min(run.settings.iterations, opened.progress.iteration) if opened else 1

    def share_done(self, run: PlannedRun) -> float:
        """Return the share of a run's iterations that are finished."""
        return (self.iteration(run) - 1) / run.settings.iterations

    def run_seconds(self, run: PlannedRun) -> float:
        """Return the seconds that a run has taken so far."""
        opened = self.open_run(run)
        return sum(line["wall_seconds"] for line in opened.metrics()) if opened else 0.0

    def tournament_path(self, tournament: PlannedTournament) -> Path:
        """Return the folder of a tournament."""
        return self.path / "tournaments" / tournament.key

    def positions_path(self, positions: PlannedPositions) -> Path:
        """Return the file of solved positions."""
        return self.root / "positions" / positions.file

    def has_positions(self, positions: PlannedPositions) -> bool:
        """Return whether the file of solved positions exists."""
        return self.positions_path(positions).is_file()

    def read_sources(self, run: PlannedRun) -> dict[str, bytes]:
        """Return the contents of the files that a run keeps of its sources, by name.

        Raises UserError if they are damaged.
        """
        files: dict[str, bytes] = {}
        if run.source is not None and (learnt := self.open_run(run.source)):
            files |= read_feature_files(learnt)
        if run.start is not None and (started := self.open_run(run.start)):
            files |= start_files(run.settings, started)
        return files

    def _computed_path(self, computation: PlannedComputation) -> Path:
        return self.root / "computed" / f"{computation.key}.json"

    def computed(self, computation: PlannedComputation) -> dict[str, float] | None:
        """Return the result of a computation, or None; raise UserError if it is damaged."""
        path = self._computed_path(computation)
        if not path.exists():
            return None
        content = read_bytes(path, _LARGEST)
        with reading(path):
            table = json.loads(content)
            check_schema(path, table["schema_version"], SCHEMA)
            return {str(name): float(value) for name, value in table["result"].items()}

    def save_computed(self, computation: PlannedComputation, result: Mapping[str, float]) -> None:
        """Store the result of a computation."""
        path = self._computed_path(computation)
        make_folder(path.parent)
        table = {
            "schema_version": SCHEMA, "function": computation.function,
            "arguments": dict(computation.arguments), "result": dict(result),
        }  # fmt: skip
        write_text(path, json.dumps(table, indent=1) + "\n")

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self.path / "report"

    @property
    def _failures_path(self) -> Path:
        return self.path / "failures.json"

    def failures(self) -> Failures:
        """Return the failures of tasks that have not succeeded since; none if damaged."""
        try:
            content = read_bytes(self._failures_path, _LARGEST)
            with reading(self._failures_path):
                table = dict(json.loads(content))
                return {str(task): [str(line) for line in lines] for task, lines in table.items()}
        except UserError:
            return {}

    def save_failures(self, failures: Failures) -> None:
        """Replace the list of failures."""
        write_text(self._failures_path, json.dumps(failures, indent=1) + "\n")
