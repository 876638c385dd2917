"""What the stages of a run work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Agent
from zerolab.agents.kinds.run import load_evaluator, run_agent
from zerolab.agents.options import NetworkOptions
from zerolab.evaluation.positions import Positions
from zerolab.play.match import Match, play_match
from zerolab.replay.window import Window
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.store.agent_names import inside_run
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import RunProgress
from zerolab.training.defects import Defects
from zerolab.training.facts import window_rows
from zerolab.training.features import FeatureSource
from zerolab.training.league import StoredLeague
from zerolab.training.learner import Learner
from zerolab.training.reporting import Reporter
from zerolab.training.settings import TrainSettings
from zerolab.training.supervised.labels import SolvedSplit

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
    defects: Defects
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
