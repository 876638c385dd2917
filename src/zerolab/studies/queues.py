"""Queues of unfinished runs, computations and tournament slices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import Any

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.evaluation.dataset import stored_share
from zerolab.play.pairings import Pairing
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game
from zerolab.search.search_settings import SearchSettings
from zerolab.store.folder import RunProgress, is_locked
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.studies.cost_model import (
    TimeCorrection,
    estimate_run_seconds,
    estimate_tournament_seconds,
)
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedDataset,
    PlannedRun,
    PlannedTournament,
)
from zerolab.studies.study_folder import Failures, StudyFolder
from zerolab.studies.tasks import (
    CompileTask,
    ComputationTask,
    DatasetTask,
    Participant,
    TournamentSliceTask,
    TrainTask,
)
from zerolab.training.train_settings import TrainSettings
from zerolab.training.warm_start import warm_start_search_settings


class RunQueue:
    """Queue of the unfinished runs of a design. Unreadable runs count as failures."""

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """Errors of runs whose folders are damaged or contain another run."""
        self._folder = folder
        self._planned = design.distinct_runs
        self._seconds = {
            key: estimate_run_seconds(run.settings, run.supervised_position_count)
            for key, run in self._planned.items()
        }
        self._correction = TimeCorrection()
        self._shares = {key: self._readable_share(run) for key, run in self._planned.items()}
        """Completed fraction of each run at the last `update_progress`."""
        self._sources = {source.key for run in self._planned.values() for source in run.source_runs}
        unfinished = (run for key, run in self._planned.items() if self._shares[key] < 1)
        self._queue = sorted(
            (run for run in unfinished if run.title not in self.failures), key=self._urgency
        )
        self._elsewhere: list[PlannedRun] = []
        """Runs that another study is training."""
        self._opened: dict[str, RunFolder] = {}
        """Active runs whose settings have been checked."""
        self._kernel_sets = {run.key: kernel_set_name(run.settings) for run in self._queue}
        self._uncompiled = set(self._kernel_sets.values())
        self._compiling: set[str] = set()

    def _share(self, run: PlannedRun) -> float:
        if self._folder.is_finished(run):
            self._correction.add(self._seconds[run.key], self._folder.run_seconds(run))
            return 1.0
        return self._folder.finished_share(run)

    def _readable_share(self, run: PlannedRun) -> float:
        try:
            return self._share(run)
        except UserError as error:
            self.failures[run.title] = str(error).splitlines()
            return 0.0

    def _urgency(self, run: PlannedRun) -> tuple[int, bool, str]:
        """Return a sort key that puts the lowest seeds first and, within a seed, source runs first.

        Runs of one seed are in random order, since their keys are digests. A temporary slowdown of
        the machine therefore affects all variants alike.
        """
        return int(run.factors["seed"]), run.key not in self._sources, run.key

    def next_task(self) -> TrainTask | CompileTask | None:
        """Return a task for the most urgent run that can begin now, or None if none can.

        Runs that cannot be read are recorded in `failures` and skipped. For the first run that
        needs a new set of kernels, return a task that compiles them. All runs that need this set
        then wait until the task is finished.
        """
        for run in list(self._queue):
            if not self._is_ready(run):
                continue
            kernel_set = self._kernel_sets[run.key]
            if kernel_set in self._uncompiled:
                self._uncompiled.remove(kernel_set)
                self._compiling.add(kernel_set)
                return CompileTask(f"{run.part}: {kernel_set}", kernel_set, run.settings)
            if kernel_set in self._compiling:
                continue
            self._queue.remove(run)
            if self._readable_share(run) < 1:  # another study may have finished it
                try:
                    return self._task(run)
                except UserError as error:
                    self.failures[run.title] = str(error).splitlines()
                    continue
            self._shares[run.key] = 1.0
        return None

    def _task(self, run: PlannedRun) -> TrainTask:
        """Return the task of a run; raise UserError if a source is damaged."""
        return TrainTask(
            title=run.title,
            key=run.key,
            run_path=str(self._folder.run_path(run).absolute()),
            settings=run.settings,
            dataset_paths=[
                str(self._folder.dataset_path(dataset).absolute()) for dataset in run.datasets
            ],
            source_files=self._folder.read_source_files(run),
        )

    def _is_ready(self, run: PlannedRun) -> bool:
        """Return whether the data sets and source networks of a run exist."""
        return all(map(self._folder.has_dataset, run.datasets)) and all(
            self._shares.get(source.key) == 1 or self._folder.is_readable_and_finished(source)
            for source in run.source_runs
        )

    def mark_compiled(self, task: CompileTask) -> None:
        """Record that a compilation has finished or failed."""
        self._compiling.remove(task.kernel_set)

    def mark_finished(self, key: str) -> None:
        """Record that a run has been trained; raise UserError if it cannot be read."""
        self._opened.pop(key, None)
        self._shares[key] = self._share(self._planned[key])

    def mark_trained_elsewhere(self, key: str) -> None:
        """Record that another process is training a run."""
        self._elsewhere.append(self._planned[key])

    @property
    def titles_trained_elsewhere(self) -> list[str]:
        """Titles of the runs that another process is training."""
        return [run.title for run in self._elsewhere]

    def requeue_abandoned_runs(self) -> None:
        """Requeue the runs that other processes have stopped training."""
        unlocked = [run for run in self._elsewhere if not is_locked(self._folder.run_path(run))]
        self._elsewhere = [run for run in self._elsewhere if run not in unlocked]
        self._queue = [*unlocked, *self._queue]

    def update_progress(self, key: str) -> str:
        """Read the progress of an active run and return it as ``iteration/iterations``."""
        run, iterations = self._planned[key], self._planned[key].settings.iterations
        try:
            iteration = min(iterations, self._progress(run).iteration)
        except UserError:  # the worker that trains the run will report it
            return "?"
        self._shares[key] = (iteration - 1) / iterations
        return f"{iteration}/{iterations}"

    def _progress(self, run: PlannedRun) -> RunProgress:
        """Return the progress of an active run; its settings are checked only once."""
        if run.key in self._opened:
            return self._opened[run.key].read_progress()
        run_folder = self._folder.open_run(run)
        if run_folder is None:
            return RunProgress()
        self._opened[run.key] = run_folder
        return run_folder.progress

    def is_trained(self, key: str) -> bool:
        """Return whether a run of the design is finished."""
        return self._shares[key] == 1

    def run_keys(self, part: str | None = None) -> set[str]:
        """Return the keys of all runs, or of the runs of one part."""
        return {key for key, run in self._planned.items() if part in (None, run.part)}

    def total_and_remaining_seconds(self, keys: Collection[str]) -> tuple[float, float]:
        """Estimate the total and the remaining time of runs on one core, in seconds."""
        total = [self._correction.factor * self._seconds[key] for key in keys]
        remaining = [
            self._correction.factor * self._seconds[key] * (1 - self._shares[key]) for key in keys
        ]
        return sum(total), sum(remaining)


def kernel_set_name(settings: TrainSettings) -> str:
    """Return a name for the set of kernels that self-play compiles.

    An example is ``kernels for Othello: puct, zero, network; rave, zero, playout``.
    """
    game = type(parse_game(settings.game)).__name__
    searches = dict.fromkeys(
        _search_kernels_name(
            warm_start_search_settings(settings.search, settings.warm_start, weight)
        )
        for weight in (0.0, 1.0)
    )
    return f"kernels for {game}: {'; '.join(searches)}"


def _search_kernels_name(search: SearchSettings) -> str:
    """Return the names of all settings that determine which kernels a search compiles."""
    rules = search.selection, search.fpu, search.leaf_evaluator
    names = [rule.name for rule in rules]
    if search.root.name != "puct":
        names.append(search.root.name)
    flags = {
        "literal": getattr(search.selection, "reading", None) == "literal",
        "proven values": search.proven_values,
        "several leaves": search.leaves_per_step > 1,
        "draws": search.draw_value != 0,
    }
    return ", ".join([*names, *(name for name, is_on in flags.items() if is_on)])


_Planned = PlannedComputation | PlannedDataset


class ComputationQueue:
    """Queue of unfinished computations and missing data sets.

    Computations with unreadable results count as failures.
    """

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """Errors of computations whose results are damaged."""
        self._folder = folder
        self._planned: list[_Planned] = [*design.datasets, *design.computations]
        self._unfinished = {each.key: each for each in self._planned if self._is_unfinished(each)}
        self._queue = [
            planned for planned in self._unfinished.values() if planned.title not in self.failures
        ]
        self._shares: dict[str, float] = {}

    def _is_unfinished(self, planned: _Planned) -> bool:
        if isinstance(planned, PlannedDataset):
            return not self._folder.has_dataset(planned)
        try:
            return self._folder.computation_result(planned) is None
        except UserError as error:
            self.failures[planned.title] = str(error).splitlines()
            return True

    def next_task(self) -> ComputationTask | DatasetTask | None:
        """Return a task for the next computation or data set, or None if none is left."""
        return self._task(self._queue.pop(0)) if self._queue else None

    def _task(self, planned: _Planned) -> ComputationTask | DatasetTask:
        if isinstance(planned, PlannedComputation):
            return ComputationTask(
                planned.title, planned.key, planned.function_path, planned.arguments
            )
        path = str(self._folder.dataset_path(planned).absolute())
        return DatasetTask(
            planned.title,
            planned.key,
            path,
            planned.game,
            planned.position_count,
            planned.settings,
        )

    def mark_finished(self, task: ComputationTask | DatasetTask, result: Any) -> None:
        """Store the result of a computation; the task of a data set has already stored it."""
        planned = self._unfinished.pop(task.key)
        if isinstance(planned, PlannedComputation):
            self._folder.save_computation_result(planned, result)

    def update_progress(self) -> None:
        """Read how much of each unfinished data set is stored."""
        self._shares = {
            planned.key: stored_share(self._folder.dataset_path(planned), planned.position_count)
            for planned in self._unfinished.values()
            if isinstance(planned, PlannedDataset)
        }

    def total_and_remaining_count(self, part: str | None = None) -> tuple[int, int]:
        """Return the number of computations and how many are unfinished, in all parts or in one."""
        return len(_in_part(self._planned, part)), len(_in_part(self._unfinished.values(), part))

    def total_and_remaining_seconds(self, part: str | None = None) -> tuple[float, float]:
        """Estimate the total and the remaining time of computations on one core, in seconds."""
        total = sum(each.estimated_seconds for each in _in_part(self._planned, part))
        remaining = sum(
            each.estimated_seconds * (1.0 - self._shares.get(each.key, 0.0))
            for each in _in_part(self._unfinished.values(), part)
        )
        return total, remaining


def _in_part(plans: Iterable[_Planned], part: str | None) -> list[_Planned]:
    return [planned for planned in plans if part in (None, planned.part)]


class TournamentQueue:
    """Queue of the unplayed slices of a tournament. Closing `stack` unlocks the folder."""

    def __init__(self, folder: StudyFolder, planned: PlannedTournament, stack: ExitStack) -> None:
        self.planned = planned
        self.game_count = planned.pair_count * planned.games_per_pair
        self.games_left = self.game_count
        self.estimated_seconds = estimate_tournament_seconds(planned)
        self._path = folder.tournament_path(planned)
        self._participants = {
            name: Participant(
                name,
                str(folder.run_path(run).absolute()),
                planned.search_options,
                planned.iteration_by_player.get(name),
            )
            for name, run in planned.run_by_player.items()
        }
        self._stack = stack
        self._tournament: Tournament | None = None
        self._slices: list[tuple[int, list[Pairing]]] = []
        self.failures: Failures = {}
        """Error of the tournament if its folder is damaged."""
        try:
            if saved := Tournament.load(self._path) if self._path.is_dir() else None:
                self.games_left = saved.remaining_game_count()
        except UserError as error:
            self.failures[self.title] = str(error).splitlines()

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures."""
        return self.planned.title

    @property
    def remaining_seconds(self) -> float:
        """Estimated time of the remaining games on one core, in seconds."""
        return self.estimated_seconds * self.games_left / max(1, self.game_count)

    def next_task(self) -> TournamentSliceTask | None:
        """Return a task for the next slice, or None if no slice remains.

        All runs of the tournament must be trained. Raises UserError if the folder contains another
        tournament.
        """
        if not self.games_left:
            return None
        if self._tournament is None:
            self._begin()
        if not self._slices:
            return None
        number, pairings = self._slices.pop(0)
        names = {name for pairing in pairings for name in (pairing.first, pairing.second)}
        return TournamentSliceTask(
            title=f"{self.title}, slice {number}",
            tournament_key=self.planned.key,
            game=self.planned.game,
            participants=[self._participants[name] for name in sorted(names)],
            pairings=pairings,
            opening_plies=self.planned.opening_plies,
            seed=self.planned.game_seed,
        )

    def _begin(self) -> None:
        """Begin or resume the tournament; raise UserError if the folder contains another one."""
        for spec in self.planned.agent_specs:
            agent = Participant(spec).create_agent(self.planned.game)
            self._participants[agent.name] = Participant(agent.name)
        agents = [each.create_agent(self.planned.game) for each in self._participants.values()]
        settings = {
            "game": self.planned.game,
            "games": self.planned.games_per_pair,
            "openings": self.planned.opening_plies,
            "seed": self.planned.game_seed,
            "players": {agent.name: agent.identity for agent in agents},
        }
        locked = Tournament.open_locked(self._path, validate(TournamentSettings, settings))
        self._tournament = self._stack.enter_context(locked)
        self._slices = self._tournament.remaining_slices()
        self.games_left = self._tournament.remaining_game_count()

    def record_games(self, games: list[GameRecord]) -> None:
        """Store the games of a slice."""
        assert self._tournament is not None
        self.games_left -= self._tournament.record_games(games)
