"""Queues of runs, computations and tournament slices that are left to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import Any

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.pairings import Pairing
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game
from zerolab.search.search_settings import SearchSettings
from zerolab.store.folder import is_locked
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import RunProgress
from zerolab.studies.cost_model import Pace, run_seconds, tournament_seconds
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedPositions,
    PlannedRun,
    PlannedTournament,
)
from zerolab.studies.study_folder import Failures, StudyFolder
from zerolab.studies.tasks import (
    CompileTask,
    ComputeTask,
    Entrant,
    PositionsTask,
    SliceTask,
    TrainTask,
)
from zerolab.training.settings import TrainSettings
from zerolab.training.warm_start import warm_start_search


class RunQueue:
    """Runs of a design that are left to train; a run that cannot be read counts as a failure."""

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """Errors of runs whose folders are damaged or hold something else."""
        self._folder = folder
        self._parts = design.parts
        self._planned = design.distinct_runs
        self._seconds = {
            key: run_seconds(run.settings, run.learnt_positions)
            for key, run in self._planned.items()
        }
        self._pace = Pace()
        self._shares = {key: self._readable_share(run) for key, run in self._planned.items()}
        """Share of each run that is done, as of the last `update`."""
        self._sources = {source.key for run in self._planned.values() for source in run.sources}
        left = (run for key, run in self._planned.items() if self._shares[key] < 1)
        self._queue = sorted(
            (run for run in left if run.title not in self.failures), key=self._urgency
        )
        self._elsewhere: list[PlannedRun] = []
        """Runs that a worker could not begin because another study was training them."""
        self._opened: dict[str, RunFolder] = {}
        """Runs under way whose settings have been checked."""
        self._kernels = {run.key: kernel_kind(run.settings) for run in self._queue}
        self._uncompiled = set(self._kernels.values())
        self._compiling: set[str] = set()

    def _share(self, run: PlannedRun) -> float:
        if self._folder.is_finished(run):
            self._pace.add(self._seconds[run.key], self._folder.run_seconds(run))
            return 1.0
        return self._folder.share_done(run)

    def _readable_share(self, run: PlannedRun) -> float:
        try:
            return self._share(run)
        except UserError as error:
            self.failures[run.title] = str(error).splitlines()
            return 0.0

    def _urgency(self, run: PlannedRun) -> tuple[int, bool, float]:
        """Order runs by part, sources of other runs first, then long runs before short ones.

        A long run begun last would keep all other workers waiting.
        """
        return self._parts.index(run.part), run.key not in self._sources, -self._seconds[run.key]

    def next(self, parts: Collection[str]) -> TrainTask | CompileTask | None:
        """Return a task for the most urgent run of some parts that can be begun now.

        The first run of a combination of game and search waits until its kernels are compiled.
        """
        for run in [each for each in self._queue if each.part in parts]:
            if not self._is_ready(run):
                continue
            kind = self._kernels[run.key]
            if kind in self._uncompiled:
                self._uncompiled.remove(kind)
                self._compiling.add(kind)
                return CompileTask(f"{run.part}: {kind}", kind, run.settings)
            if kind in self._compiling:
                continue
            self._queue.remove(run)
            if self._readable_share(run) < 1:  # otherwise another study has trained it meanwhile
                try:
                    return self._task(run)
                except UserError as error:
                    self.failures[run.title] = str(error).splitlines()
                    continue
            self._shares[run.key] = 1.0
        return None

    def _task(self, run: PlannedRun) -> TrainTask:
        """Return the task of a run; raise UserError if one of its sources is damaged."""
        return TrainTask(
            title=run.title,
            key=run.key,
            folder=str(self._folder.run_path(run).absolute()),
            settings=run.settings,
            positions=[str(self._folder.positions_path(each).absolute()) for each in run.positions],
            sources=self._folder.read_sources(run),
        )

    def _is_ready(self, run: PlannedRun) -> bool:
        """Return whether the positions and source networks of a run exist."""
        return all(map(self._folder.has_positions, run.positions)) and all(
            self._shares.get(source.key) == 1 or self._folder.is_readable_and_finished(source)
            for source in run.sources
        )

    def compiled(self, task: CompileTask) -> None:
        """Record that kernels are compiled, or that compiling them has failed."""
        self._compiling.remove(task.kernels)

    def finished(self, key: str) -> None:
        """Record that a run has been trained; raise UserError if it cannot be read."""
        self._opened.pop(key, None)
        self._shares[key] = self._share(self._planned[key])

    def trained_elsewhere(self, key: str) -> None:
        """Record that another process is training a run."""
        self._elsewhere.append(self._planned[key])

    @property
    def awaited(self) -> list[str]:
        """Titles of the runs that another process is training."""
        return [run.title for run in self._elsewhere]

    def requeue(self) -> None:
        """Queue again the runs that no other process is training any more."""
        free = [run for run in self._elsewhere if not is_locked(self._folder.run_path(run))]
        self._elsewhere = [run for run in self._elsewhere if run not in free]
        self._queue = [*free, *self._queue]

    def update(self, key: str) -> str:
        """Read the progress of a run under way; return it as ``iteration/iterations``."""
        run, iterations = self._planned[key], self._planned[key].settings.iterations
        try:
            iteration = min(iterations, self._progress(run).iteration)
        except UserError:  # the worker that trains it will report this
            return "?"
        self._shares[key] = (iteration - 1) / iterations
        return f"{iteration}/{iterations}"

    def _progress(self, run: PlannedRun) -> RunProgress:
        """Return the progress of a run under way, reading its settings only once."""
        if run.key in self._opened:
            return self._opened[run.key].latest_progress()
        opened = self._folder.open_run(run)
        if opened is None:
            return RunProgress()
        self._opened[run.key] = opened
        return opened.progress

    def is_trained(self, key: str) -> bool:
        """Return whether a run of the design is finished."""
        return self._shares[key] == 1

    def keys_of(self, part: str | None = None) -> set[str]:
        """Return the keys of the runs of a part, or of all runs."""
        return {key for key, run in self._planned.items() if part in (None, run.part)}

    def seconds(self, keys: Collection[str]) -> tuple[float, float]:
        """Estimate the seconds that some runs take on one core in all, and those left."""
        every = [self._pace.factor * self._seconds[key] for key in keys]
        left = [self._pace.factor * self._seconds[key] * (1 - self._shares[key]) for key in keys]
        return sum(every), sum(left)


def kernel_kind(settings: TrainSettings) -> str:
    """Return a name for the set of kernels that self-play with some settings compiles.

    Such as ``kernels of Othello: puct, zero, network; rave, zero, playout``.
    """
    game = type(parse_game(settings.game)).__name__
    kinds = dict.fromkeys(
        _search_kind(warm_start_search(settings.search, settings.warm_start, weight))
        for weight in (0.0, 1.0)
    )
    return f"kernels of {game}: {'; '.join(kinds)}"


def _search_kind(search: SearchSettings) -> str:
    """Return the settings that decide which kernels a search compiles."""
    rules = search.selection, search.fpu, search.leaf_evaluator
    names = [rule.name for rule in rules]
    if search.root.name != "puct":
        names.append(search.root.name)
    flags = {
        "proven values": search.proven_values,
        "several leaves": search.leaves_per_step > 1,
        "draws": search.draw_value != 0,
    }
    return ", ".join([*names, *(name for name, is_on in flags.items() if is_on)])


_Planned = PlannedComputation | PlannedPositions


class ComputationQueue:
    """Computations that are left, and solved positions that runs wait for.

    A computation whose result cannot be read counts as a failure.
    """

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """Errors of computations whose results are damaged."""
        self._folder = folder
        self._planned: list[_Planned] = [*design.positions, *design.computations]
        self._left = {each.key: each for each in self._planned if self._is_left(each)}
        self._queue = [each for each in self._left.values() if each.title not in self.failures]

    def _is_left(self, planned: _Planned) -> bool:
        if isinstance(planned, PlannedPositions):
            return not self._folder.has_positions(planned)
        try:
            return self._folder.computed(planned) is None
        except UserError as error:
            self.failures[planned.title] = str(error).splitlines()
            return True

    def next(self, part: str) -> ComputeTask | PositionsTask | None:
        """Return a task for the next computation of a part."""
        for planned in self._queue:
            if planned.part == part:
                self._queue.remove(planned)
                return self._task(planned)
        return None

    def _task(self, planned: _Planned) -> ComputeTask | PositionsTask:
        if isinstance(planned, PlannedComputation):
            return ComputeTask(planned.title, planned.key, planned.function, planned.arguments)
        path = str(self._folder.positions_path(planned).absolute())
        return PositionsTask(
            planned.title, planned.key, path, planned.game, planned.count, planned.settings
        )

    def finished(self, task: ComputeTask | PositionsTask, result: Any) -> None:
        """Store the result of a computation; solved positions are stored by their task."""
        planned = self._left.pop(task.key)
        if isinstance(planned, PlannedComputation):
            self._folder.save_computed(planned, result)

    def count(self, part: str | None = None) -> tuple[int, int]:
        """Return the number of computations of a part, or of all, and the number left."""
        return len(_of_part(self._planned, part)), len(_of_part(self._left.values(), part))

    def seconds(self, part: str | None = None) -> tuple[float, float]:
        """Estimate the seconds that they take on one core in all, and those left."""
        every, left = _of_part(self._planned, part), _of_part(self._left.values(), part)
        return sum(each.seconds for each in every), sum(each.seconds for each in left)


def _of_part(planned: Iterable[_Planned], part: str | None) -> list[_Planned]:
    return [each for each in planned if part in (None, each.part)]


_SEED = 0
"""Seed of all tournament games."""


class TournamentQueue:
    """Slices of a tournament that are left to play; closing `stack` unlocks its folder."""

    def __init__(self, folder: StudyFolder, planned: PlannedTournament, stack: ExitStack) -> None:
        self.planned = planned
        self.games = planned.pairs * planned.games
        self.games_left = self.games
        self.seconds = tournament_seconds(planned)
        self._path = folder.tournament_path(planned)
        self._entrants = {
            name: Entrant(
                name,
                str(folder.run_path(run).absolute()),
                planned.options,
                planned.after.get(name),
            )
            for name, run in planned.entrants.items()
        }
        self._stack = stack
        self._tournament: Tournament | None = None
        self._slices: list[tuple[int, list[Pairing]]] = []
        self.failures: Failures = {}
        """Error of the tournament, if its folder is damaged."""
        try:
            if saved := Tournament.saved(self._path) if self._path.is_dir() else None:
                self.games_left = saved.games_left()
        except UserError as error:
            self.failures[self.title] = str(error).splitlines()

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures."""
        return f"{self.planned.part}: games{f' {self.planned.name}' if self.planned.name else ''}"

    @property
    def seconds_left(self) -> float:
        """Estimated time of the games left, on one core."""
        return self.seconds * self.games_left / max(1, self.games)

    def next(self) -> SliceTask | None:
        """Return a task for the next slice, if one is left; all entrants must be trained.

        Raises UserError if the folder holds another tournament.
        """
        if not self.games_left:
            return None
        if self._tournament is None:
            self._begin()
        if not self._slices:
            return None
        number, games = self._slices.pop(0)
        names = {name for game in games for name in (game.first, game.second)}
        return SliceTask(
            title=f"{self.title}, slice {number}",
            tournament=self.planned.key,
            game=self.planned.game,
            entrants=[self._entrants[name] for name in sorted(names)],
            games=games,
            openings=self.planned.openings,
            seed=_SEED,
        )

    def _begin(self) -> None:
        """Begin or resume the tournament; raise UserError if the folder holds another one."""
        for spec in self.planned.agents:
            agent = Entrant(spec).agent(self.planned.game)
            self._entrants[agent.name] = Entrant(agent.name)
        agents = [each.agent(self.planned.game) for each in self._entrants.values()]
        settings = {
            "game": self.planned.game,
            "games": self.planned.games,
            "openings": self.planned.openings,
            "seed": _SEED,
            "players": {agent.name: agent.identity for agent in agents},
        }
        locked = Tournament.locked(self._path, validate(TournamentSettings, settings))
        self._tournament = self._stack.enter_context(locked)
        self._slices = self._tournament.slices_left()
        self.games_left = self._tournament.games_left()

    def record(self, games: list[GameRecord]) -> None:
        """Store the games of a slice."""
        assert self._tournament is not None
        self.games_left -= self._tournament.record(games)
