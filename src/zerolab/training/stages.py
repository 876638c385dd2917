"""The stages of an iteration: self-play, learning, gate and warm-start match.

The trainer runs them in this order; `evaluation_stages` has those that only measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from zerolab.agents.options import NetworkOptions
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import torch_threads
from zerolab.play.search_service import NetworkSpec
from zerolab.play.selfplay import SelfPlayProgress, SelfPlayResult, play_episodes
from zerolab.play.selfplay_modes import play_by_service, play_continuous
from zerolab.play.selfplay_settings import ContinuousMode, SelfPlaySettings, ServiceMode
from zerolab.store.games import SELF_PLAY
from zerolab.training.context import Stage, TrainingContext
from zerolab.training.league import play_league
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learned, Learner
from zerolab.training.records import (
    GateRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
    WarmStartMatchRecord,
)
from zerolab.training.warm_start import warm_start_search, warm_start_weight


class SelfPlayStage(Stage):
    """Plays the games of an iteration with the best network, and saves their examples."""

    name = SELF_PLAY

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Play, save examples and games, and add the examples to the window."""
        elapsed = context.begin("self-play", *_amount_of_work(context.settings.selfplay))
        played, generation = _play_games(context)
        seconds = elapsed()  # without the time that features of the examples take
        _save_games(context, played)
        fields = {**_record_fields(context, played, seconds), "generation": generation}
        return [SelfPlayRecord.model_validate(fields)]


def _amount_of_work(settings: SelfPlaySettings) -> tuple[int, str]:
    """Return the plies or games to be played, and their unit."""
    if isinstance(settings.mode, ContinuousMode):
        return settings.mode.plies * settings.parallel_games, "plies"
    return settings.episodes, "games"


def _play_games(context: TrainingContext) -> tuple[SelfPlayResult, int | None]:
    """Play with the best network; in a league, also return its generation."""
    settings, progress = context.settings, context.progress
    if context.league is None:
        return _play_alone(context), None
    return play_league(
        context.league, settings.selfplay.episodes, context.evaluator(progress.best),
        progress.iteration, _progress_callback(context),
    )  # fmt: skip


def _play_alone(context: TrainingContext) -> SelfPlayResult:
    """Let the best network play itself; in continuous self-play, resume unfinished games."""
    settings, progress, run = context.settings, context.progress, context.run
    weight = warm_start_weight(settings.warm_start, progress)
    search = warm_start_search(settings.search, settings.warm_start, weight)
    evaluator, name = context.evaluator(progress.best), context.network_agent(progress.best).name
    if not isinstance(settings.selfplay.mode, ContinuousMode):
        given = (
            context.game, settings.selfplay, search, evaluator, settings.seed, progress.iteration,
            _progress_callback(context),
        )  # fmt: skip
        if isinstance(settings.selfplay.mode, ServiceMode):
            return play_by_service(*given, name=name, spec=lambda: _network_spec(context))
        return play_episodes(*given, name=name)
    former = run.load_unfinished(progress.iteration - 1) if progress.iteration > 1 else None
    return play_continuous(
        context.game, settings.selfplay, search, evaluator, settings.seed, former,
        _progress_callback(context), name=name,
    )  # fmt: skip


def _network_spec(context: TrainingContext) -> NetworkSpec:
    """Return the best network in a form from which another process builds its evaluator."""
    settings, best = context.settings, context.progress.best
    weights = context.run.load_weights(best)
    return NetworkSpec(settings.game, settings.network_of(best).model_dump(), weights)


def _record_fields(
    context: TrainingContext, played: SelfPlayResult, seconds: float
) -> dict[str, Any]:
    """Return the fields of the record, None where an option that is off would make them vary."""
    settings, games, unfinished = context.settings, played.games, played.unfinished
    weight = warm_start_weight(settings.warm_start, context.progress)
    plies = len(played.examples.plies)
    play = settings.selfplay
    served = isinstance(play.mode, ServiceMode)
    is_alone = settings.league is None and not served
    varied = play.budget.name != "fixed" or play.random_opening_plies > 0 or not is_alone
    return {
        "iteration": context.iteration,
        "wall_seconds": seconds,
        "games": len(games),
        "distinct_games": len({game.actions for game in games}),
        "positions": plies,
        "plies_per_game": plies / len(games) if games else None,
        "plies": played.moves if served or unfinished is not None else None,
        "unfinished": None if unfinished is None else len(unfinished.games),
        "full": int(played.examples.full.sum()) if varied else None,
        "simulations_per_move": (
            played.counts["simulations"] / played.moves if varied and played.moves else None
        ),
        "warm_start_weight": weight if settings.warm_start.is_on else None,
        **played.counts,
        **{f"wall_{part}_seconds": spent for part, spent in played.seconds.items()},
    }


def _progress_callback(context: TrainingContext) -> Callable[[SelfPlayProgress], None]:
    """Return a callback that passes games or plies, and their pace, to the reporter."""
    began = perf_counter()
    counts_plies = isinstance(context.settings.selfplay.mode, ContinuousMode)

    def report(progress: SelfPlayProgress) -> None:
        rate = progress.plies / max(perf_counter() - began, 1e-9)
        done = progress.plies if counts_plies else progress.games
        context.reporter.progress(done, f"{rate:,.0f} positions/s")

    return report


def _save_games(context: TrainingContext, played: SelfPlayResult) -> None:
    context.save_examples(played.examples)
    if played.unfinished is not None:
        context.run.save_unfinished(context.progress.iteration, played.unfinished)
    context.save_games(SelfPlayStage.name, played.games)
    context.update(positions=context.window.total)


class LearnStage(Stage):
    """Trains the best network further on the window: the candidate.

    Learning continues from the weights and the optimiser state of the best network, not from those
    of a rejected candidate. With averaged weights, those are the weights of its latest step.
    """

    name = "learn"

    def is_due(self, context: TrainingContext) -> bool:
        """Return False while the window has too few examples for batch norm."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Train and save the candidate."""
        progress = context.progress
        load_best(context)
        batches = context.learner.steps(context.window)
        elapsed = context.begin("learn", batches, "batches")
        with torch_threads(available_cores()):
            learned = context.learner.learn(
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
                examples_seen=learned.examples_seen,
                window=len(context.window),
                merged=context.window.merged,
                parameters=context.learner.parameters if context.settings.growth.last else None,
                loss=learned.losses,
                **_optional_fields(context.settings.learn, learned),
            )
        ]


def load_best(context: TrainingContext) -> None:
    """Load the best network into the learner, grown if it is due to grow.

    The result depends on the best network and the iteration alone: after a candidate that had grown
    was rejected, the next one grows again from the best network (docs/decisions/0045). A larger
    network starts with a new optimiser and a new average of weights.
    """
    run, settings, best = context.run, context.settings, context.progress.best
    weights = run.load_weights(best)
    former, network = (settings.network_of(each) for each in (best, context.iteration))
    is_larger = network != former
    if settings.growth.last is not None:
        epochs = settings.growth.epochs_when_new if is_larger else None
        context.learner = _new_learner(context, epochs)
    if not is_larger:
        context.learner.load(weights, context.bugs.carried_optimizer(run.load_optimizer(best)))
        return
    random = streams.generator(settings.seed, context.iteration, streams.GROWTH)
    fresh = context.learner.weight_arrays()
    context.learner.load(settings.growth.weights(network, fresh, weights, random), {})


def _new_learner(context: TrainingContext, epochs: int | None) -> Learner:
    """Return a learner for a new network of the iteration's size.

    `epochs`, unless None, replaces the passes over the window of the run's settings.
    """
    settings, iteration = context.settings, context.iteration
    network = build_network(settings.network_of(iteration), context.game, settings.seed, iteration)
    learn = context.bugs.learn_settings(settings.learn)
    if epochs is not None:
        learn = learn.model_copy(update={"epochs": epochs, "replay_ratio": None})
    return Learner(network, learn, settings.targets, context.learner.device)


def _optional_fields(settings: LearnSettings, learned: Learned) -> dict[str, Any]:
    """Return fields that would repeat others under simple settings, and are left out there."""
    fields: dict[str, Any] = {"gradient_norm": learned.gradient_norm}
    if len(learned.epoch_losses) > 1:
        fields["epoch_losses"] = learned.epoch_losses
    if settings.schedule.name != "constant":
        rates = learned.learning_rates
        fields |= {"learning_rate": rates[-1], "peak_learning_rate": max(rates)}
    return fields


class GateStage(Stage):
    """Accepts or rejects the candidate of this iteration (`training.criteria`)."""

    name = "gate"

    def is_due(self, context: TrainingContext) -> bool:
        """Return False in an iteration without learning."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Play the candidate against the best network, and decide which is the best now."""
        elapsed = context.begin("gate", context.settings.gate.games, "games")
        verdict = _play_gate(context) if context.settings.gate.games else {"accepted": True}
        accepted, progress = verdict["accepted"], context.progress
        elo = verdict.get("candidate_elo", progress.elo) if accepted else progress.elo
        context.update(best=progress.iteration if accepted else progress.best, elo=elo)
        fields = {"iteration": context.iteration, "wall_seconds": elapsed(), "elo": elo, **verdict}
        return [GateRecord.model_validate(fields)]


def _play_gate(context: TrainingContext) -> dict[str, float]:
    """Return the verdict and its evidence as fields of the record."""
    gate, progress = context.settings.gate, context.progress
    candidate, best = (context.network_agent(n) for n in (progress.iteration, progress.best))
    match = context.play_match(candidate, best, gate.games, GateStage.name, openings=gate.openings)
    gained = match.difference()
    return {
        **match.score._asdict(),
        "accepted": gate.accepts(match.score, gained.los),
        "distinct_games": match.distinct,
        "candidate_elo": progress.elo + gained.elo,
        "candidate_elo_low": progress.elo + gained.interval.low,
        "candidate_elo_high": progress.elo + gained.interval.high,
        "los": gained.los,
    }


class WarmStartMatchStage(Stage):
    """Plays plain search against warm-start search, both with the best network [Wang2021a]."""

    name = "warm_start_match"

    def is_due(self, context: TrainingContext) -> bool:
        """Return True while a warm start lasts whose ramp ends by matches."""
        warm_start = context.settings.warm_start
        weight = warm_start_weight(warm_start, context.progress)
        return warm_start.is_on and weight > 0 and warm_start.ramp.match is not None

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Play the match, and end the warm start if plain search is stronger."""
        settings, progress = context.settings, context.progress
        ramp = settings.warm_start.ramp
        assert ramp.match is not None  # otherwise it would not be due
        games, openings = ramp.match
        elapsed = context.begin("warm-start match", games, "games")
        weight = warm_start_weight(settings.warm_start, progress)
        search = warm_start_search(settings.search, settings.warm_start, weight)
        plain = context.network_agent(progress.best)
        warm = context.network_agent(
            progress.best, NetworkOptions.model_validate(search.model_dump())
        )
        # Games are numbered after those of the gate, so that their random streams differ.
        match = context.play_match(
            plain, warm, games, self.name, openings=openings, begin=settings.gate.games
        )
        los = match.difference().los
        over = ramp.is_over(los)
        context.update(warm_start_over=over)
        return [
            WarmStartMatchRecord(
                iteration=context.iteration,
                wall_seconds=elapsed(),
                **match.score._asdict(),
                distinct_games=match.distinct,
                los=los,
                over=over,
            )
        ]
