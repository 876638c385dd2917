"""Tasks of a study, and workers that are processes on this machine.

Tasks are plain data that contain everything needed to perform them in another process or on another
machine. Paths in tasks are absolute.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from pebble import ProcessExpired, ProcessPool

from zerolab.agents.agent import Agent, NetworkOptions, parse_search_options
from zerolab.agents.run_agents import agent_of_run, read_play_settings
from zerolab.agents.specs import parse_agents
from zerolab.core.errors import UserError, one_line
from zerolab.core.files import make_folder
from zerolab.core.processes import (
    available_cores,
    claim_cores,
    cores_by_worker,
    exit_with_parent,
    process_pool,
)
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import make_dataset
from zerolab.networks.catalogue import build_network
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay import play_episodes
from zerolab.play.tournament import play_slice
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import read_network_file
from zerolab.store.checks import read_bytes
from zerolab.store.folder import FolderInUseError
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import ExistingRunError, RunFolder, is_run
from zerolab.studies.design import UNKNOWN_DIGEST
from zerolab.studies.study_folder import MAX_DATASET_BYTES
from zerolab.training.configure import require_no_untrusted_programs, saved_settings
from zerolab.training.inputs import (
    FEATURE_NETWORK_FILE_NAME,
    FeatureNetwork,
    features_head,
    with_feature_network,
)
from zerolab.training.reporting import best_network_after, read_records
from zerolab.training.train_settings import TrainSettings
from zerolab.training.warm_start import warm_start_search_settings
from zerolab.training.window_facts import solved_file_settings

_LAST_LINES = 12  # number of traceback lines kept


class Task(Protocol):
    """Work for one worker."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        ...

    def perform(self) -> Any:
        """Do the work; raise UserError for errors that a user can correct."""
        ...


class TaskOutcome(NamedTuple):
    """Result or error of a task."""

    task: Task
    result: Any = None
    """Result of `Task.perform`."""
    error_lines: list[str] | None = None
    """Last lines of the error message, or None if the task succeeded."""
    is_in_use_elsewhere: bool = False
    """True if another process is training the same run or creating the same data set."""


def perform_task(task: Task) -> TaskOutcome:
    """Perform a task and return its outcome; errors do not end the worker."""
    try:
        return TaskOutcome(task, task.perform())
    except FolderInUseError:
        return TaskOutcome(task, is_in_use_elsewhere=True)
    except Exception as error:  # other tasks must continue after any error
        return TaskOutcome(task, error_lines=last_error_lines(error))


def last_error_lines(error: Exception) -> list[str]:
    """Return the message of a UserError, or the last traceback lines of any other error."""
    if isinstance(error, UserError):
        return str(error).splitlines()
    return "".join(traceback.format_exception(error)).splitlines()[-_LAST_LINES:]


@dataclass(frozen=True)
class TrainTask:
    """Task that trains or resumes a run."""

    title: str
    key: str
    """Key of the run; see `run_key`."""
    run_path: str
    """Folder of the run."""
    settings: TrainSettings
    dataset_paths: Sequence[str] = ()
    """Paths of the data sets to which the settings refer."""
    source_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Content by name of the files that the run copies from its source runs."""

    def perform(self) -> None:
        from zerolab.training.trainer import Trainer, check_new_run  # noqa: PLC0415  slow: torch

        path = Path(self.run_path)
        settings = _with_digest(self.settings, self.dataset_paths)
        if FEATURE_NETWORK_FILE_NAME in self.source_files:
            settings = _with_features(settings, self.source_files[FEATURE_NETWORK_FILE_NAME])
        if not is_run(path):
            if not self.dataset_paths and not self.source_files:
                check_new_run(settings)
            with suppress(ExistingRunError):  # another study has just created it
                RunFolder.create(path, settings.model_dump())
        run = RunFolder.open(path)
        planned, settings = settings, saved_settings(run)
        require_no_untrusted_programs(settings, self.run_path, planned.final_evaluation.baselines)
        settings = settings.model_copy(update={"device": planned.device})
        with run.locked():
            for file in map(Path, self.dataset_paths):
                run.save_solved_positions(file.name, read_bytes(file, MAX_DATASET_BYTES))
            for name, content in self.source_files.items():
                run.save_copy_from_source_run(name, content)
            Trainer(run, with_available_threads(settings)).train()


def _with_digest(settings: TrainSettings, dataset_paths: Sequence[str]) -> TrainSettings:
    """Return the settings with the digest of the data set for training."""
    supervised = settings.supervised
    if supervised.digest != UNKNOWN_DIGEST:
        return settings
    (path,) = (path for path in map(Path, dataset_paths) if path.name == supervised.positions)
    digest = solved_file_settings(path)["supervised.digest"]
    return settings.model_copy(
        update={"supervised": supervised.model_copy(update={"digest": digest})}
    )


def _with_features(settings: TrainSettings, content: bytes) -> TrainSettings:
    """Return the settings, completed from the network whose features the run learns to predict."""
    head = features_head(settings)
    assert head is not None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "source.safetensors"
        path.write_bytes(content)
        return with_feature_network(settings, FeatureNetwork(read_network_file(path), head))


def with_available_threads(settings: TrainSettings) -> TrainSettings:
    """Return the settings with one process and one self-play thread per core of this worker."""
    play = settings.selfplay.model_copy(update={"threads": available_cores(), "processes": 1})
    return settings.model_copy(update={"selfplay": play})


class Participant(NamedTuple):
    """Participant in a tournament: a network of a run, or an agent without a run."""

    name: str
    """Name in the tournament. For an agent without a run, the name is its spec."""
    run_path: str | None = None
    """Run folder of the network."""
    search_options: str = ""
    """Search options of the network; see `PlannedTournament.search_options`."""
    iteration: int | None = None
    """Iteration whose best network plays, or None for the final network."""

    def create_agent(self, game: str) -> Agent:
        """Return the agent, with a name that does not depend on the location of runs."""
        if self.run_path is None:
            return parse_agents([self.name], parse_game(game))[0]
        run = RunFolder.open(Path(self.run_path))
        options = parse_search_options(
            NetworkOptions, self.search_options or None, read_play_settings(run).search
        )
        network = (
            run.progress.best
            if self.iteration is None
            else best_network_after(read_records(run), self.iteration)
        )
        return replace(agent_of_run(run, network, options), name=self.name)


@dataclass(frozen=True)
class TournamentSliceTask:
    """Task that plays a slice of a tournament and returns its games."""

    title: str
    tournament_key: str
    game: str
    participants: Sequence[Participant]
    """Participants that play in the slice."""
    pairings: Sequence[Pairing]
    opening_plies: int
    """Number of random plies at the start of each game."""
    seed: int

    def perform(self) -> list[GameRecord]:
        agents = [participant.create_agent(self.game) for participant in self.participants]
        return play_slice(agents, self.pairings, self.opening_plies, self.seed)


@dataclass(frozen=True)
class ComputationTask:
    """Task that calls a function and returns its result: a dictionary of numbers."""

    title: str
    key: str
    """Key of the computation."""
    function_path: str
    """Function in the form ``module:name``."""
    arguments: Mapping[str, Any]

    def perform(self) -> dict[str, float]:
        module, _, name = self.function_path.partition(":")
        result: dict[str, float] = getattr(importlib.import_module(module), name)(**self.arguments)
        return result


@dataclass(frozen=True)
class DatasetTask:
    """Task that creates a data set of solved positions."""

    title: str
    key: str
    """Key of the data set."""
    path: str
    game: str
    position_count: int
    settings: DatasetSettings

    def perform(self) -> None:
        path = Path(self.path)
        make_folder(path.parent)
        make_dataset(
            parse_game(self.game), self.position_count, self.settings, path, available_cores()
        )


@dataclass(frozen=True)
class CompileTask:
    """Task that compiles self-play kernels into the cache that all workers of a machine share."""

    title: str
    kernel_set: str
    """Name of the set of kernels; see `kernel_set_name`."""
    settings: TrainSettings

    def perform(self) -> None:
        from zerolab.networks.inference import NetworkEvaluator  # noqa: PLC0415  slow: imports torch

        settings, game = self.settings, parse_game(self.settings.game)
        evaluator = NetworkEvaluator(build_network(settings.network, game, settings.seed), game)
        play = settings.selfplay.model_copy(update={"episodes": 2, "threads": 1})
        for weight in (0.0, 1.0):
            search = warm_start_search_settings(settings.search, settings.warm_start, weight)
            search = search.model_copy(update={"simulations": 2})
            play_episodes(game, play, search, evaluator, seed=0, iteration=1)


_IMPORTS = perform_task.__module__, "zerolab.training.trainer", "zerolab.networks.inference"
"""Modules that workers import when they start, because importing them is slow."""

_NOT_BEGUN = "its worker ended unexpectedly before the task began"


class Workers(Protocol):
    """Workers that perform up to `count` tasks at a time. Leaving the context stops all tasks."""

    count: int

    def __enter__(self) -> Self:
        """Start the workers."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop all workers and abandon unfinished tasks."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task; at most `count` - 1 other tasks may be active."""
        ...

    def wait_for_outcomes(self, seconds: float) -> list[TaskOutcome]:
        """Wait up to `seconds` for an outcome and return all available outcomes."""
        ...


class LocalWorkers:
    """Worker processes on this machine, each pinned to its share of the cores.

    If a process dies, only its task fails, and a new process takes its place. All workers end with
    this process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._running: dict[Future[TaskOutcome], Task] = {}

    def __enter__(self) -> Self:
        self._locks = Path(tempfile.mkdtemp(prefix="zerolab-workers-"))
        self._pool = self._new_pool()
        return self

    def _new_pool(self) -> ProcessPool:
        return process_pool(
            self.count,
            *_IMPORTS,
            initializer=_start_worker,
            initargs=(self._locks, cores_by_worker(self.count)),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_pool()
        shutil.rmtree(self._locks, ignore_errors=True)

    def _replace_pool(self) -> None:
        self._stop_pool()
        self._pool = self._new_pool()

    def _stop_pool(self) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def submit(self, task: Task) -> None:
        try:
            future = self._pool.schedule(perform_task, args=[task])
        except RuntimeError:  # the pool breaks if a process dies before any task has begun
            self._replace_pool()
            future = self._pool.schedule(perform_task, args=[task])
        self._running[future] = task

    def wait_for_outcomes(self, seconds: float) -> list[TaskOutcome]:
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        if not done and not self._pool.active:
            return self._lose_all()
        return [self._outcome(future) for future in done]

    def _lose_all(self) -> list[TaskOutcome]:
        """Replace a broken pool and return an error for each of its tasks."""
        self._replace_pool()
        lost, self._running = list(self._running.values()), {}
        return [TaskOutcome(task, error_lines=[_NOT_BEGUN]) for task in lost]

    def _outcome(self, future: Future[TaskOutcome]) -> TaskOutcome:
        task = self._running.pop(future)
        try:
            return future.result()
        except ProcessExpired as error:
            return TaskOutcome(
                task, error_lines=[f"its worker ended unexpectedly: {_ending(error)}"]
            )
        except BrokenProcessPool:
            return TaskOutcome(task, error_lines=[_NOT_BEGUN])
        except Exception as error:  # for example, the result cannot be pickled
            return TaskOutcome(task, error_lines=[f"{type(error).__name__}: {one_line(error)}"])


def _start_worker(locks: Path, shares: Sequence[Sequence[int]]) -> None:
    exit_with_parent()
    from zerolab.networks.inference import use_gpu_of_worker  # noqa: PLC0415  slow: imports torch

    use_gpu_of_worker(claim_cores(locks, shares))


def _ending(error: ProcessExpired) -> str:
    code = error.exitcode
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
