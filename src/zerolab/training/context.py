"""The state of a run under way, its stages, and the environment that it runs in.

Results are equal for one such environment; another one may change their last bits, and from there
everything that follows. A run remembers every environment that worked on it.
"""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from zerolab.agents.agent import Agent
from zerolab.agents.kinds.run import load_evaluator, run_agent
from zerolab.agents.options import NetworkOptions
from zerolab.core.code_digests import current_versions
from zerolab.core.processes import available_cores
from zerolab.evaluation.positions import Positions
from zerolab.play.match import Match, play_match
from zerolab.replay.window import Window
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord, inside_run
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import Environment, RunProgress, read_environments, write_environments
from zerolab.training.facts import SolvedSplit, window_rows
from zerolab.training.league import StoredLeague
from zerolab.training.learner import Learner
from zerolab.training.published_bugs import PublishedBugs
from zerolab.training.records import Record
from zerolab.training.reporting import Reporter
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import FeatureSource


def current_environment(iteration: int, learner: Learner) -> Environment:
    """Return the environment of this process."""
    device = platform.machine()
    if learner.device.type == "cuda":
        device = torch.cuda.get_device_name(learner.device)
    return Environment(
        iteration=iteration,
        device=device,
        processor=processor_model(),
        precision=str(learner.precision).removeprefix("torch."),
        threads=available_cores(),
        **current_versions(),
    )


def processor_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's model where Linux tells it, its architecture elsewhere."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())


def remember_environment(run: RunFolder, learner: Learner) -> str:
    """Note a run's environment if it is a new one.

    Returns a line for people that says what differs from the environment before, if anything does.
    Raises UserError where the file is damaged or cannot be written.
    """
    known = read_environments(run.path)
    now = current_environment(run.progress.iteration, learner)
    if known and not _differences(known[-1], now):
        return ""
    write_environments(run.path, [*known, now])
    return _message(known[-1], now) if known else ""


def _differences(former: Environment, now: Environment) -> list[str]:
    return [
        name
        for name in Environment.model_fields
        if name != "iteration" and getattr(former, name) not in ("", getattr(now, name))
    ]


def _message(former: Environment, now: Environment) -> str:
    changes = ", ".join(
        f"{name} {getattr(former, name)} -> {getattr(now, name)}"
        for name in _differences(former, now)
    )
    return (
        f"resumed in another environment, so results may differ from those of an uninterrupted run:"
        f" {changes}"
    )


FINAL_STAGE = "final_evaluation"
"""What follows the last iteration, as state.json names it."""


@dataclass
class TrainingContext:
    """A run under way: what stages read, and what they change.

    A stage saves its files through these methods and changes `progress`; the trainer commits both
    together with the records that the stage returns.
    """

    run: RunFolder
    settings: TrainSettings
    game: Game
    learner: Learner
    window: Window
    solved: Positions | None
    """Solved positions to measure accuracy on, if any."""
    solved_split: SolvedSplit | None
    """Solved positions to learn from; None where a run learns from its own games."""
    source: FeatureSource | None
    """The network whose features are learnt, if any."""
    reporter: Reporter
    progress: RunProgress
    defects: PublishedBugs
    """Those of published code that the run is to have: none but in studies of them."""
    league: StoredLeague | None
    """Who plays; None where the best network does alone."""

    @property
    def iteration(self) -> int:
        """The iteration under way, counted from 1; during the final evaluation, the last one."""
        return self.progress.iteration - (self.progress.stage == FINAL_STAGE)

    def update(self, **changes: Any) -> None:
        """Change fields of `progress`."""
        self.progress = self.progress.model_copy(update=changes)

    def begin(self, title: str, total: int, unit: str) -> Callable[[], float]:
        """Report that work begins; return a function that gives the seconds since then."""
        began = perf_counter()
        self.reporter.stage_started(self.iteration, title, total, unit)
        return lambda: round(perf_counter() - began, 4)

    def evaluator(self, network: int) -> Evaluator:
        """Return the evaluator of one of the run's networks."""
        return load_evaluator(self.run, network)

    def network_agent(self, network: int, options: NetworkOptions | None = None) -> Agent:
        """Return one of the run's networks as an agent, searching as in training by default.

        Its name is relative to the run: ``@12``, with options where they differ.
        """
        agent = run_agent(self.run, network, options)
        return replace(agent, name=inside_run(agent.name, self.run.path))

    def save_network(self, iteration: int) -> None:
        """Save the learner's network and the state of its optimiser."""
        weights, optimizer = self.learner.weight_arrays(), self.learner.optimizer_arrays()
        about = self.settings.network_of(iteration).model_dump(mode="json")
        self.run.save_network(iteration, weights, optimizer, about)

    def save_examples(self, examples: Examples) -> None:
        """Save the examples of this iteration, and add them to the window."""
        features = self.source.features(examples.states) if self.source else None
        self.run.save_examples(self.progress.iteration, examples, features)
        self._add_to_window(examples, features)

    def restore_examples(self, iteration: int) -> None:
        """Add the examples of an iteration, the next one after those in the window, to it."""
        features = self.run.load_features(iteration) if self.source else None
        self._add_to_window(self.run.load_examples(iteration), features)

    def _add_to_window(self, examples: Examples, features: NDArray[np.float16] | None) -> None:
        """Add the examples of the latest iteration; the oldest may leave the window."""
        discount = self.settings.search.discount
        labelled = self.defects.labelled(examples)
        learnt = None
        if self.source is not None and features is not None:
            learnt = self.source.targets(examples, features)
        self.window.add(*window_rows(labelled, discount, self.learner.columns, learnt))

    def save_games(self, stage: str, games: Sequence[GameRecord]) -> None:
        """Save games of this iteration, under the name of their stage."""
        self.run.games.record(self.progress.iteration, stage, games)

    def play_match(
        self, a: Agent, b: Agent, games: int, stage: str, *, openings: int = 0, begin: int = 0
    ) -> Match:
        """Play and save the games of a stage or a part of one; see `play.match.play_match`."""
        match = play_match(
            self.game, a, b, games, self.settings.seed, self.progress.iteration,
            self.reporter.progress, openings=openings, begin=begin,
        )  # fmt: skip
        self.save_games(stage, match.games)
        return match


class Stage(ABC):
    """A step of training that is repeated as a whole if the run is killed during it.

    What it computes may depend on the settings, on `context.progress` and on what earlier stages
    have saved, and on nothing else: then a resumed run ends with the same bytes as one that was
    never stopped.
    """

    name: ClassVar[str]
    """How state.json and its records name it."""

    def is_due(self, context: TrainingContext) -> bool:
        """Return whether this iteration needs the stage."""
        return True

    @abstractmethod
    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Do the work, save files, change `context.progress`; return what metrics.jsonl keeps."""
