"""Shared state of the training stages, and their base class."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from zerolab.agents.agent import Agent, NetworkOptions
from zerolab.agents.run_agents import agent_of_run, load_run_evaluator
from zerolab.core.code_digests import software_versions
from zerolab.core.processes import available_cores
from zerolab.core.resources import processor_model
from zerolab.league.league import ReconstructedLeague
from zerolab.play.executors import THREAD_EXECUTOR, Executor
from zerolab.play.match import Match, play_match
from zerolab.replay.window import Window
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.store.examples import Examples
from zerolab.store.folder import RunEnvironment, RunProgress, read_environments, write_environments
from zerolab.store.games import GameRecord, GameStore, relative_agent_name
from zerolab.store.run_folder import RunFolder
from zerolab.training.criteria import StopRule
from zerolab.training.inputs import RunInputs
from zerolab.training.learner import Learner
from zerolab.training.optimization import CompletedShares
from zerolab.training.published_bugs import EnabledBugs
from zerolab.training.records import Record
from zerolab.training.reporting import LiveReporter, read_records, without_final_evaluations
from zerolab.training.train_settings import TrainSettings, league_settings
from zerolab.training.window_facts import states_and_facts

if TYPE_CHECKING:
    from zerolab.training.selfplay_stage import GamesAhead


def _current_environment(iteration: int, learner: Learner) -> RunEnvironment:
    """Return the hardware and library versions of this process."""
    device = platform.machine()
    if learner.device.type == "cuda":
        device = torch.cuda.get_device_name(learner.device)
    elif learner.device.type != "cpu":
        device = learner.device.type
    return RunEnvironment(
        iteration=iteration,
        device=device,
        processor=processor_model(),
        precision=str(learner.precision).removeprefix("torch."),
        threads=available_cores(),
        **software_versions(),
    )


def record_environment(run: RunFolder, learner: Learner) -> str:
    """Record the current environment in a run, unless it equals the latest recorded one.

    Equal environments produce equal results. A different environment can change the last bits of
    numbers and, as a consequence, all later results. The returned message lists the changes; it is
    empty if there are none. Raises UserError if environment.json is damaged or cannot be written.
    """
    recorded = read_environments(run.path)
    current = _current_environment(run.progress.iteration, learner)
    changes = [
        f"{name} {getattr(recorded[-1], name)} -> {getattr(current, name)}"
        for name in RunEnvironment.model_fields
        if recorded
        and name != "iteration"
        and getattr(recorded[-1], name) not in ("", getattr(current, name))
    ]
    if recorded and not changes:
        return ""
    write_environments(run.path, [*recorded, current])
    if not recorded:
        return ""
    return (
        "resumed in a different environment, so results can differ from those of an uninterrupted"
        f" run: {', '.join(changes)}"
    )


@dataclass
class TrainingContext:
    """State of a training run in progress, read and changed by the stages.

    Stages save files through the methods of this class and update `progress`. The trainer commits
    the files, the progress and the records that the stage returns.
    """

    run: RunFolder
    settings: TrainSettings
    inputs: RunInputs
    learner: Learner
    window: Window
    reporter: LiveReporter
    progress: RunProgress
    enabled_bugs: EnabledBugs
    """Published bugs to reproduce; none, except in studies of these bugs."""
    league: ReconstructedLeague | None
    """The league of self-play players; None for plain self-play."""
    executor: Executor = THREAD_EXECUTOR
    """Executor that plays the games of all stages."""
    games_ahead: GamesAhead | None = None
    """Games of the next iteration that are already being played, if any."""
    uncommitted_records: Sequence[Record] = ()
    """Records of a finished stage that are not yet in the metrics."""

    @property
    def game(self) -> Game:
        """The game of the run."""
        return self.inputs.game

    @property
    def iteration(self) -> int:
        """The current iteration, counted from 1; in the final evaluation, the last iteration."""
        return self.progress.current_iteration

    @property
    def trains_candidate(self) -> bool:
        """False if the replay window has too few examples for batch norm."""
        return len(self.window) > 1

    def is_over_after(self, iteration: int) -> bool:
        """Return True after the last iteration, and if all records so far meet the stop rule."""
        if iteration >= self.settings.iterations:
            return True
        rule: StopRule = self.settings.stop
        records = [*read_records(self.run), *self.uncommitted_records]
        return rule.is_met(without_final_evaluations(records))

    def completed_shares(self, iteration: int) -> CompletedShares:
        """Return the shares of the run, by its stop rule, before and after an iteration."""
        rule: StopRule = self.settings.stop
        return rule.completed_shares(without_final_evaluations(read_records(self.run)), iteration)

    def update_progress(self, **changes: Any) -> None:
        """Change fields of `progress`."""
        self.progress = self.progress.model_copy(update=changes)

    def report_start(self, title: str, total: int, unit: str) -> Callable[[], float]:
        """Report the start of a task; return a function that measures the seconds since then."""
        start = perf_counter()
        self.reporter.stage_started(self.iteration, title, total, unit)
        return lambda: round(perf_counter() - start, 4)

    def load_evaluator(self, iteration: int) -> Evaluator:
        """Return the evaluator of the run's network from an iteration."""
        return load_run_evaluator(self.run, iteration)

    def network_agent(self, iteration: int, options: NetworkOptions | None = None) -> Agent:
        """Return the run's network from an iteration as an agent.

        The default options are the run's search settings. The name of the agent is relative to the
        run, such as ``@12``, followed by the options that differ from the run's, if any.
        """
        agent = agent_of_run(self.run, iteration, options)
        return replace(agent, name=relative_agent_name(agent.name, self.run.path))

    def save_network(self, iteration: int) -> None:
        """Save the learner's network and optimiser state for an iteration."""
        weights, optimizer = self.learner.weight_arrays(), self.learner.optimizer_arrays()
        about = self.settings.network_settings_at(iteration).model_dump(mode="json")
        self.run.save_network(iteration, weights, optimizer, about)

    def save_examples(self, examples: Examples) -> None:
        """Save the examples of this iteration and add them to the window."""
        source = self.inputs.feature_network
        features = source.features(examples.states) if source else None
        self.run.save_examples(self.progress.iteration, examples, features)
        self._add_to_window(examples, features)

    def load_examples_into_window(self, iteration: int) -> None:
        """Add the stored examples of an iteration to the window; call it in order of iterations."""
        features = self.run.load_target_features(iteration) if self.inputs.feature_network else None
        self._add_to_window(self.run.load_examples(iteration), features)

    def _add_to_window(self, examples: Examples, features: NDArray[np.float16] | None) -> None:
        settings, source = self.settings, self.inputs.feature_network
        labelled = self.enabled_bugs.relabelled_examples(examples)
        targets = None
        if source is not None and features is not None:
            targets = source.feature_targets(examples, features)
        states, facts = states_and_facts(
            labelled, settings.search.discount, self.learner.target_vector_columns, targets,
            settings.learn.surprise_weight,
        )  # fmt: skip
        self.window.add(states, facts)

    def save_games(self, stage: str, games: Sequence[GameRecord]) -> None:
        """Save games of this iteration under the name of a stage."""
        self.run.games.write_stage(self.iteration, stage, games)

    def play_match(
        self,
        a: Agent,
        b: Agent,
        games: int,
        stage: str,
        *,
        openings: int = 0,
        first_number: int = 0,
    ) -> Match:
        """Play a match with the run's seed (`play.match.play_match`) and save its games."""
        match = play_match(
            self.game, a, b, games, self.settings.seed, self.progress.iteration,
            self.reporter.progress, openings=openings, first_number=first_number,
            executor=self.executor, chunks=self.settings.selfplay.chunk_count,
        )  # fmt: skip
        self.save_games(stage, match.games)
        return match


class Stage(ABC):
    """Base class of training stages; an interrupted stage is repeated in full.

    Results must depend only on the settings, `context.progress` and the files of earlier stages. A
    resumed run then produces the same bytes as an uninterrupted one.
    """

    name: ClassVar[str]
    """Name in state.json and in the records."""

    def is_due(self, context: TrainingContext) -> bool:
        """Return True if the current iteration includes this stage."""
        return True

    @abstractmethod
    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Run the stage, save its files and update `context.progress`; return its records."""


def reconstruct_league(store: GameStore, settings: TrainSettings) -> ReconstructedLeague | None:
    """Return the league of the run with these games; None for plain self-play."""
    if settings.league is None:
        return None
    return ReconstructedLeague(store, league_settings(settings, settings.league))
