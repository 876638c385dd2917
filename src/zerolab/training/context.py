"""The state of a run under way, the base of its stages, and its hardware and library versions."""

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
from zerolab.play.match import Match, play_match
from zerolab.replay.window import Window
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord, inside_run
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import Environment, RunProgress, read_environments, write_environments
from zerolab.training.facts import window_rows
from zerolab.training.inputs import RunInputs
from zerolab.training.league import StoredLeague
from zerolab.training.learner import Learner
from zerolab.training.published_bugs import PublishedBugs
from zerolab.training.records import Record
from zerolab.training.reporting import Reporter
from zerolab.training.settings import TrainSettings


def current_environment(iteration: int, learner: Learner) -> Environment:
    """Return the hardware and library versions of this process."""
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
    """Return the processor's model on Linux, its architecture on other systems."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())


def record_environment(run: RunFolder, learner: Learner) -> str:
    """Add the current environment to those of a run, unless it is the latest of them.

    Equal environments give equal results. Another one may change last bits, and with them all
    results that follow, so the message that is returned names the differences; it is empty where
    there are none. Raises UserError if the file is damaged or cannot be written.
    """
    known = read_environments(run.path)
    now = current_environment(run.progress.iteration, learner)
    changes = [
        f"{name} {getattr(known[-1], name)} -> {getattr(now, name)}"
        for name in Environment.model_fields
        if known
        and name != "iteration"
        and getattr(known[-1], name) not in ("", getattr(now, name))
    ]
    if known and not changes:
        return ""
    write_environments(run.path, [*known, now])
    if not known:
        return ""
    return (
        f"resumed in another environment, so results may differ from those of an uninterrupted run:"
        f" {', '.join(changes)}"
    )


FINAL_STAGE = "final_evaluation"
"""The stage after the last iteration, as state.json names it."""


@dataclass
class TrainingContext:
    """A run under way: all that stages read and change.

    A stage saves its files through these methods and changes `progress`; the trainer commits both
    together with the records that the stage returns.
    """

    run: RunFolder
    settings: TrainSettings
    inputs: RunInputs
    learner: Learner
    window: Window
    reporter: Reporter
    progress: RunProgress
    bugs: PublishedBugs
    """Published bugs that are switched on: none except in studies of them."""
    league: StoredLeague | None
    """The players of self-play; None if the best network plays alone."""

    @property
    def game(self) -> Game:
        """The game of the run."""
        return self.inputs.game

    @property
    def iteration(self) -> int:
        """The iteration under way, counted from 1; during the final evaluation, the last one."""
        return self.progress.iteration - (self.progress.stage == FINAL_STAGE)

    def update(self, **changes: Any) -> None:
        """Change fields of `progress`."""
        self.progress = self.progress.model_copy(update=changes)

    def begin(self, title: str, total: int, unit: str) -> Callable[[], float]:
        """Report the start of some work; return a function for the seconds elapsed since."""
        began = perf_counter()
        self.reporter.stage_started(self.iteration, title, total, unit)
        return lambda: round(perf_counter() - began, 4)

    def evaluator(self, network: int) -> Evaluator:
        """Return the evaluator of one of the run's networks."""
        return load_evaluator(self.run, network)

    def network_agent(self, network: int, options: NetworkOptions | None = None) -> Agent:
        """Return one of the run's networks as an agent, by default with the search of training.

        Its name is relative to the run: ``@12``, followed by the options that differ.
        """
        agent = run_agent(self.run, network, options)
        return replace(agent, name=inside_run(agent.name, self.run.path))

    def save_network(self, iteration: int) -> None:
        """Save the learner's network and the state of its optimiser as those of an iteration."""
        weights, optimizer = self.learner.weight_arrays(), self.learner.optimizer_arrays()
        about = self.settings.network_of(iteration).model_dump(mode="json")
        self.run.save_network(iteration, weights, optimizer, about)

    def save_examples(self, examples: Examples) -> None:
        """Save the examples of this iteration, and add them to the window."""
        source = self.inputs.feature_source
        features = source.features(examples.states) if source else None
        self.run.save_examples(self.progress.iteration, examples, features)
        self._add_to_window(examples, features)

    def restore_examples(self, iteration: int) -> None:
        """Add the stored examples of the next iteration to the window."""
        features = self.run.load_features(iteration) if self.inputs.feature_source else None
        self._add_to_window(self.run.load_examples(iteration), features)

    def _add_to_window(self, examples: Examples, features: NDArray[np.float16] | None) -> None:
        discount, source = self.settings.search.discount, self.inputs.feature_source
        labelled = self.bugs.labelled(examples)
        targets = None
        if source is not None and features is not None:
            targets = source.targets(examples, features)
        self.window.add(*window_rows(labelled, discount, self.learner.columns, targets))

    def save_games(self, stage: str, games: Sequence[GameRecord]) -> None:
        """Save games of this iteration under the name of their stage."""
        self.run.games.record(self.progress.iteration, stage, games)

    def play_match(
        self, a: Agent, b: Agent, games: int, stage: str, *, openings: int = 0, begin: int = 0
    ) -> Match:
        """Play a match (`play.match.play_match`) with the run's seed, and save its games."""
        match = play_match(
            self.game, a, b, games, self.settings.seed, self.progress.iteration,
            self.reporter.progress, openings=openings, begin=begin,
        )  # fmt: skip
        self.save_games(stage, match.games)
        return match


class Stage(ABC):
    """A step of training, which is repeated as a whole if the run is killed during it.

    Its results may depend only on the settings, on `context.progress` and on files that earlier
    stages saved. A resumed run then ends with the same bytes as one that was never stopped.
    """

    name: ClassVar[str]
    """Its name in state.json and in its records."""

    def is_due(self, context: TrainingContext) -> bool:
        """Return True in an iteration that runs the stage."""
        return True

    @abstractmethod
    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Do the work, save files and change `context.progress`; return records for the metrics."""
