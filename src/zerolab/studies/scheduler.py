"""Scheduling and progress of a study.

Finished work is read from disk, so resuming a study is the same as beginning it. If a task fails,
the last lines of its error message are stored, and other tasks continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.specs import parse_agents
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.dataset import is_being_made
from zerolab.rules.catalogue import parse_game
from zerolab.studies.cost_model import TimeCorrection
from zerolab.studies.design import Design, PlannedTournament
from zerolab.studies.queues import ComputationQueue, RunQueue, TournamentQueue
from zerolab.studies.study_folder import Failures, StudyFolder
from zerolab.studies.tasks import (
    CompileTask,
    ComputationTask,
    DatasetTask,
    Task,
    TaskOutcome,
    TournamentSliceTask,
    TrainTask,
    Workers,
    last_error_lines,
)

_POLL_SECONDS = 1.0


class StudyProgress(NamedTuple):
    """Progress of a study or of one of its parts."""

    planned_runs: int
    """Number of planned runs."""
    finished_runs: int
    planned_games: int
    """Number of planned tournament games."""
    finished_games: int
    planned_computations: int
    """Number of computations and data sets."""
    finished_computations: int
    active_titles: list[str]
    """Titles of active tasks, with the iteration if the task trains a run, and titles of the tasks
    on which this process waits for another process."""
    failed_count: int
    """Number of failed tasks that have not succeeded since."""
    planned_core_seconds: float
    """Estimated time of all planned work on one core, in seconds."""
    finished_core_seconds: float
    """Estimated time of finished work on one core, in seconds."""

    @property
    def is_unfinished(self) -> bool:
        """True if any work remains."""
        finished = self.finished_runs, self.finished_games, self.finished_computations
        return finished != (self.planned_runs, self.planned_games, self.planned_computations)


class Scheduler:
    """Scheduler that assigns the tasks of a design to workers.

    `perform_all` requires the lock of the study.
    """

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self._folder = folder
        self._design = design
        self._active: dict[str, tuple[Task, float]] = {}
        """Active tasks by title, with their start times."""
        self._datasets_elsewhere: list[DatasetTask] = []
        """Tasks of data sets that another process is creating."""
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
        """Perform all remaining tasks, report to `on_progress`, and return the failures.

        Raises UserError if an agent's spec is invalid or differs from the agent's name, under which
        the report looks for its games.
        """
        for tournament in self._design.tournaments:
            _require_names_of_agents(tournament)
        self.forget_failures()
        with self._stack:
            while True:
                self._runs.requeue_abandoned_runs()
                while len(self._active) < workers.count and (task := self._next()):
                    self._active[task.title] = task, time.monotonic()
                    workers.submit(task)
                if self._active:
                    for outcome in workers.wait_for_outcomes(_POLL_SECONDS):
                        self._finish(outcome)
                elif self._titles_elsewhere:
                    time.sleep(_POLL_SECONDS)
                else:
                    return self._failures
                on_progress(self.progress())

    @property
    def _titles_elsewhere(self) -> list[str]:
        """Titles of the runs and data sets that other processes are working on."""
        datasets = [task.title for task in self._datasets_elsewhere]
        return [*self._runs.titles_trained_elsewhere, *datasets]

    def _next(self) -> Task | None:
        """Return a computation, tournament slice or run that can begin, in this order of priority.

        The tournaments of a seed thus come before the runs of the next seed.
        """
        return (
            self._next_released_dataset()
            or self._computations.next_task()
            or self._next_slice()
            or self._next_run()
        )

    def _next_released_dataset(self) -> DatasetTask | None:
        """Return the task of a data set that another process has finished or abandoned."""
        for task in self._datasets_elsewhere:
            if not is_being_made(Path(task.path)):
                self._datasets_elsewhere.remove(task)
                return task
        return None

    def _next_run(self) -> TrainTask | CompileTask | None:
        task = self._runs.next_task()
        for title in self._runs.failures.keys() - self._failures.keys():
            self._record_failure(title, self._runs.failures[title])
        return task

    def _next_slice(self) -> TournamentSliceTask | None:
        for tournament in self._tournaments:
            if self._can_begin(tournament):
                try:
                    task = tournament.next_task()
                except Exception as error:  # other tournaments must continue after any error
                    self._record_failure(tournament.title, last_error_lines(error))
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
        if outcome.is_in_use_elsewhere and isinstance(task, TrainTask):
            self._runs.mark_trained_elsewhere(task.key)
        elif outcome.is_in_use_elsewhere and isinstance(task, DatasetTask):
            self._datasets_elsewhere.append(task)
        elif outcome.error_lines is not None:
            self._record_failure(task.title, outcome.error_lines)
        else:
            try:
                self._store(task, outcome, time.monotonic() - start)
            except UserError as error:
                self._record_failure(task.title, last_error_lines(error))

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

    def _record_failure(self, title: str, lines: list[str]) -> None:
        self._failures[title] = lines
        self._save_failures()

    def forget_failures(self) -> None:
        """Forget earlier failures in the selected parts."""
        parts = self._design.part_names
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
        parts = self._design.part_names if part is None else [part]
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
            planned_runs=len(keys),
            finished_runs=sum(self._runs.is_trained(key) for key in keys),
            planned_games=sum(each.game_count for each in tournaments),
            finished_games=sum(each.game_count - each.games_left for each in tournaments),
            planned_computations=computations,
            finished_computations=computations - uncomputed,
            active_titles=list(self._describe_active(part)),
            failed_count=len(self.failures(part)),
            planned_core_seconds=total + computing,
            finished_core_seconds=total + computing - remaining - computing_remaining,
        )

    def _describe_active(self, part: str | None) -> Iterator[str]:
        """Yield the titles of active tasks and of tasks of other processes."""
        for title in self._active:
            if part in (None, _part_of(title)):
                iteration = self._iterations.get(title)
                yield f"{title} ({iteration})" if iteration else title
        for title in self._titles_elsewhere:
            if part in (None, _part_of(title)):
                yield f"waiting for {title} (another process)"

    def _update(self) -> None:
        """Read the progress of active runs and of data sets, at most once per second.

        In studies with many runs, tasks finish faster than the progress of all runs can be read.
        """
        if time.monotonic() >= self._update_due:
            self._computations.update_progress()
            self._iterations = {
                title: self._runs.update_progress(task.key)
                for title, (task, _) in self._active.items()
                if isinstance(task, TrainTask)
            }
            self._update_due = time.monotonic() + _POLL_SECONDS


def _part_of(title: str) -> str:
    """Return the part of a task from its title."""
    return title.partition(":")[0]


def _require_names_of_agents(tournament: PlannedTournament) -> None:
    agents = parse_agents(tournament.agent_specs, parse_game(tournament.game))
    for spec, agent in zip(tournament.agent_specs, agents, strict=True):
        if spec != agent.name:
            raise UserError(
                f"{tournament.title}: agent {quoted(spec)}: expected {quoted(agent.name)} in the"
                " design"
            )
