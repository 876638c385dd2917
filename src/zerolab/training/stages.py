"""Training stages of an iteration after self-play: learning, gate and warm-start match.

The trainer runs them in this order. Self-play is in `selfplay_stage`, and the stages that only
measure are in `evaluation_stages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerolab.agents.agent import NetworkOptions
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import limit_torch_threads
from zerolab.networks.objectives import VALUE_HEAD, trained_heads
from zerolab.training.context import Stage, TrainingContext
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import NO_COMPLETED_SHARES, Learner, LearningResult
from zerolab.training.records import (
    GateRecord,
    LearnRecord,
    Record,
    WarmStartMatchRecord,
)
from zerolab.training.reporting import read_records
from zerolab.training.warm_start import warm_start_search_settings, warm_start_weight

_SATURATED_ERROR = 1.05  # above 1: an untrained head can by chance be worse than predicting 0


class LearnStage(Stage):
    """Training of a candidate, starting from the best network, on the replay window.

    Training resumes with the weights and optimiser state of the best network, never those of a
    rejected candidate. With weight averaging, it resumes from the latest weights, not the average.
    """

    name = "learn"

    def is_due(self, context: TrainingContext) -> bool:
        """Return True if the replay window has enough examples."""
        return context.trains_candidate

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Train and save the candidate."""
        progress = context.progress
        load_best_network(context)
        steps = context.learner.step_count(context.window)
        depends_on_run_length = context.settings.learn.schedule.depends_on_run_length
        shares = (
            context.completed_shares(progress.iteration)
            if depends_on_run_length
            else NO_COMPLETED_SHARES
        )
        elapsed = context.report_start("learn", steps, "batches")
        with limit_torch_threads(available_cores()):
            result = context.learner.learn(
                context.window,
                context.settings.seed,
                progress.iteration,
                context.reporter.progress,
                iterations=context.settings.iterations,
                completed_shares=shares,
            )
        context.save_network(progress.iteration)
        _warn_if_saturated(context, result.last_epoch_losses)
        return [
            LearnRecord(
                iteration=context.iteration,
                wall_seconds=elapsed(),
                examples_seen=result.examples_seen,
                window=len(context.window),
                merged=context.window.latest_merged_count,
                parameters=context.learner.parameter_count
                if context.settings.growth.last_scheduled_iteration
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
    former, network = (
        settings.network_settings_at(best),
        settings.network_settings_at(context.iteration),
    )
    is_larger = network != former
    if settings.growth.last_scheduled_iteration is not None:
        epochs = settings.growth.epochs_after_growth if is_larger else None
        context.learner = _new_learner(context, epochs)
    if not is_larger:
        context.learner.restore(
            weights, context.enabled_bugs.carried_optimizer_state(run.load_optimizer_state(best))
        )
        return
    random = streams.numpy_generator(settings.seed, context.iteration, streams.GROWTH)
    fresh = context.learner.weight_arrays()
    context.learner.restore(settings.growth.initial_weights(network, fresh, weights, random), {})


def _new_learner(context: TrainingContext, epochs: int | None) -> Learner:
    """Return a learner for a new network of this iteration's size.

    Unless it is None, `epochs` overrides the configured number of passes over the window.
    """
    settings, iteration = context.settings, context.iteration
    network = build_network(
        settings.network_settings_at(iteration), context.game, settings.seed, iteration
    )
    learn = context.enabled_bugs.learner_settings(settings.learn)
    if epochs is not None:
        learn = learn.model_copy(update={"epochs": epochs, "replay_ratio": None})
    return Learner(network, learn, settings.target_options, context.learner.device)


def _warn_if_saturated(context: TrainingContext, losses: Mapping[str, float]) -> None:
    """Show a message if a trained value head was worse than predicting 0 twice in a row.

    Values and targets are in [-1, 1], so predicting 0 has a squared error of at most 1. A clearly
    larger error in consecutive iterations usually means that the tanh of the head is saturated and
    has hardly any gradient. The message is shown in the second of these iterations and not repeated
    in later ones.
    """
    settings = context.settings
    if losses.get(VALUE_HEAD, 0.0) <= _SATURATED_ERROR or VALUE_HEAD not in trained_heads(
        settings.learn.loss, settings.network.heads
    ):
        return
    earlier = [each for each in read_records(context.run) if isinstance(each, LearnRecord)]
    errors = [0.0, 0.0, *(each.loss.get(VALUE_HEAD, 0.0) for each in earlier)]
    if errors[-1] > _SATURATED_ERROR >= errors[-2]:
        context.reporter.message(
            f"value loss {losses[VALUE_HEAD]:.2f}: worse than predicting 0 everywhere; the value"
            " head is probably saturated and may stay so. Start another run with a lower"
            " learn.learning_rate, or with a longer warm-up of the cosine schedule,"
            " learn.schedule.warm_up."
        )


def _optional_fields(settings: LearnSettings, result: LearningResult) -> dict[str, Any]:
    """Return the optional fields of the record, without those that the settings make redundant."""
    fields: dict[str, Any] = {"gradient_norm": result.mean_gradient_norm}
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
        """Return True if the iteration has trained a candidate."""
        return context.trains_candidate

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play the candidate against the best network; an accepted candidate replaces it."""
        elapsed = context.report_start("gate", context.settings.gate.games, "games")
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
    difference = match.elo_difference()
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
        """Return True during a warm start that a match can end."""
        warm_start = context.settings.warm_start
        weight = warm_start_weight(warm_start, context.progress)
        return warm_start.is_active and weight > 0 and warm_start.ramp.match_size is not None

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play the match, and end the warm start if plain search is stronger."""
        settings, progress = context.settings, context.progress
        ramp = settings.warm_start.ramp
        assert ramp.match_size is not None  # is_due() checks this
        games, openings = ramp.match_size
        elapsed = context.report_start("warm-start match", games, "games")
        weight = warm_start_weight(settings.warm_start, progress)
        search = warm_start_search_settings(settings.search, settings.warm_start, weight)
        plain = context.network_agent(progress.best)
        warm = context.network_agent(
            progress.best, NetworkOptions.model_validate(search.model_dump())
        )
        # Game numbers continue after those of the gate, so that the random streams differ.
        match = context.play_match(
            plain, warm, games, self.name, openings=openings, first_number=settings.gate.games
        )
        los = match.elo_difference().los
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
