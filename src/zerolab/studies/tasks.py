"""Tasks of workers: a run to train, games to play, positions to solve, kernels to compile.

A task is plain data, so that it can travel to another process or machine, and says everything that
its work depends on.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from zerolab.agents.agent import Agent
from zerolab.agents.kinds.run import read_playable_run, run_agent
from zerolab.agents.options import NetworkOptions, parse_options
from zerolab.agents.specs import parse_agents
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.processes import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import make_dataset
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay import play_episodes
from zerolab.play.tournament import play_slice
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import read_network
from zerolab.store.folder import InUseError
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import ExistingRunError, RunFolder, is_run
from zerolab.studies.design import NOT_MADE_YET
from zerolab.training.configure import require_no_programs, saved_settings
from zerolab.training.facts import file_settings
from zerolab.training.inputs import (
    FEATURES_COPY,
    FeatureSource,
    features_head,
    with_feature_source,
)
from zerolab.training.records import Record
from zerolab.training.reporting import best_after, read_records
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer, check_new_run
from zerolab.training.warm_start import warm_start_search

_LAST_LINES = 12  # of a traceback that is shown

OnCommit = Callable[[bool], None]
"""Is called after every stage of a run that is saved: whether an iteration ends with it."""


class Task(Protocol):
    """Work for one worker."""

    @property
    def title(self) -> str:
        """What people call it; different for all tasks of a study."""
        ...

    def run(self, on_commit: OnCommit) -> Any:
        """Do the work; raise UserError for what a user can mend."""
        ...


class Outcome(NamedTuple):
    """How a task has ended."""

    task: Task
    result: Any = None
    """What `Task.run` has returned."""
    failure: list[str] | None = None
    """The last lines of what went wrong, if anything did."""
    is_elsewhere: bool = False
    """Whether another process is at work on the same run."""


@dataclass(frozen=True)
class TrainTask:
    """Trains a run to its end, or goes on with it."""

    title: str
    key: str
    """See `PlannedRun.key`."""
    folder: str
    settings: Mapping[str, Any]
    positions: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of solved positions that the settings name."""
    sources: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of runs that this one learns or starts from, by their names in its folder."""

    def run(self, on_commit: OnCommit = lambda ends_iteration: None) -> None:
        """See `Task.run`."""
        path = Path(self.folder)
        settings = _with_digest(validate(TrainSettings, self.settings), self.positions)
        if FEATURES_COPY in self.sources:
            settings = _with_features(settings, self.sources[FEATURES_COPY])
        if not is_run(path):
            if not self.positions and not self.sources:
                check_new_run(settings)
            with suppress(ExistingRunError):  # another study was faster
                RunFolder.create(path, settings.model_dump())
        run = RunFolder.open(path)
        planned, settings = settings, saved_settings(run)
        require_no_programs(settings, self.folder, planned.final_evaluation.baselines)

        def saved(record: Record) -> None:
            on_commit(run.progress.iteration > record.iteration)

        with run.locked():
            for name, content in self.positions.items():
                run.keep_positions(name, content)
            for name, content in self.sources.items():
                run.keep_source(name, content)
            Trainer(run, with_threads(settings), on_record=saved).train()


def _with_digest(settings: TrainSettings, positions: Mapping[str, bytes]) -> TrainSettings:
    """Return the settings with the digest of the positions to learn from, which are made by now."""
    learnt = settings.supervised
    if learnt.digest != NOT_MADE_YET:
        return settings
    with TemporaryDirectory() as folder:
        path = Path(folder) / learnt.positions
        path.write_bytes(positions[learnt.positions])
        found = file_settings(path)["supervised.digest"]
    return settings.model_copy(update={"supervised": learnt.model_copy(update={"digest": found})})


def _with_features(settings: TrainSettings, content: bytes) -> TrainSettings:
    """Return the settings with what is known of the network whose features are learnt."""
    head = features_head(settings)
    assert head is not None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "source.safetensors"
        path.write_bytes(content)
        return with_feature_source(settings, FeatureSource(read_network(path), head.plies))


def with_threads(settings: TrainSettings) -> TrainSettings:
    """Return the settings with as many threads of self-play as this worker has cores."""
    play = settings.selfplay.model_copy(update={"threads": available_cores()})
    return settings.model_copy(update={"selfplay": play})


class Entrant(NamedTuple):
    """A player of a tournament: the best network of a run, or an agent by its spec."""

    name: str
    run: str | None = None
    """The run's folder."""
    options: str = ""
    """See `PlannedTournament.options`."""
    after: int | None = None
    """The iteration after which the run's network is taken; None for the final one."""


@dataclass(frozen=True)
class SliceTask:
    """Plays a slice of a tournament and returns its games."""

    title: str
    tournament: str
    """See `PlannedTournament.key`."""
    game: str
    entrants: Sequence[Entrant]
    """The players of the slice."""
    games: Sequence[Pairing]
    openings: int
    seed: int

    def run(self, on_commit: OnCommit = lambda ends_iteration: None) -> list[GameRecord]:
        """See `Task.run`."""
        agents = [entrant_agent(each, self.game) for each in self.entrants]
        return play_slice(agents, self.games, self.openings, self.seed)


def entrant_agent(entrant: Entrant, game: str) -> Agent:
    """Return a player of a tournament; its name does not depend on where runs are kept."""
    if entrant.run is None:
        return parse_agents([entrant.name], parse_game(game))[0]
    run = RunFolder.open(Path(entrant.run))
    options = parse_options(NetworkOptions, entrant.options or None, read_playable_run(run).search)
    return replace(run_agent(run, entrant_network(entrant, run), options), name=entrant.name)


def entrant_network(entrant: Entrant, run: RunFolder) -> int:
    """Return the iteration whose network of its run plays for an entrant."""
    if entrant.after is None:
        return run.progress.best
    return best_after(read_records(run), entrant.after)


@dataclass(frozen=True)
class ComputeTask:
    """Calls a function that is named by its module and returns its result, a table of numbers."""

    title: str
    key: str
    """See `PlannedComputation.key`."""
    function: str
    arguments: Mapping[str, Any]

    def run(self, on_commit: OnCommit = lambda ends_iteration: None) -> dict[str, float]:
        """See `Task.run`."""
        module, _, name = self.function.partition(":")
        result: dict[str, float] = getattr(importlib.import_module(module), name)(**self.arguments)
        return result


@dataclass(frozen=True)
class PositionsTask:
    """Makes a file of solved positions and returns its content."""

    title: str
    key: str
    """See `PlannedPositions.key`."""
    path: str
    """Where the study keeps it; a node that does not see that folder works in one of its own."""
    game: str
    count: int
    settings: Mapping[str, Any]

    def run(self, on_commit: OnCommit = lambda ends_iteration: None) -> bytes:
        """See `Task.run`."""
        path = Path(self.path)
        with ExitStack() as stack:
            if not path.parent.is_dir():
                path = Path(stack.enter_context(TemporaryDirectory())) / path.name
            settings = validate(DatasetSettings, self.settings)
            make_dataset(parse_game(self.game), self.count, settings, path, available_cores())
            return path.read_bytes()


@dataclass(frozen=True)
class CompileTask:
    """Compiles the kernels of self-play for all workers of a machine: a cache on disk has them."""

    title: str
    kernels: str
    """See `engine.runs.kernels`."""
    settings: Mapping[str, Any]

    def run(self, on_commit: OnCommit = lambda ends_iteration: None) -> None:
        """See `Task.run`."""
        settings = validate(TrainSettings, self.settings)
        game = parse_game(settings.game)
        evaluator = NetworkEvaluator(build_network(settings.network, game, settings.seed), game)
        play = settings.selfplay.model_copy(update={"episodes": 2, "threads": 1})
        for weight in (0.0, 1.0):
            search = warm_start_search(settings.search, settings.warm_start, weight)
            search = search.model_copy(update={"simulations": 2})
            play_episodes(game, play, search, evaluator, seed=0, iteration=1)


def perform(task: Task, on_commit: OnCommit = lambda ends_iteration: None) -> Outcome:
    """Run a task; an error becomes part of the outcome, so that the worker serves on."""
    try:
        return Outcome(task, task.run(on_commit))
    except InUseError:
        return Outcome(task, is_elsewhere=True)
    except Exception as error:  # whatever it is: the other tasks are to go on
        return Outcome(task, failure=last_lines(error))


def last_lines(error: Exception) -> list[str]:
    """Return what to show of an error: the message of a user's, the end of a traceback else."""
    if isinstance(error, UserError):
        return str(error).splitlines()
    return "".join(traceback.format_exception(error)).splitlines()[-_LAST_LINES:]
