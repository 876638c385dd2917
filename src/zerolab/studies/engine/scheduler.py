"""Doing what a design plans: runs first, then tournaments, on however many workers there are.

Everything that is finished is found on disk, so going on is the same as beginning. A task that
fails is put down, with its last lines, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.engine.estimate import Pace, run_seconds
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.rounds import Round
from zerolab.studies.engine.tasks import (
    CompileTask,
    ComputeTask,
    Outcome,
    SliceTask,
    Task,
    TrainTask,
)
from zerolab.studies.engine.workers import Workers
from zerolab.training.settings import TrainSettings
from zerolab.training.warm_start.settings import warm_start_search

_LOOK_SECONDS = 1.0


class View(NamedTuple):
    """How far a study has come."""

    runs: int
    finished_runs: int
    games: int
    """Games of all tournaments."""
    finished_games: int
    computations: int
    """What else is computed."""
    finished_computations: int
    active: list[str]
    """What workers do: the titles of tasks, runs with their iteration."""
    failed: int
    seconds: float
    """About how many seconds of work, on one core, the study is in all."""
    done_seconds: float
    """How many of them are done."""

    @property
    def is_unfinished(self) -> bool:
        """Whether anything is left to do."""
        done = self.finished_runs, self.finished_games, self.finished_computations
        return done != (self.runs, self.games, self.computations)


class Scheduler:
    """Does what is left of a design; the caller holds the study's lock."""

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self._folder = folder
        self._design = design
        self._failures: Failures = {}
        self._active: dict[str, Task] = {}
        self._stack = ExitStack()
        self._rounds = [Round(folder, each, self._stack) for each in design.tournaments]
        runs = design.distinct_runs
        self._untrained = {
            run.key for each in design.tournaments for run in each.entrants.values()
            if run.key not in runs and not folder.is_finished(run)
        }  # fmt: skip
        """Players whose runs are in parts that are not worked on."""
        self._seconds = {key: run_seconds(run.settings) for key, run in runs.items()}
        self._unfinished = {key: run for key, run in runs.items() if not folder.is_finished(run)}
        self._shares = {key: folder.share_done(run) for key, run in self._unfinished.items()}
        """How much of each unfinished run is done; of those under way, when it was last looked."""
        self._queue = sorted(self._unfinished.values(), key=self._urgency)
        self._pace = Pace()
        for key in runs.keys() - self._unfinished.keys():
            self._pace.add(self._seconds[key], folder.run_seconds(runs[key]))
        self._computations = {each.key: each for each in design.computations}
        self._uncomputed = [
            each for each in self._computations.values() if folder.computed(each) is None
        ]
        """Neither done nor begun."""
        self._computing: set[str] = set()
        self._uncompiled = {kernels(run.settings) for run in self._queue}
        self._compiling: set[str] = set()

    def _urgency(self, run: PlannedRun) -> tuple[int, float]:
        """Order runs by part; long ones first, so that none is left over at the end."""
        return self._design.parts.index(run.part), -self._seconds[run.key]

    def work(self, workers: Workers, watch: Callable[[View], None]) -> Failures:
        """Do everything that is left; return what has failed."""
        self._folder.save_failures({})
        with self._stack:
            while True:
                while len(self._active) < workers.count and (task := self._next()):
                    self._active[task.title] = task
                    workers.submit(task)
                if not self._active:
                    return self._failures
                for outcome in workers.finished(_LOOK_SECONDS):
                    self._finish(outcome)
                watch(self.view())

    def _next(self) -> Task | None:
        """Return a task that can be begun now, if there is one."""
        for run in self._queue:
            kind = kernels(run.settings)
            if kind in self._uncompiled:
                self._uncompiled.remove(kind)
                self._compiling.add(kind)
                return CompileTask(kind, run.settings.model_dump(mode="json"))
            if kind not in self._compiling:
                self._queue.remove(run)
                return self._train_task(run)
        if self._uncomputed:
            first = self._uncomputed.pop(0)
            self._computing.add(first.key)
            title = f"{first.part}: {first.label}"
            return ComputeTask(title, first.key, first.function, first.arguments)
        for each in self._rounds:
            if self._can_begin(each) and (task := self._next_slice(each)):
                return task
        return None

    def _train_task(self, run: PlannedRun) -> TrainTask:
        settings = run.settings.model_dump(mode="json")
        title = f"{run.part}: {run.label}"
        return TrainTask(title, run.key, str(self._folder.run_path(run)), settings)

    def _can_begin(self, each: Round) -> bool:
        """Return whether all players of a tournament are trained, and it has not failed."""
        missing = self._untrained | self._unfinished.keys()
        is_trained = missing.isdisjoint(run.key for run in each.planned.entrants.values())
        return is_trained and each.planned.key not in self._failures

    def _next_slice(self, each: Round) -> SliceTask | None:
        try:
            return each.next()
        except UserError as error:
            self._fail(each.planned.key, [str(error)])
            return None

    def _finish(self, outcome: Outcome) -> None:
        task = self._active.pop(outcome.task.title)
        if isinstance(task, CompileTask):
            self._compiling.remove(task.title)
        if outcome.failure is not None:
            self._fail(task.title, outcome.failure)
        elif isinstance(task, TrainTask):
            run = self._unfinished.pop(task.key)
            self._pace.add(self._seconds[task.key], self._folder.run_seconds(run))
        elif isinstance(task, ComputeTask):
            self._computing.remove(task.key)
            self._folder.save_computed(self._computations[task.key], outcome.result)
        elif isinstance(task, SliceTask):
            played = next(each for each in self._rounds if each.planned.key == task.tournament)
            played.record(outcome.result)

    def _fail(self, title: str, lines: list[str]) -> None:
        self._failures[title] = lines
        self._folder.save_failures(self._failures)

    def view(self) -> View:
        """Return how far the study has come."""
        runs, factor = self._design.distinct_runs, self._pace.factor
        active = list(self._describe_active())
        left = sum(self._seconds[key] * (1 - self._shares[key]) for key in self._unfinished)
        left += sum(each.seconds_left for each in self._rounds)
        left += sum(each.seconds for each in self._uncomputed)
        left += sum(self._computations[key].seconds for key in self._computing)
        total = sum(self._seconds.values()) + sum(each.seconds for each in self._rounds)
        total += sum(each.seconds for each in self._computations.values())
        return View(
            runs=len(runs),
            finished_runs=len(runs) - len(self._unfinished),
            games=sum(each.games for each in self._rounds),
            finished_games=sum(each.games - each.games_left for each in self._rounds),
            computations=len(self._computations),
            finished_computations=(
                len(self._computations) - len(self._uncomputed) - len(self._computing)
            ),
            active=active,
            failed=len(self._failures),
            seconds=factor * total,
            done_seconds=factor * (total - left),
        )

    def _describe_active(self) -> Iterator[str]:
        """Say what workers do, and look how far their runs have come."""
        for title, task in self._active.items():
            if isinstance(task, TrainTask):
                run = self._unfinished[task.key]
                iteration, last = self._folder.iteration(run), run.settings.iterations
                self._shares[task.key] = (iteration - 1) / last
                yield f"{title} ({iteration}/{last})"
            else:
                yield "compiling" if isinstance(task, CompileTask) else title


def kernels(settings: TrainSettings) -> str:
    """Return what tells apart the kernels that self-play with some settings compiles."""
    game = type(parse_game(settings.game)).__name__
    kinds = []
    for weight in (0.0, 1.0):
        search = warm_start_search(settings.search, settings.warm_start, weight)
        rules = search.selection, search.leaf_evaluator, search.fpu, search.root
        flags = search.proven_values, search.leaves_per_step > 1, search.draw_value != 0
        kinds.append([*(rule.name for rule in rules), *flags])
    return json.dumps([game, *kinds])
