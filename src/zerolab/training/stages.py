"""Training stages of an iteration: self-play, learning, gate and warm-start match.

The trainer runs them in this order. The stages that only measure are in `evaluation_stages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from zerolab.agents.agent import NetworkOptions
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import limit_torch_threads
from zerolab.play.observers import resignation_counts
from zerolab.play.search_service import NetworkEvaluatorFactory
from zerolab.play.selfplay import SelfPlayProgress, SelfPlayResult, play_episodes
from zerolab.play.selfplay_modes import play_continuous, play_with_service
from zerolab.play.selfplay_settings import ContinuousMode, SelfPlaySettings, ServiceMode
from zerolab.store.games import SELF_PLAY
from zerolab.training.context import Stage, TrainingContext, play_league_iteration
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner, LearningResult
from zerolab.training.records import (
    GateRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
    WarmStartMatchRecord,
)
from zerolab.training.warm_start import warm_start_search, warm_start_weight


class SelfPlayStage(Stage):
    """Self-play with the best network, which produces the examples of an iteration."""

    name = SELF_PLAY

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play games, save them with their examples, and add the examples to the replay window."""
        elapsed = context.start_task("self-play", *_planned_work(context.settings.selfplay))
        result, generation = _play_games(context)
        seconds = elapsed()  # excludes computing the features of the examples
        _save_games(context, result)
        fields = {**_record_fields(context, result, seconds), "generation": generation}
        return [SelfPlayRecord.model_validate(fields)]


def _planned_work(settings: SelfPlaySettings) -> tuple[int, str]:
    """Return the number of plies or games to play, and the unit."""
    if isinstance(settings.mode, ContinuousMode):
        return settings.mode.plies * settings.parallel_games, "plies"
    return settings.episodes, "games"


def _play_games(context: TrainingContext) -> tuple[SelfPlayResult, int | None]:
    """Play with the best network; in a league, also return the generation of the last game."""
    settings, progress = context.settings, context.progress
    if context.league is None:
        return _play_alone(context), None
    return play_league_iteration(
        context.league, settings.selfplay.episodes, context.evaluator(progress.best),
        progress.iteration, _progress_callback(context),
    )  # fmt: skip


def _play_alone(context: TrainingContext) -> SelfPlayResult:
    """Play the best network against itself; in continuous mode, resume unfinished games first."""
    settings, progress, run = context.settings, context.progress, context.run
    weight = warm_start_weight(settings.warm_start, progress)
    search = warm_start_search(settings.search, settings.warm_start, weight)
    evaluator, name = context.evaluator(progress.best), context.network_agent(progress.best).name
    if not isinstance(settings.selfplay.mode, ContinuousMode):
        arguments = (
            context.game, settings.selfplay, search, evaluator, settings.seed, progress.iteration,
            _progress_callback(context),
        )  # fmt: skip
        if isinstance(settings.selfplay.mode, ServiceMode):
            return play_with_service(
                *arguments, name=name, evaluator_factory=lambda: _network_evaluator_factory(context)
            )
        return play_episodes(*arguments, name=name)
    unfinished = (
        run.load_unfinished_games(progress.iteration - 1) if progress.iteration > 1 else None
    )
    return play_continuous(
        context.game, settings.selfplay, search, evaluator, settings.seed, unfinished,
        _progress_callback(context), name=name,
    )  # fmt: skip


def _network_evaluator_factory(context: TrainingContext) -> NetworkEvaluatorFactory:
    """Return the best network in a form from which other processes can build an evaluator."""
    settings, best = context.settings, context.progress.best
    weights = context.run.load_weights(best)
    return NetworkEvaluatorFactory(settings.game, settings.network_at(best).model_dump(), weights)


def _record_fields(
    context: TrainingContext, result: SelfPlayResult, seconds: float
) -> dict[str, Any]:
    """Return the fields of the record; fields without information are None.

    For example, the number of simulations per move is constant with a fixed budget.
    """
    settings, games, unfinished = context.settings, result.games, result.unfinished_games
    weight = warm_start_weight(settings.warm_start, context.progress)
    plies = len(result.examples.plies)
    play = settings.selfplay
    has_service = isinstance(play.mode, ServiceMode)
    is_alone = settings.league is None and not has_service
    budget_varies = play.budget.name != "fixed" or play.random_opening_plies > 0 or not is_alone
    return {
        "iteration": context.iteration,
        "wall_seconds": seconds,
        "games": len(games),
        "distinct_games": len({game.actions for game in games}),
        "positions": plies,
        "plies_per_game": plies / len(games) if games else None,
        "plies": result.searched_move_count if has_service or unfinished is not None else None,
        "unfinished": None if unfinished is None else len(unfinished.games),
        "full": int(result.examples.full.sum()) if budget_varies else None,
        "simulations_per_move": (
            result.search_counts["simulations"] / result.searched_move_count
            if budget_varies and result.searched_move_count
            else None
        ),
        "resignations": (
            resignation_counts(result.examples, games, play.resignation.threshold)
            if play.resignation
            else None
        ),
        "warm_start_weight": weight if settings.warm_start.is_active else None,
        **result.search_counts,
        **{f"wall_{part}_seconds": duration for part, duration in result.seconds_by_part.items()},
    }


def _progress_callback(context: TrainingContext) -> Callable[[SelfPlayProgress], None]:
    """Return a callback that reports games or plies, positions per second and the latest game."""
    start = perf_counter()
    counts_plies = isinstance(context.settings.selfplay.mode, ContinuousMode)

    def report(progress: SelfPlayProgress) -> None:
        rate = progress.ply_count / max(perf_counter() - start, 1e-9)
        done = progress.ply_count if counts_plies else progress.game_count
        if progress.latest_game is not None:
            context.reporter.show_game(progress.latest_game)
        context.reporter.progress(done, f"{rate:,.0f} positions/s")

    return report


def _save_games(context: TrainingContext, result: SelfPlayResult) -> None:
    context.save_examples(result.examples)
    if result.unfinished_games is not None:
        context.run.save_unfinished_games(context.progress.iteration, result.unfinished_games)
    context.save_games(SelfPlayStage.name, result.games)
    context.update_progress(positions=context.window.added_count)


class LearnStage(Stage):
    """Training of a candidate, starting from the best network, on the replay window.

    Training resumes with the weights and optimiser state of the best network, never those of a
    rejected candidate. With weight averaging, it resumes from the latest weights, not the average.
    """

    name = "learn"

    def is_due(self, context: TrainingContext) -> bool:
        """Return False if the replay window has too few examples for batch norm."""
        return len(context.window) > 1

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Train and save the candidate."""
        progress = context.progress
        load_best_network(context)
        steps = context.learner.steps_for(context.window)
        elapsed = context.start_task("learn", steps, "batches")
        with limit_torch_threads(available_cores()):
            result = context.learner.learn(
                context.window,
                context.settings.seed,
                progress.iteration,
                context.reporter.progress,
                iterations=context.settings.iterations,
            )
        context.save_network(progress.iteration)
        return [
            LearnRecord(
                iteration=context.iteration,
                wall_seconds=elapsed(),
                examples_seen=result.examples_seen,
                window=len(context.window),
                merged=context.window.merged_count,
                parameters=context.learner.parameter_count
                if context.settings.growth.last_iteration
                else None,
                loss=result.last_epoch_losses,
                **_optional_fields(context.settings.learn, result),
            )
        ]


def load_best_network(context: TrainingContext) -> None:
    """Load the best network into the learner; grow it if this iteration's network is larger.

    The result depends only on the best network and the iteration. If a grown candidate is rejected,
    the next candidate grows again from the best network (docs/decisions/0045). A grown network
    starts with a new optimiser and a new weight average.
    """
    run, settings, best = context.run, context.settings, context.progress.best
    weights = run.load_weights(best)
    former, network = settings.network_at(best), settings.network_at(context.iteration)
    is_larger = network != former
    if settings.growth.last_iteration is not None:
        epochs = settings.growth.epochs_after_growth if is_larger else None
        context.learner = _new_learner(context, epochs)
    if not is_larger:
        context.learner.restore(
            weights, context.enabled_bugs.carried_optimizer_state(run.load_optimizer(best))
        )
        return
    random = streams.numpy_generator(settings.seed, context.iteration, streams.GROWTH)
    fresh = context.learner.weight_arrays()
    context.learner.restore(settings.growth.initial_weights(network, fresh, weights, random), {})


def _new_learner(context: TrainingContext, epochs: int | None) -> Learner:
    """Return a learner for a new network of this iteration's size.

    `epochs`, unless None, overrides the number of passes over the window in the settings.
    """
    settings, iteration = context.settings, context.iteration
    network = build_network(settings.network_at(iteration), context.game, settings.seed, iteration)
    learn = context.enabled_bugs.learner_settings(settings.learn)
    if epochs is not None:
        learn = learn.model_copy(update={"epochs": epochs, "replay_ratio": None})
    return Learner(network, learn, settings.target_options, context.learner.device)


def _optional_fields(settings: LearnSettings, result: LearningResult) -> dict[str, Any]:
    """Return the optional fields of the record, without those that the settings make redundant."""
    fields: dict[str, Any] = {"gradient_norm": result.gradient_norm}
    if len(result.epoch_losses) > 1:
        fields["epoch_losses"] = result.epoch_losses
    if settings.schedule.name != "constant":
        rates = result.learning_rates
        fields |= {"learning_rate": rates[-1], "peak_learning_rate": max(rates)}
    return fields


class GateStage(Stage):
    """Stage in which a gate accepts or rejects the candidate (`training.criteria`)."""

    name = "gate"

    def is_due(self, context: TrainingContext) -> bool:
        """Return False if the iteration trained no candidate."""
        return len(context.window) > 1

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play the candidate against the best network; an accepted candidate replaces it."""
        elapsed = context.start_task("gate", context.settings.gate.games, "games")
        verdict = _play_gate(context) if context.settings.gate.games else {"accepted": True}
        accepted, progress = verdict["accepted"], context.progress
        elo = verdict.get("candidate_elo", progress.elo) if accepted else progress.elo
        context.update_progress(best=progress.iteration if accepted else progress.best, elo=elo)
        fields = {"iteration": context.iteration, "wall_seconds": elapsed(), "elo": elo, **verdict}
        return [GateRecord.model_validate(fields)]


def _play_gate(context: TrainingContext) -> dict[str, float]:
    """Return the verdict and the results of the match as fields of the record."""
    gate, progress = context.settings.gate, context.progress
    candidate, best = (context.network_agent(n) for n in (progress.iteration, progress.best))
    match = context.play_match(candidate, best, gate.games, GateStage.name, openings=gate.openings)
    difference = match.difference()
    return {
        **match.score._asdict(),
        "accepted": gate.accepts(match.score, difference.los),
        "distinct_games": match.distinct_count,
        "candidate_elo": progress.elo + difference.elo,
        "candidate_elo_low": progress.elo + difference.interval.low,
        "candidate_elo_high": progress.elo + difference.interval.high,
        "los": difference.los,
    }


class WarmStartMatchStage(Stage):
    """A match of plain search against warm-start search, both with the best network [Wang2021a]."""

    name = "warm_start_match"

    def is_due(self, context: TrainingContext) -> bool:
        """Return True during a warm start whose ramp is ended by a match."""
        warm_start = context.settings.warm_start
        weight = warm_start_weight(warm_start, context.progress)
        return warm_start.is_active and weight > 0 and warm_start.ramp.match_size is not None

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play the match, and end the warm start if plain search is stronger."""
        settings, progress = context.settings, context.progress
        ramp = settings.warm_start.ramp
        assert ramp.match_size is not None  # is_due() checks this
        games, openings = ramp.match_size
        elapsed = context.start_task("warm-start match", games, "games")
        weight = warm_start_weight(settings.warm_start, progress)
        search = warm_start_search(settings.search, settings.warm_start, weight)
        plain = context.network_agent(progress.best)
        warm = context.network_agent(
            progress.best, NetworkOptions.model_validate(search.model_dump())
        )
        # Game numbers continue after those of the gate, so that the random streams differ.
        match = context.play_match(
            plain, warm, games, self.name, openings=openings, begin=settings.gate.games
        )
        los = match.difference().los
        over = ramp.is_over(los)
        context.update_progress(warm_start_over=over)
        return [
            WarmStartMatchRecord(
                iteration=context.iteration,
                wall_seconds=elapsed(),
                **match.score._asdict(),
                distinct_games=match.distinct_count,
                los=los,
                over=over,
            )
        ]
