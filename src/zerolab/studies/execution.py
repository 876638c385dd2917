"""Scheduling, progress, results and reports of a study.

Finished work is read from disk, so resuming a study is the same as beginning it. If a task fails,
the last lines of its error message are stored, and other tasks continue.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.report.document import Document
from zerolab.store.run_folder import is_run
from zerolab.studies.collect import collect_ledger
from zerolab.studies.cost_model import TimeCorrection, estimate_run_bytes
from zerolab.studies.design import Design
from zerolab.studies.ledger import write_ledger
from zerolab.studies.queues import ComputationQueue, RunQueue, TournamentQueue
from zerolab.studies.results import Results, read_results
from zerolab.studies.study import Scale, Study, look_sizes
from zerolab.studies.study_folder import Failures, StudyFolder
from zerolab.studies.tasks import (
    CompileTask,
    ComputationTask,
    DatasetTask,
    Task,
    TaskOutcome,
    TournamentSliceTask,
    TrainTask,
    last_error_lines,
)
from zerolab.studies.workers import Workers

_POLL_SECONDS = 1.0
_SPARE_BYTES = 1 << 28


class StudyProgress(NamedTuple):
    """Progress of a study or of one of its parts."""

    runs: int
    """Number of planned runs."""
    finished_runs: int
    games: int
    """Number of planned tournament games."""
    finished_games: int
    computations: int
    """Number of computations and data sets."""
    finished_computations: int
    active: list[str]
    """Titles of active tasks and of runs in other processes; active runs with their iteration."""
    failed: int
    """Number of failed tasks that have not succeeded since."""
    seconds: float
    """Estimated time of all planned work on one core, in seconds."""
    done_seconds: float
    """Estimated time of finished work on one core, in seconds."""

    @property
    def is_unfinished(self) -> bool:
        """True if any work remains."""
        finished = self.finished_runs, self.finished_games, self.finished_computations
        return finished != (self.runs, self.games, self.computations)


class Scheduler:
    """Scheduler that assigns the tasks of a design to workers.

    `perform_all` requires the lock of the study.
    """

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self._folder = folder
        self._design = design
        self._active: dict[str, tuple[Task, float]] = {}
        """Active tasks by title, with their start times."""
        self._stack = ExitStack()
        self._runs = RunQueue(folder, design)
        self._tournaments = [
            TournamentQueue(folder, planned, self._stack) for planned in design.tournaments
        ]
        self._untrained = {
            run.key for planned in design.tournaments for run in planned.run_by_player.values()
            if run.key not in self._runs.run_keys() and not folder.is_readable_and_finished(run)
        }  # fmt: skip
        """Keys of untrained runs that play in tournaments but belong to unselected parts."""
        self._computations = ComputationQueue(folder, design)
        self._games_correction = TimeCorrection()
        self._iterations: dict[str, str] = {}
        """Iterations of active runs by title, at the last update."""
        self._update_due = 0.0
        self._earlier_failures = folder.read_failures()
        self._failures: Failures = {**self._runs.failures, **self._computations.failures}
        """Failures since this scheduler was created."""
        for tournament in self._tournaments:
            self._failures |= tournament.failures

    def perform_all(
        self, workers: Workers, on_progress: Callable[[StudyProgress], None]
    ) -> Failures:
        """Perform all remaining tasks, report to `on_progress`, and return the failures."""
        self.forget_failures()
        with self._stack:
            while True:
                self._runs.requeue_unlocked()
                while len(self._active) < workers.count and (task := self._next()):
                    self._active[task.title] = task, time.monotonic()
                    workers.submit(task)
                if self._active:
                    for outcome in workers.wait_for_outcomes(_POLL_SECONDS):
                        self._finish(outcome)
                elif self._runs.awaited_titles:
                    time.sleep(_POLL_SECONDS)
                else:
                    return self._failures
                on_progress(self.progress())

    def _next(self) -> Task | None:
        """Return a task of the first part that has a task ready to begin.

        While the runs of a part wait for data sets, or its tournaments for runs, workers proceed to
        the next part.
        """
        for part in self._design.parts:
            task = (
                self._computations.next_task(part) or self._next_run(part) or self._next_slice(part)
            )
            if task is not None:
                return task
        return None

    def _next_run(self, part: str) -> TrainTask | CompileTask | None:
        task = self._runs.next_task([part])
        for title in self._runs.failures.keys() - self._failures.keys():
            self._fail(title, self._runs.failures[title])
        return task

    def _next_slice(self, part: str) -> TournamentSliceTask | None:
        for tournament in self._tournaments:
            if tournament.planned.part == part and self._can_begin(tournament):
                try:
                    task = tournament.next_task()
                except Exception as error:  # other tournaments must continue after any error
                    self._fail(tournament.title, last_error_lines(error))
                    continue
                if task is not None:
                    return task
        return None

    def _can_begin(self, tournament: TournamentQueue) -> bool:
        """Return whether a tournament has not failed and all its runs are trained."""
        keys = {run.key for run in tournament.planned.run_by_player.values()}
        is_trained = keys.isdisjoint(self._untrained) and all(
            self._runs.is_trained(key) for key in keys & self._runs.run_keys()
        )
        return is_trained and tournament.title not in self._failures

    def _finish(self, outcome: TaskOutcome) -> None:
        task, start = self._active.pop(outcome.task.title)
        if isinstance(task, CompileTask):
            self._runs.mark_compiled(task)
        if outcome.is_trained_elsewhere and isinstance(task, TrainTask):
            self._runs.mark_trained_elsewhere(task.key)
        elif outcome.error_lines is not None:
            self._fail(task.title, outcome.error_lines)
        else:
            try:
                self._store(task, outcome, time.monotonic() - start)
            except UserError as error:
                self._fail(task.title, last_error_lines(error))

    def _store(self, task: Task, outcome: TaskOutcome, seconds: float) -> None:
        """Store the result of a task."""
        if isinstance(task, TrainTask):
            self._runs.mark_finished(task.key)
        elif isinstance(task, ComputationTask | DatasetTask):
            self._computations.mark_finished(task, outcome.result)
        elif isinstance(task, TournamentSliceTask):
            (queue,) = (
                each for each in self._tournaments if each.planned.key == task.tournament_key
            )
            self._games_correction.add(
                queue.estimated_seconds * len(task.pairings) / queue.game_count, seconds
            )
            queue.record_games(outcome.result)

    def _fail(self, title: str, lines: list[str]) -> None:
        self._failures[title] = lines
        self._save_failures()

    def forget_failures(self) -> None:
        """Forget earlier failures in the selected parts."""
        parts = self._design.parts
        self._earlier_failures = {
            title: lines
            for title, lines in self._earlier_failures.items()
            if _part_of(title) not in parts
        }
        self._save_failures()

    def _save_failures(self) -> None:
        self._folder.save_failures({**self._earlier_failures, **self._failures})

    def failures(self, part: str | None = None) -> Failures:
        """Return the failures of tasks that have not succeeded since, in all parts or in one."""
        parts = self._design.parts if part is None else [part]
        failures = {**self._earlier_failures, **self._failures}
        return {title: lines for title, lines in failures.items() if _part_of(title) in parts}

    def progress(self, part: str | None = None) -> StudyProgress:
        """Return the progress of the study or of one part."""
        self._update()
        keys = self._runs.run_keys(part)
        tournaments = [each for each in self._tournaments if part in (None, each.planned.part)]
        computations, uncomputed = self._computations.total_and_remaining_count(part)
        total, remaining = self._runs.total_and_remaining_seconds(keys)
        factor = self._games_correction.factor
        total += factor * sum(each.estimated_seconds for each in tournaments)
        remaining += factor * sum(each.remaining_seconds for each in tournaments)
        computing, computing_remaining = self._computations.total_and_remaining_seconds(part)
        return StudyProgress(
            runs=len(keys),
            finished_runs=sum(self._runs.is_trained(key) for key in keys),
            games=sum(each.game_count for each in tournaments),
            finished_games=sum(each.game_count - each.games_left for each in tournaments),
            computations=computations,
            finished_computations=computations - uncomputed,
            active=list(self._describe_active(part)),
            failed=len(self.failures(part)),
            seconds=total + computing,
            done_seconds=total + computing - remaining - computing_remaining,
        )

    def _describe_active(self, part: str | None) -> Iterator[str]:
        """Yield the titles of active tasks and of runs in other processes."""
        for title in self._active:
            if part in (None, _part_of(title)):
                iteration = self._iterations.get(title)
                yield f"{title} ({iteration})" if iteration else title
        for title in self._runs.awaited_titles:
            if part in (None, _part_of(title)):
                yield f"waiting for {title} (another process)"

    def _update(self) -> None:
        """Read the progress of active runs, at most once per second.

        In studies with many runs, tasks finish faster than the progress of all runs can be read.
        """
        if time.monotonic() >= self._update_due:
            self._iterations = {
                title: self._runs.update_progress(task.key)
                for title, (task, _) in self._active.items()
                if isinstance(task, TrainTask)
            }
            self._update_due = time.monotonic() + _POLL_SECONDS


def _part_of(title: str) -> str:
    """Return the part of a task from its title."""
    return title.partition(":")[0]


@dataclass(frozen=True)
class StudyExecution:
    """Execution of a study, or of selected parts of it, at a scale and in a folder."""

    study: Study
    scale: Scale
    folder: StudyFolder
    design: Design
    """Design of all parts, including parts that are not selected."""
    selected_parts: Sequence[str] = ()
    """Selected parts, or empty for all parts."""

    @classmethod
    def plan(
        cls, study: Study, scale: Scale, root: Path, selected_parts: Sequence[str] = ()
    ) -> StudyExecution:
        """Plan a study in the studies folder `root`; an unknown part raises UserError."""
        design = study.planned_design(scale)
        design.only(selected_parts)
        return cls(study, scale, StudyFolder(root, study.name, scale), design, selected_parts)

    @property
    def selected_design(self) -> Design:
        """Design of the selected parts."""
        return self.design.only(self.selected_parts)

    def progress(self) -> StudyProgress:
        """Return the progress of the study, even if another process is working on it."""
        return self.scheduler().progress()

    def scheduler(self) -> Scheduler:
        """Return a scheduler for the selected parts.

        Raise UserError if the path is not a folder, or if the folder is a run or contains another
        study or design.
        """
        if self.folder.root.exists() and not self.folder.root.is_dir():
            raise UserError(f"{quoted(self.folder.root)} is not a folder: choose another --folder")
        if self.folder.root.is_dir() and is_run(self.folder.root):
            raise UserError(f"{quoted(self.folder.root)} is a run: choose another --folder")
        if self.folder.has_begun:
            self.folder.require_design(self.design)
        return Scheduler(self.folder, self.selected_design)

    def remaining_bytes(self) -> float:
        """Estimate the disk space that unfinished runs will need, in bytes."""
        return sum(
            estimate_run_bytes(run.settings)
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

    def begin(self) -> None:
        """Create the study folder; raise UserError if `perform_all` could not begin."""
        with self.folder.locked(self.design):
            pass

    def forget_failures(self) -> None:
        """Forget all stored failures of the selected parts; see `begin` for errors."""
        if self.folder.read_failures():
            with self.folder.locked(self.design):
                self.scheduler().forget_failures()

    def results(self) -> Results:
        """Return the results so far; a study that has not begun raises UserError."""
        if not self.folder.has_begun:
            raise UserError(
                f"{quoted(self.folder.path)} contains no study: expected the folder of"
                f" zerolab study {self.study.name} --scale {self.scale}"
            )
        self.folder.require_design(self.design)
        ledger, damage_messages = collect_ledger(self.study, self.scale, self.folder, self.design)
        write_ledger(self.folder.ledger_path, ledger)
        results = read_results(self.design, ledger, len(self.design.seeds))
        return replace(results, damage_messages=damage_messages)

    def document(self) -> Document:
        """Return the report on the results so far."""
        return self.study.document(self.results())

    def blocked_tournaments(self) -> list[str]:
        """Return the keys of selected tournaments that need untrained runs of unselected parts."""
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

        Raise UserError if another process is working on the study, or if the folder contains
        anything else.
        """
        failures = self._perform(self.design.seeds, workers, on_progress)
        if not self.progress().is_unfinished and not self.selected_parts:
            self._record_look(self.design.seeds)
        return failures

    def _perform(
        self,
        seeds: Sequence[int],
        workers: Workers,
        on_progress: Callable[[StudyProgress], None],
    ) -> Failures:
        """Perform the remaining tasks of some seeds."""
        design = self.selected_design.of_seeds(seeds)
        with self.folder.locked(self.design), workers:
            return Scheduler(self.folder, design).perform_all(workers, on_progress)

    def _record_look(self, seeds: Sequence[int]) -> None:
        looks = self.folder.read_looks()
        if list(seeds) not in looks:
            self.folder.save_looks([*looks, list(seeds)])

    def perform_rounds(
        self, workers: Workers, on_progress: Callable[[StudyProgress], None], hours: float
    ) -> tuple[Failures, str]:
        """Add seeds in rounds until the primary claims are decided or `hours` are over.

        After each round there is a look at the claims, see `zerolab.studies.looks`. Return the
        failures, and the reason for the end in words. Raise UserError, before any work, if the next
        round would take longer than `hours`.
        """
        deadline = time.monotonic() + 3600 * hours
        seeds = self.design.seeds
        for number, size in enumerate(look_sizes(len(seeds))):
            round_seeds = seeds[:size]
            left = self._round_hours(round_seeds, workers.count)
            if left > (deadline - time.monotonic()) / 3600:
                message = f"the seeds up to {size} of {len(seeds)} take about {left:.2g} hours"
                if not number and left > hours:
                    raise UserError(f"--hours {hours:g}: expected more, since {message}")
                return {}, f"{message}, which are not left"
            if failures := self._perform(round_seeds, workers, on_progress):
                return failures, f"tasks of the first {size} seeds failed"
            self._record_look(round_seeds)
            verdicts = self.study.verdicts(self.results())
            if all(verdict.is_decided for verdict in verdicts if verdict.claim.is_primary):
                return {}, f"all primary claims are decided after {size} of {len(seeds)} seeds"
        return {}, f"all {len(seeds)} planned seeds are finished"

    def _round_hours(self, seeds: Sequence[int], workers: int) -> float:
        """Estimate the hours until the runs, games and computations of some seeds are finished."""
        view = Scheduler(self.folder, self.selected_design.of_seeds(seeds)).progress()
        return (view.seconds - view.done_seconds) / workers / 3600

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
                for part in self.selected_design.parts
            ],
            "failures": scheduler.failures(),
        }


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
