"""The runs of a design: which are finished, which can be begun, and how far the others are."""

from __future__ import annotations

from collections.abc import Collection

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.search.settings import SearchSettings
from zerolab.store.folder import is_locked
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import RunProgress
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.engine.estimate import Pace, run_seconds
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.tasks import CompileTask, TrainTask
from zerolab.training.settings import TrainSettings
from zerolab.training.warm_start.settings import warm_start_search


class Runs:
    """What is left of the runs of a design; a run that cannot be read is among the failures."""

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """By title, runs whose folders were damaged or another's at the beginning."""
        self._folder = folder
        self._parts = design.parts
        self._planned = design.distinct_runs
        self._seconds = {
            key: run_seconds(run.settings, run.learnt_positions)
            for key, run in self._planned.items()
        }
        self._pace = Pace()
        self._shares = {key: self._readable_share(run) for key, run in self._planned.items()}
        """How much of each run is done; of those under way, when it was last looked."""
        self._sources = {source.key for run in self._planned.values() for source in run.sources}
        left = (run for key, run in self._planned.items() if self._shares[key] < 1)
        self._queue = sorted(
            (run for run in left if title_of(run) not in self.failures), key=self._urgency
        )
        self._elsewhere: list[PlannedRun] = []
        """Runs that another study was training when a worker wanted to."""
        self._opened: dict[str, RunFolder] = {}
        """Runs under way, whose settings have been checked."""
        self._kernels = {run.key: kernels(run.settings) for run in self._queue}
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
            self.failures[title_of(run)] = str(error).splitlines()
            return 0.0

    def _urgency(self, run: PlannedRun) -> tuple[int, bool, float]:
        """Order runs by part; long ones first, so that none is left over at the end.

        Those that other runs learn or start from come before all others.
        """
        return self._parts.index(run.part), run.key not in self._sources, -self._seconds[run.key]

    def next(self, parts: Collection[str]) -> TrainTask | CompileTask | None:
        """Return the task of the most urgent run of some parts that can be begun now.

        The first run of a combination of game and search waits until its kernels are compiled.
        """
        for run in [each for each in self._queue if each.part in parts]:
            if not self._has_what_it_needs(run):
                continue
            kind = self._kernels[run.key]
            if kind in self._uncompiled:
                self._uncompiled.remove(kind)
                self._compiling.add(kind)
                settings = run.settings.model_dump(mode="json")
                return CompileTask(f"{run.part}: {kind}", kind, settings)
            if kind in self._compiling:
                continue
            self._queue.remove(run)
            if self._readable_share(run) < 1:  # otherwise another study has trained it meanwhile
                try:
                    return self._task(run)
                except UserError as error:
                    self.failures[title_of(run)] = str(error).splitlines()
                    continue
            self._shares[run.key] = 1.0
        return None

    def _task(self, run: PlannedRun) -> TrainTask:
        """Return the task of a run; raise UserError where what it needs of others is damaged."""
        settings = run.settings.model_dump(mode="json")
        return TrainTask(
            title_of(run), run.key, str(self._folder.run_path(run)), settings,
            self._folder.read_positions(run), self._folder.read_sources(run),
        )  # fmt: skip

    def _has_what_it_needs(self, run: PlannedRun) -> bool:
        """Return whether the positions and networks that a run learns or starts from are there."""
        return all(map(self._folder.has_positions, run.positions)) and all(
            self._shares.get(source.key) == 1 or self._folder.is_readable_and_finished(source)
            for source in run.sources
        )

    def compiled(self, task: CompileTask) -> None:
        """Take note that kernels are compiled, or that this has failed."""
        self._compiling.remove(task.kernels)

    def finished(self, key: str) -> None:
        """Take note of a run that has been trained; raise UserError if it cannot be read."""
        self._opened.pop(key, None)
        self._shares[key] = self._share(self._planned[key])

    def trained_elsewhere(self, key: str) -> None:
        """Take note of a run that another process is training."""
        self._elsewhere.append(self._planned[key])

    @property
    def awaited(self) -> list[str]:
        """The titles of runs that another process is training."""
        return [title_of(run) for run in self._elsewhere]

    def look_elsewhere(self) -> None:
        """Queue the runs again that nobody else is training any more."""
        free = [run for run in self._elsewhere if not is_locked(self._folder.run_path(run))]
        self._elsewhere = [run for run in self._elsewhere if run not in free]
        self._queue = [*free, *self._queue]

    def look(self, key: str) -> str:
        """Look how far a run under way has come; return its iteration of how many."""
        run, iterations = self._planned[key], self._planned[key].settings.iterations
        try:
            iteration = min(iterations, self._progress(run).iteration)
        except UserError:  # whoever trains it will say so
            return "?"
        self._shares[key] = (iteration - 1) / iterations
        return f"{iteration}/{iterations}"

    def _progress(self, run: PlannedRun) -> RunProgress:
        """Return how far a run under way has come; its settings are read once."""
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
        """Return the keys of the runs that are counted for a part, or of all."""
        return {key for key, run in self._planned.items() if part in (None, run.part)}

    def seconds(self, keys: Collection[str]) -> tuple[float, float]:
        """Return about how many seconds some runs take on one core, and how many are left."""
        every = [self._pace.factor * self._seconds[key] for key in keys]
        left = [self._pace.factor * self._seconds[key] * (1 - self._shares[key]) for key in keys]
        return sum(every), sum(left)


def title_of(run: PlannedRun) -> str:
    """Return what people call a run."""
    return f"{run.part}: {run.label}"


def kernels(settings: TrainSettings) -> str:
    """Return what tells apart the kernels that self-play with some settings compiles.

    People read it, too: ``kernels of Othello: puct, zero, network; rave, zero, playout``.
    """
    game = type(parse_game(settings.game)).__name__
    kinds = dict.fromkeys(
        _rules(warm_start_search(settings.search, settings.warm_start, weight))
        for weight in (0.0, 1.0)
    )
    return f"kernels of {game}: {'; '.join(kinds)}"


def _rules(search: SearchSettings) -> str:
    """Return what decides which kernels a search compiles."""
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
