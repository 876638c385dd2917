"""Tasks for workers: training runs, playing games, solving positions and compiling kernels.

Tasks are plain data with everything that is needed to perform them in another process or on another
machine. Their paths are absolute.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from zerolab.agents.agent import Agent
from zerolab.agents.kinds.run import read_playable_run, run_agent
from zerolab.agents.options import NetworkOptions, parse_options
from zerolab.agents.specs import parse_agents
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
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
from zerolab.store.checks import read_bytes
from zerolab.store.folder import InUseError
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import ExistingRunError, RunFolder, is_run
from zerolab.studies.design import NOT_MADE_YET
from zerolab.studies.study_folder import LARGEST_POSITIONS
from zerolab.training.configure import require_no_programs, saved_settings
from zerolab.training.facts import file_settings
from zerolab.training.inputs import (
    FEATURES_COPY,
    FeatureSource,
    features_head,
    with_feature_source,
)
from zerolab.training.reporting import best_after, read_records
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer, check_new_run
from zerolab.training.warm_start import warm_start_search

_LAST_LINES = 12  # of a traceback


class Task(Protocol):
    """Work for one worker."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        ...

    def run(self) -> Any:
        """Do the work; mistakes that a user can correct raise UserError."""
        ...


class Outcome(NamedTuple):
    """Result or failure of a task."""

    task: Task
    result: Any = None
    """Result of `Task.run`."""
    failure: list[str] | None = None
    """Last lines of the error, if there was one."""
    is_elsewhere: bool = False
    """True if another process is working on the same run."""


def perform(task: Task) -> Outcome:
    """Run a task and return its outcome, including any error, so that the worker survives."""
    try:
        return Outcome(task, task.run())
    except InUseError:
        return Outcome(task, is_elsewhere=True)
    except Exception as error:  # other tasks must continue after any error
        return Outcome(task, failure=last_lines(error))


def last_lines(error: Exception) -> list[str]:
    """Return the message of a UserError, or the last traceback lines of any other error."""
    if isinstance(error, UserError):
        return str(error).splitlines()
    return "".join(traceback.format_exception(error)).splitlines()[-_LAST_LINES:]


@dataclass(frozen=True)
class TrainTask:
    """Task that trains or resumes a run."""

    title: str
    key: str
    """Key of the run, see `run_key`."""
    folder: str
    settings: TrainSettings
    positions: Sequence[str] = ()
    """Paths of the solved positions to which the settings refer."""
    sources: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files that the run copies from the runs it depends on, as content by name."""

    def run(self) -> None:
        path = Path(self.folder)
        settings = _with_digest(self.settings, self.positions)
        if FEATURES_COPY in self.sources:
            settings = _with_features(settings, self.sources[FEATURES_COPY])
        if not is_run(path):
            if not self.positions and not self.sources:
                check_new_run(settings)
            with suppress(ExistingRunError):  # another study has just created it
                RunFolder.create(path, settings.model_dump())
        run = RunFolder.open(path)
        planned, settings = settings, saved_settings(run)
        require_no_programs(settings, self.folder, planned.final_evaluation.baselines)
        with run.locked():
            for file in map(Path, self.positions):
                run.keep_positions(file.name, read_bytes(file, LARGEST_POSITIONS))
            for name, content in self.sources.items():
                run.keep_source(name, content)
            Trainer(run, with_threads(settings)).train()


def _with_digest(settings: TrainSettings, positions: Sequence[str]) -> TrainSettings:
    """Return the settings with the digest of the solved positions for training."""
    supervised = settings.supervised
    if supervised.digest != NOT_MADE_YET:
        return settings
    (path,) = (path for path in map(Path, positions) if path.name == supervised.positions)
    digest = file_settings(path)["supervised.digest"]
    return settings.model_copy(
        update={"supervised": supervised.model_copy(update={"digest": digest})}
    )


def _with_features(settings: TrainSettings, content: bytes) -> TrainSettings:
    """Return the settings completed with the facts about the source of learned features."""
    head = features_head(settings)
    assert head is not None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "source.safetensors"
        path.write_bytes(content)
        return with_feature_source(settings, FeatureSource(read_network(path), head.plies))


def with_threads(settings: TrainSettings) -> TrainSettings:
    """Return the settings with one self-play thread per core of this worker."""
    play = settings.selfplay.model_copy(update={"threads": available_cores()})
    return settings.model_copy(update={"selfplay": play})


class Entrant(NamedTuple):
    """Tournament participant, which is a network of a run or an agent."""

    name: str
    """Name of the player, and the spec of an agent."""
    run: str | None = None
    """Run folder, or None for an agent."""
    options: str = ""
    """Search options of the network, see `PlannedTournament.options`."""
    after: int | None = None
    """Iteration whose best network plays, or None for the final network."""

    def agent(self, game: str) -> Agent:
        """Return the agent, with a name that does not depend on the location of runs."""
        if self.run is None:
            return parse_agents([self.name], parse_game(game))[0]
        run = RunFolder.open(Path(self.run))
        options = parse_options(NetworkOptions, self.options or None, read_playable_run(run).search)
        network = (
            run.progress.best if self.after is None else best_after(read_records(run), self.after)
        )
        return replace(run_agent(run, network, options), name=self.name)


@dataclass(frozen=True)
class SliceTask:
    """Task that plays a slice of a tournament and returns the games."""

    title: str
    tournament: str
    """Key of the tournament."""
    game: str
    entrants: Sequence[Entrant]
    """Participants of the slice."""
    games: Sequence[Pairing]
    openings: int
    seed: int

    def run(self) -> list[GameRecord]:
        agents = [entrant.agent(self.game) for entrant in self.entrants]
        return play_slice(agents, self.games, self.openings, self.seed)


@dataclass(frozen=True)
class ComputeTask:
    """Task that calls a function and returns its result, a dictionary of numbers."""

    title: str
    key: str
    """Key of the computation."""
    function: str
    """Function in the form ``module:name``."""
    arguments: Mapping[str, Any]

    def run(self) -> dict[str, float]:
        module, _, name = self.function.partition(":")
        result: dict[str, float] = getattr(importlib.import_module(module), name)(**self.arguments)
        return result


@dataclass(frozen=True)
class PositionsTask:
    """Task that creates a file of solved positions."""

    title: str
    key: str
    """Key of the positions."""
    path: str
    game: str
    count: int
    settings: DatasetSettings

    def run(self) -> None:
        path = Path(self.path)
        make_folder(path.parent)
        make_dataset(parse_game(self.game), self.count, self.settings, path, available_cores())


@dataclass(frozen=True)
class CompileTask:
    """Task that compiles self-play kernels into the cache that all workers of a machine share."""

    title: str
    kernels: str
    """Kind of kernels, see `kernel_kind`."""
    settings: TrainSettings

    def run(self) -> None:
        settings, game = self.settings, parse_game(self.settings.game)
        evaluator = NetworkEvaluator(build_network(settings.network, game, settings.seed), game)
        play = settings.selfplay.model_copy(update={"episodes": 2, "threads": 1})
        for weight in (0.0, 1.0):
            search = warm_start_search(settings.search, settings.warm_start, weight)
            search = search.model_copy(update={"simulations": 2})
            play_episodes(game, play, search, evaluator, seed=0, iteration=1)
