"""Execution of a study in a folder: remaining work, looks at the claims, and results."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError, quoted
from zerolab.core.resources import ProgressBarFactory
from zerolab.play.tournament import TOURNAMENT_FOLDER_KIND
from zerolab.report.document import Document
from zerolab.store.run_folder import is_run
from zerolab.store.storage import STATE_FILE_NAME, FolderStorage, no_progress_bar
from zerolab.studies.cost_model import estimate_run_bytes
from zerolab.studies.design import Design
from zerolab.studies.ledger import write_ledger
from zerolab.studies.looks import TakenLook, look_sizes
from zerolab.studies.results import Results, read_results
from zerolab.studies.scheduler import Scheduler, StudyProgress
from zerolab.studies.study import Scale, Study
from zerolab.studies.study_folder import STUDY_FOLDER_KIND, Failures, StudyFolder, collect_ledger
from zerolab.studies.tasks import Workers

_TOURNAMENT_FILE = TOURNAMENT_FOLDER_KIND.settings_file
_SPARE_BYTES = 1 << 28
_SECONDS_BETWEEN_COPIES = 60.0


@dataclass(frozen=True)
class StudyExecution:
    """Execution of a study, or of selected parts of it, at a scale and in a folder."""

    study: Study
    scale: Scale
    folder: StudyFolder
    seeds: Sequence[int]
    """Planned seeds, in ascending order."""
    design: Design
    """Design of all parts, including parts that are not selected."""
    selected_parts: Sequence[str] = ()
    """Selected parts, or empty for all parts."""

    @classmethod
    def plan(
        cls,
        study: Study,
        scale: Scale,
        root: Path,
        selected_parts: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> StudyExecution:
        """Plan a study in the studies folder `root`; raise UserError if a part is unknown.

        By default, the seeds are those saved in the folder or, in a new folder, those of the study.
        """
        folder = StudyFolder(root, study.name, scale)
        planned = study.planned_seeds(scale)
        if seeds and not planned:
            raise UserError(f"{study.name} has no runs: leave out --seeds")
        seeds = seeds or folder.saved_seeds() or planned
        design = study.design(scale, seeds)
        design.restricted_to_parts(selected_parts)
        return cls(study, scale, folder, seeds, design, selected_parts)

    @cached_property
    def _design_digest(self) -> str:
        return self.study.design_digest(self.scale)

    @property
    def selected_design(self) -> Design:
        """Design of the selected parts."""
        return self.design.restricted_to_parts(self.selected_parts)

    def progress(self) -> StudyProgress:
        """Return the progress of the study, even if another process is working on it."""
        return self.scheduler().progress()

    def scheduler(self) -> Scheduler:
        """Return a scheduler for the selected parts.

        Raises UserError if the path is not a folder, or if the folder is a run or contains another
        study or design.
        """
        if self.folder.root.exists() and not self.folder.root.is_dir():
            raise UserError(f"{quoted(self.folder.root)} is not a folder: choose another --folder")
        if self.folder.root.is_dir() and is_run(self.folder.root):
            raise UserError(f"{quoted(self.folder.root)} is a run: choose another --folder")
        if self.folder.has_begun:
            self.folder.require_same_design(self._design_digest, self.seeds)
        return Scheduler(self.folder, self.selected_design)

    def remaining_bytes(self) -> float:
        """Estimate the disk space that unfinished runs will need, in bytes."""
        return sum(
            estimate_run_bytes(run.settings, run.supervised_position_count)
            for run in self.selected_design.distinct_runs.values()
            if not self.folder.is_readable_and_finished(run)
        )

    def require_disk_space(self) -> None:
        """Raise UserError if the disk does not have enough free space for the unfinished runs."""
        needed = self.remaining_bytes() + _SPARE_BYTES
        existing = next(path for path in (self.folder.root, *self.folder.root.absolute().parents)
                        if path.exists())  # fmt: skip
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise UserError(
                f"{quoted(self.folder.path)} needs about {_gib(needed)}, and the disk has"
                f" {_gib(free)} left: choose a --folder on another disk, or a smaller --scale"
            )

    def create_folder(self) -> None:
        """Create the study folder or check it; raise UserError if `perform_all` could not begin."""
        with self.folder.begin_and_lock(self._design_digest, self.seeds):
            pass

    def forget_failures(self) -> None:
        """Forget all stored failures of the selected parts; see `create_folder` for errors."""
        if self.folder.read_failures():
            with self.folder.begin_and_lock(self._design_digest, self.seeds):
                self.scheduler().forget_failures()

    def results(self, on_run: Callable[[str], None] = lambda title: None) -> Results:
        """Return the results so far; raise UserError if the study has not started.

        `on_run` is called with the title of each run before it is measured, which can take seconds.
        """
        if not self.folder.has_begun:
            raise UserError(
                f"{quoted(self.folder.path)} contains no study: expected the folder of"
                f" zerolab study {self.study.name} --scale {self.scale}"
            )
        self.folder.require_same_design(self._design_digest, self.seeds)
        self.record_last_look()  # in case an earlier process was killed
        ledger, exclusion_messages = collect_ledger(
            self.study, self.scale, self.folder, self.design, self.seeds, on_run
        )
        write_ledger(self.folder.ledger_path, ledger)
        results = read_results(self.design, ledger)
        return replace(
            results, exclusion_messages=[*exclusion_messages, *results.exclusion_messages]
        )

    def report(self) -> Document:
        """Return the report on the results so far."""
        return self.study.report(self.results())

    def blocked_tournaments(self) -> list[str]:
        """Return the keys of selected tournaments that need unfinished runs of unselected parts."""
        selected = self.selected_design
        return [
            tournament.key
            for tournament in selected.tournaments
            if not all(
                run.key in selected.distinct_runs or self.folder.is_readable_and_finished(run)
                for run in tournament.run_by_player.values()
            )
        ]

    def perform_all(
        self, workers: Workers, on_progress: Callable[[StudyProgress], None]
    ) -> Failures:
        """Perform all remaining tasks and return the failures.

        Raises UserError if another process is working on the study, or if the folder contains
        anything other than the study.
        """
        with workers:
            failures = self._perform(self.selected_design, workers, on_progress)
        self.record_last_look()
        return failures

    def record_last_look(self) -> None:
        """Record the look at all seeds if the whole study is finished.

        A look at a subset of the planned seeds is not recorded.
        """
        if self._was_seen(self.seeds) or len(self.seeds) < self._planned_count:
            return
        if not Scheduler(self.folder, self.design).progress().is_unfinished:
            self._record_look(self.seeds)

    def _perform(
        self, design: Design, workers: Workers, on_progress: Callable[[StudyProgress], None]
    ) -> Failures:
        """Perform the remaining tasks of a part of the design; `workers` must be entered."""
        with self.folder.begin_and_lock(self._design_digest, self.seeds):
            return Scheduler(self.folder, design).perform_all(workers, on_progress)

    def _record_look(self, seeds: Sequence[int]) -> None:
        if not self._was_seen(seeds):
            taken = TakenLook(list(seeds), self._planned_count, [])
            self.folder.save_looks([*self.folder.read_looks(self.seeds), taken])

    def _was_seen(self, seeds: Sequence[int]) -> bool:
        """Return whether a look included all the given seeds; True if there are none."""
        looks = self.folder.read_looks(self.seeds)
        return not seeds or any(set(seeds) <= set(look.seeds) for look in looks)

    @property
    def _planned_count(self) -> int:
        return self.study.last_look_size(self.scale, self.seeds)

    def require_time_for_round(self, workers: int, hours: float) -> None:
        """Raise UserError if `perform_rounds` could not finish its next round in `hours`.

        Rounds also require several seeds and all parts of the study.
        """
        if self.selected_parts:
            raise UserError("--hours needs all parts of a study: leave out --only")
        sizes = look_sizes(len(self.seeds))
        if len(sizes) == 1:
            count = {0: "no seeds", 1: "one seed"}[len(self.seeds)]
            raise UserError(
                f"--hours adds seeds in rounds, but {self.study.name} has {count} at the"
                f" {self.scale} scale: leave out --hours"
            )
        for size in sizes:
            needed = self._hours_left(self.seeds[:size], workers)
            if needed > hours:
                raise UserError(
                    f"--hours {hours:g} is too short for a round: expected more than"
                    f" {needed:.2g}, the estimated hours up to seed {self.seeds[size - 1]}"
                )
            if needed > 0.0:
                return

    def perform_rounds(
        self, workers: Workers, on_progress: Callable[[StudyProgress], None], hours: float
    ) -> tuple[Failures, str]:
        """Add seeds in rounds until the primary claims are decided or `hours` have passed.

        Each round ends with a look at the claims (see `zerolab.studies.looks`). Returns the
        failures and, in words, the reason for stopping. Raises UserError like
        `require_time_for_round`.
        """
        deadline = time.monotonic() + 3600 * hours
        self.require_time_for_round(workers.count, hours)
        with workers:
            return self._perform_rounds(workers, on_progress, deadline)

    def _perform_rounds(
        self, workers: Workers, on_progress: Callable[[StudyProgress], None], deadline: float
    ) -> tuple[Failures, str]:
        for size in look_sizes(len(self.seeds)):
            seeds = self.seeds[:size]
            needed = self._hours_left(seeds, workers.count)
            if needed > (deadline - time.monotonic()) / 3600:
                return {}, f"the round up to seed {seeds[-1]} needs about {needed:.2g} more hours"
            design = self.design.restricted_to_seeds(seeds)
            if failures := self._perform(design, workers, on_progress):
                return failures, f"tasks of the first {size} seeds failed"
            if Scheduler(self.folder, design).progress().is_unfinished:
                return {}, f"work remains up to seed {seeds[-1]}: repeat the command"
            self._record_look(seeds)
            results = self.results()
            primary = [each for each in self.study.verdicts(results) if each.claim.is_primary]
            if primary and all(verdict.is_decided for verdict in primary):
                count = len(results.design.seeds)
                return {}, (
                    f"all primary claims are decided after {count} of {len(self.seeds)} seeds"
                )
        return {}, f"all {len(self.seeds)} planned seeds are finished"

    def _hours_left(self, seeds: Sequence[int], workers: int) -> float:
        """Estimate the hours until the runs, games and computations of some seeds are finished."""
        progress = Scheduler(self.folder, self.design.restricted_to_seeds(seeds)).progress()
        return (progress.planned_core_seconds - progress.finished_core_seconds) / workers / 3600

    def status(self) -> dict[str, Any]:
        """Return the total progress, the progress of each part, and the failures, for JSON."""
        scheduler = self.scheduler()
        return {
            "study": self.study.name,
            "scale": self.scale,
            "folder": str(self.folder.path),
            **scheduler.progress()._asdict(),
            "parts": [
                {"part": part, **scheduler.progress(part)._asdict()}
                for part in self.selected_design.part_names
            ],
            "failures": scheduler.failures(),
        }


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


class StudyStorage(FolderStorage):
    """Stored copy of a study's finished work, including runs shared with other studies.

    A copy has the layout of the studies folder, so several studies and machines can share one.
    Unfinished runs are not copied, and nothing is removed from the storage.
    """

    noun = "studies"

    def __init__(self, uri: str, execution: StudyExecution) -> None:
        super().__init__(uri, execution.folder.root)
        self.seeds = list(execution.seeds)
        """Planned seeds, in ascending order."""
        self._study = execution.folder
        self._runs = execution.design.distinct_runs.values()
        self._data_sets = execution.design.datasets
        self._tournament_keys = [each.key for each in execution.design.tournaments]
        self._is_checked = False  # whether the stored study is known to be this one
        self._copied_runs: set[str] = set()
        self._copied_state: tuple[int, int, int] | None = None
        self._next_copy = time.monotonic() + _SECONDS_BETWEEN_COPIES

    def fetch(self, progress_bar: ProgressBarFactory = no_progress_bar) -> int:
        """Download the study's finished work that is missing locally; return the number of items.

        Items are runs, data sets, results of computations and the study's folder or, if the study
        has begun here, its tournaments and looks. Raises UserError if the stored study differs.
        """
        stored, name = self.stored_file_names, self._study.path.name
        if self._study.has_begun:
            self._require_same_study()
        tournaments = self._tournament_keys if self._is_checked else []
        folders = {
            folder
            for folder, commit in [
                *((f"runs/{run.key}", STATE_FILE_NAME) for run in self._runs),
                (name, STUDY_FOLDER_KIND.settings_file),
                *((f"{name}/tournaments/{key}", _TOURNAMENT_FILE) for key in tournaments),
            ]
            if f"{folder}/{commit}" in stored
        }
        single_files = {f"positions/{each.file_name}" for each in self._data_sets}
        single_files |= {f"{name}/looks.json"} if self._is_checked else set()
        files = {each for each in stored if each in single_files or each.startswith("computed/")}
        new_folders, new_files = (
            [name for name in names if not (self._folder / name).exists()]
            for names in (folders, files)
        )
        if new_folders or new_files:
            self.download(new_folders, new_files, progress_bar)
        return len(new_folders) + len(new_files)

    def push(self) -> None:
        """Copy all finished work; call it while no result is being stored.

        Raises UserError if the storage cannot be written, or if it contains this study with another
        design or other seeds.
        """
        if not self._is_checked:
            self._require_same_study()
        runs = [
            run.key
            for run in self._runs
            if run.key not in self._copied_runs and self._study.is_readable_and_finished(run)
        ]
        folders = [*(f"runs/{key}" for key in runs), "computed", "positions"]
        names = [
            name
            for inner in folders
            for name in _commit_last(self.local_file_names(inner), STATE_FILE_NAME)
        ]
        names += _commit_last(
            self.local_file_names(self._study.path.name), STUDY_FOLDER_KIND.settings_file
        )
        self.upload(names, remove_others=False)
        self._is_checked = True
        self._copied_runs.update(runs)

    def _require_same_study(self) -> None:
        """Raise UserError if the stored study has another design or other seeds."""
        settings_file = STUDY_FOLDER_KIND.settings_file
        name = f"{self._study.path.name}/{settings_file}"
        if self.has_file(name):
            with tempfile.TemporaryDirectory() as temporary:
                self._download(name, Path(temporary, settings_file))
                stored = STUDY_FOLDER_KIND.read_settings(Path(temporary))
            if stored != STUDY_FOLDER_KIND.read_settings(self._study.path):
                raise UserError(
                    f"{quoted(self.uri)} contains {self._study.path.name} with other seeds or"
                    " another design: expected another --storage"
                )
            self._is_checked = True

    def push_if_due(self, progress: StudyProgress) -> None:
        """Copy new results, if the last copy was made more than a minute ago."""
        state = progress.finished_runs, progress.finished_games, progress.finished_computations
        if state != self._copied_state and time.monotonic() >= self._next_copy:
            self._next_copy = time.monotonic() + _SECONDS_BETWEEN_COPIES
            self.push()
            self._copied_state = state


def _commit_last(names: Iterable[str], commit: str) -> list[str]:
    """Return file names in alphabetical order, with the file that commits the others last."""
    return sorted(names, key=lambda name: (name.endswith(f"/{commit}"), name))
