"""The iteration loop: self-play, learning, gate; every finished stage is saved.

Whatever a stage computes depends on the settings, the iteration and what earlier stages saved.
So a run killed at any moment repeats the stage it was in and ends with the same bytes.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch

from zerolab.agents.interface import Agent
from zerolab.agents.kinds.run import load_evaluator, run_agent
from zerolab.agents.options import NetworkOptions
from zerolab.agents.specs import parse_agents
from zerolab.core.threads import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import best_device
from zerolab.play.match import Match, play_match
from zerolab.play.selfplay import Episodes, Progress, play_episodes
from zerolab.ratings.bayes import Difference, rate
from zerolab.ratings.score import Score
from zerolab.replay.window import Window
from zerolab.rules.catalogue import parse_game
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training.accuracy import accuracy_metrics, solved_positions
from zerolab.training.learner import Learner
from zerolab.training.reporting import NullReporter, Reporter
from zerolab.training.settings import GateSettings, TrainSettings, saved_settings
from zerolab.training.warm_start.schedules import WarmStartMatch
from zerolab.training.warm_start.settings import enhanced

YARDSTICK_PLAYOUTS = 100


class Trainer:
    """Trains one run; `run` must be locked by the caller while `train` is under way."""

    def __init__(
        self, run: RunFolder, settings: TrainSettings, reporter: Reporter | None = None
    ) -> None:
        self.run = run
        self.settings = settings
        self.game = parse_game(settings.game)
        self.reporter = reporter or NullReporter()
        self.device = best_device()
        self.learner = Learner(
            build_network(settings.network, self.game, settings.seed), settings.learn, self.device
        )
        self.window = Window(self.game, settings.learn.window)
        self.solved = solved_positions(settings.evaluate, self.game)

    def train(self) -> None:
        """Run every stage that is still to be done, then measure what was learnt."""
        stages = {"selfplay": self._self_play, "learn": self._learn, "gate": self._gate}
        self._prepare()
        while self.run.progress.stage != "measure":
            stages[self.run.progress.stage]()
        if not self.run.progress.finished:
            self._measure()

    def _prepare(self) -> None:
        """Save the untrained network as number 0, or load what the run had come to."""
        progress = self.run.progress
        if progress.iteration == 1 and progress.stage == "selfplay":
            self._save_network(0)
        self.run.prune_checkpoints()
        first = max(1, progress.iteration - self.settings.learn.window)
        played = progress.iteration - (progress.stage in ("selfplay", "measure"))
        for iteration in range(first, played + 1):
            self._add_to_window(self.run.load_examples(iteration))
        # Last, so that a finished run whose files are damaged stays finished.
        if self.settings != saved_settings(self.run):
            self.run.save_config(self.settings.model_dump())
        if progress.stage == "measure" and progress.iteration <= self.settings.iterations:
            self._commit([], stage="selfplay", finished=False)

    def _add_to_window(self, examples: Examples) -> None:
        self.window.add(examples.states, examples.policies, examples.values)

    def _self_play(self) -> None:
        iteration, settings = self.run.progress.iteration, self.settings
        began = perf_counter()
        self.reporter.stage(iteration, "self-play", settings.selfplay.episodes, "games")

        def report(progress: Progress) -> None:
            rate = progress.plies / max(perf_counter() - began, 1e-9)
            self.reporter.progress(progress.games, f"{rate:,.0f} positions/s")

        torch.set_num_threads(1)
        weight = self._warm_weight(iteration)
        episodes = play_episodes(
            self.game, settings.selfplay, enhanced(settings.search, settings.warm_start, weight),
            load_evaluator(self.run, self.run.progress.best),
            settings.seed, iteration, report,
        )  # fmt: skip
        plies = episodes.plies
        examples = Examples(plies.states, plies.policies, plies.values, plies.games, plies.plies)
        self.run.save_examples(iteration, examples)
        name = run_agent(self.run, self.run.progress.best).name
        games = _self_play_games(episodes, name)
        self.run.games.record(iteration, "selfplay", games)
        self._add_to_window(examples)
        self._commit(
            [
                {
                    **self._head("selfplay", began),
                    "games": len(games),
                    "distinct_games": len({game.actions for game in games}),
                    "positions": len(plies.values),
                    "plies_per_game": len(plies.values) / len(games),
                    **({"warm_start": weight} if settings.warm_start.is_on else {}),
                    **episodes.counts,
                    **{f"wall_{part}_seconds": s for part, s in episodes.seconds.items()},
                }
            ],
            stage="learn",
        )

    def _learn(self) -> None:
        iteration, best = self.run.progress.iteration, self.run.progress.best
        began = perf_counter()
        settings = self.settings.learn
        batches = self.window.batches_per_epoch(settings.batch_size, settings.symmetries)
        self.reporter.stage(iteration, "learn", batches * settings.epochs, "batches")
        torch.set_num_threads(available_cores())
        self.learner.load(self.run.load_weights(best), self.run.load_optimizer(best))
        learned = self.learner.learn(
            self.window, self.settings.seed, iteration, self.reporter.progress
        )
        self._save_network(iteration)
        losses = {f"loss_{name}": value for name, value in learned.losses.items()}
        head = self._head("learn", began)
        self._commit(
            [{**head, "samples": learned.samples, "window": len(self.window), **losses}],
            stage="gate",
        )

    def _gate(self) -> None:
        progress, gate = self.run.progress, self.settings.gate
        iteration, best = progress.iteration, progress.best
        began = perf_counter()
        metrics: dict[str, Any] = {}
        accepted, elo = True, progress.elo
        if gate.games:
            candidate, champion = (self._player(n, gate.sampled_plies) for n in (iteration, best))
            match = self._arena(candidate, champion, gate.games, "gate")
            gained = elo_gained(match, candidate.name, champion.name)
            accepted = passes(match.score, gained.los, gate)
            metrics = {
                **match.score._asdict(),
                "distinct_games": match.distinct,
                "candidate_elo": elo + gained.elo,
                "candidate_elo_low": elo + gained.low,
                "candidate_elo_high": elo + gained.high,
                "los": gained.los,
            }
            elo = metrics["candidate_elo"] if accepted else elo
        line = {**self._head("gate", began), **metrics, "accepted": accepted, "elo": elo}
        best = iteration if accepted else best
        last = iteration == self.settings.iterations
        warm, warm_start_match = self._stays_warm(best)
        self._commit(
            [line, *warm_start_match, *self._evaluate(best)],
            iteration=iteration + 1,
            stage="measure" if last else "selfplay",
            best=best,
            elo=elo,
            warm=warm,
        )
        self.run.prune_checkpoints()

    def _warm_weight(self, iteration: int) -> float:
        """Return the weight of the warm start in an iteration's self-play."""
        return (
            self.settings.warm_start.schedule.weight(iteration) if self.run.progress.warm else 0.0
        )

    def _stays_warm(self, network: int) -> tuple[bool, list[dict[str, Any]]]:
        """Let the schedule find out whether the warm start goes on; return that, and metrics."""
        warm_start = self.settings.warm_start
        weight = self._warm_weight(self.run.progress.iteration)
        lines: list[dict[str, Any]] = []

        def los(warm_start_match: WarmStartMatch) -> float:
            lines.append(self._hold_contest(warm_start_match, network, weight))
            return float(lines[-1]["los"])

        if not warm_start.is_on or weight == 0:
            return self.run.progress.warm, lines
        return not warm_start.schedule.is_over(los), lines

    def _hold_contest(
        self, warm_start_match: WarmStartMatch, network: int, weight: float
    ) -> dict[str, Any]:
        """Let plain search play against the enhanced one, with one network; return metrics."""
        began = perf_counter()
        settings = self.settings
        plain = self._player(network)
        search = enhanced(settings.search, settings.warm_start, weight)
        warm = run_agent(self.run, network, NetworkOptions.model_validate(search.model_dump()))
        # Games of other numbers than the gate's have random streams of their own.
        match = self._arena(
            plain,
            warm,
            warm_start_match.games,
            "warm_start_match",
            warm_start_match.openings,
            settings.gate.games,
        )
        return {
            **self._head("warm_start_match", began),
            **match.score._asdict(),
            "distinct_games": match.distinct,
            "los": elo_gained(match, plain.name, warm.name).los,
        }

    def _evaluate(self, network: int) -> list[dict[str, Any]]:
        """Measure a network's accuracy, if this is an iteration to do so."""
        iteration = self.run.progress.iteration
        if self.solved is None or iteration % self.settings.evaluate.every:
            return []
        began = perf_counter()
        self.reporter.stage(iteration, "evaluate", len(self.solved), "positions")
        torch.set_num_threads(1)
        evaluator = load_evaluator(self.run, network)
        found = accuracy_metrics(
            self.solved, evaluator, self._player(network), self.settings.seed,
            self.reporter.progress,
        )  # fmt: skip
        return [{**self._head("evaluate", began), "network": network, **found}]

    def _measure(self) -> None:
        games, best = self.settings.baseline_games, self.run.progress.best
        lines = []
        opponents = [
            *parse_agents(["random", f"mcts:{YARDSTICK_PLAYOUTS}"], self.game),
            self._player(0, self.settings.gate.sampled_plies),
        ]
        for opponent in opponents if games else []:
            began = perf_counter()
            match = self._arena(self._player(best), opponent, games, f"against {opponent.name}")
            lines.append(_yardstick_line(self._head("measure", began), match, opponent.name))
        self._commit(lines, finished=True)

    def _arena(
        self, a: Agent, b: Agent, games: int, title: str, openings: int = 0, begin: int = 0
    ) -> Match:
        """Play and record a match; the random streams are those of this iteration's arena."""
        iteration = self.run.progress.iteration
        self.reporter.stage(self._iteration, title, games, "games")
        torch.set_num_threads(1)
        match = play_match(
            self.game, a, b, games, self.settings.seed, iteration, self.reporter.progress,
            openings=openings, begin=begin,
        )  # fmt: skip
        played = match.games
        self.run.games.record(iteration, title, played)
        return match

    def _player(self, iteration: int, sampled_plies: int = 0) -> Agent:
        options = {**self.settings.search.model_dump(), "sampled_plies": sampled_plies}
        return run_agent(self.run, iteration, NetworkOptions.model_validate(options))

    def _save_network(self, iteration: int) -> None:
        weights, optimizer = self.learner.weight_arrays(), self.learner.optimizer_arrays()
        self.run.save_network(iteration, weights, optimizer)

    @property
    def _iteration(self) -> int:
        """The iteration under way, the last one while what was learnt is measured."""
        return min(self.run.progress.iteration, self.settings.iterations)

    def _head(self, stage: str, began: float) -> dict[str, Any]:
        return {
            "iteration": self._iteration,
            "stage": stage,
            "wall_seconds": round(perf_counter() - began, 4),
        }

    def _commit(self, metrics: list[dict[str, Any]], **changes: Any) -> None:
        """Make a finished stage durable and tell the reporter."""
        self.run.commit(self.run.progress.model_copy(update=changes), metrics)
        for line in metrics:
            self.reporter.finish_stage(line)


def elo_gained(match: Match, candidate: str, champion: str) -> Difference:
    """Return how much stronger the candidate is by the distinct games of a match.

    It is on BayesElo's scale, on which the differences of many matches can be added whatever their
    draws. The interval takes the champion's Elo as known.
    """
    return rate(match.games).difference(candidate, champion)


def passes(score: Score, los: float, gate: GateSettings) -> bool:
    """Tell whether a candidate replaces the best network.

    Given are its arena score and how likely that shows it to be stronger. For the share of games
    won draws are ignored; without a decisive game the candidate is rejected (FACTS 1, Arena).
    """
    if gate.accept == "always":
        return True
    if gate.accept == "los":
        return los >= gate.threshold
    decisive = score.wins + score.losses
    return decisive > 0 and score.wins / decisive >= gate.threshold


def _self_play_games(episodes: Episodes, name: str) -> list[GameRecord]:
    """Return the games of an iteration; their moves are ordered by game and ply."""
    plies = episodes.plies
    ends = np.flatnonzero(np.diff(plies.games, append=-1)) + 1
    games = []
    for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        actions = tuple(plies.actions[begin:end].tolist())
        games.append(GameRecord(number, name, name, actions, int(plies.values[begin])))
    return games


def _yardstick_line(head: dict[str, Any], match: Match, opponent: str) -> dict[str, Any]:
    low, high = match.score.interval()
    return {
        **head,
        "opponent": opponent,
        **match.score._asdict(),
        "score_rate": match.score.score_rate,
        "low": low,
        "high": high,
        "distinct_games": match.distinct,
    }
