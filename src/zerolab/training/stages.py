"""The stages of an iteration: self-play, learning, gate and warm-start match."""

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
from zerolab.training.evaluation_stages import AccuracyStage, FinalEvaluationStage, SupervisedStage
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
    """Plays the games of an iteration and saves their examples."""

    name = SELF_PLAY

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        began = context.begin("self-play", *_work(context.settings.selfplay))
        episodes, generation = _play_games(context)
        seconds = began()  # without what examples need to be learnt, such as features
        _save_games(context, episodes)
        facts = {**_record_fields(context, episodes, seconds), "generation": generation}
        return [SelfPlayRecord.model_validate(facts)]


def _work(settings: SelfPlaySettings) -> tuple[int, str]:
    """Return how much is to be played, and in what that is counted."""
    if isinstance(settings.mode, ContinuousMode):
        return settings.mode.plies * settings.parallel_games, "plies"
    return settings.episodes, "games"


def _play_games(context: TrainingContext) -> tuple[SelfPlayResult, int | None]:
    """Play with the best network, in a league if there is one; return its generation, too."""
    settings, progress = context.settings, context.progress
    if context.league is None:
        return _play_alone(context), None
    return play_league(
        context.league, settings.selfplay.episodes, context.evaluator(progress.best),
        progress.iteration, _reporting(context),
    )  # fmt: skip


def _play_alone(context: TrainingContext) -> SelfPlayResult:
    """Let the best network play; games that the iteration before has left unfinished go on."""
    settings, progress, run = context.settings, context.progress, context.run
    weight = warm_start_weight(settings.warm_start, progress)
    search = warm_start_search(settings.search, settings.warm_start, weight)
    evaluator, name = context.evaluator(progress.best), context.network_agent(progress.best).name
    if not isinstance(settings.selfplay.mode, ContinuousMode):
        given = (
            context.game, settings.selfplay, search, evaluator, settings.seed, progress.iteration,
            _reporting(context),
        )  # fmt: skip
        if isinstance(settings.selfplay.mode, ServiceMode):
            return play_by_service(*given, name=name, spec=lambda: _network_spec(context))
        return play_episodes(*given, name=name)
    former = run.load_unfinished(progress.iteration - 1) if progress.iteration > 1 else None
    return play_continuous(
        context.game, settings.selfplay, search, evaluator, settings.seed, former,
        _reporting(context), name=name,
    )  # fmt: skip


def _network_spec(context: TrainingContext) -> NetworkSpec:
    """Return what another process makes the evaluator of the best network from."""
    settings, best = context.settings, context.progress.best
    weights = context.run.load_weights(best)
    return NetworkSpec(settings.game, settings.network_of(best).model_dump(), weights)


def _record_fields(
    context: TrainingContext, episodes: SelfPlayResult, seconds: float
) -> dict[str, Any]:
    """Return the fields of the record; what is always the same without an option is left out."""
    settings, games, unfinished = context.settings, episodes.games, episodes.unfinished
    weight = warm_start_weight(settings.warm_start, context.progress)
    plies = len(episodes.examples.plies)
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
        "plies": episodes.moves if served or unfinished is not None else None,
        "unfinished": None if unfinished is None else len(unfinished.games),
        "full": int(episodes.examples.full.sum()) if varied else None,
        "simulations_per_move": (
            episodes.counts["simulations"] / episodes.moves if varied and episodes.moves else None
        ),
        "warm_start_weight": weight if settings.warm_start.is_on else None,
        **episodes.counts,
        **{f"wall_{part}_seconds": spent for part, spent in episodes.seconds.items()},
    }


def _reporting(context: TrainingContext) -> Callable[[SelfPlayProgress], None]:
    began = perf_counter()
    counts_plies = isinstance(context.settings.selfplay.mode, ContinuousMode)

    def report(progress: SelfPlayProgress) -> None:
        rate = progress.plies / max(perf_counter() - began, 1e-9)
        done = progress.plies if counts_plies else progress.games
        context.reporter.progress(done, f"{rate:,.0f} positions/s")

    return report


def _save_games(context: TrainingContext, episodes: SelfPlayResult) -> None:
    context.save_examples(episodes.examples)
    if episodes.unfinished is not None:
        context.run.save_unfinished(context.progress.iteration, episodes.unfinished)
    context.save_games(SelfPlayStage.name, episodes.games)
    context.update(positions=context.window.total)


def load_best(context: TrainingContext) -> None:
    """Load what an iteration's learning begins with: the best network, grown where it is time to.

    That depends on the best network and the iteration alone: where a candidate that had grown was
    rejected, the next one grows anew from the best network (docs/decisions/0045). The optimiser and
    the average of weights begin anew with a larger network.
    """
    run, settings, best = context.run, context.settings, context.progress.best
    weights = run.load_weights(best)
    former, network = (settings.network_of(each) for each in (best, context.iteration))
    is_larger = network != former
    if settings.growth.last is not None:
        context.learner = _new_learner(
            context, settings.growth.epochs_when_new if is_larger else None
        )
    if not is_larger:
        context.learner.load(weights, context.defects.carried(run.load_optimizer(best)))
        return
    random = streams.generator(settings.seed, context.iteration, streams.GROWTH)
    fresh = context.learner.weight_arrays()
    context.learner.load(settings.growth.weights(network, fresh, weights, random), {})


def _new_learner(context: TrainingContext, epochs: int | None) -> Learner:
    """Return a learner for a new network of the iteration's size.

    `epochs` take the place of what the run's settings say of passes over the window, unless None.
    """
    settings, iteration = context.settings, context.iteration
    network = build_network(settings.network_of(iteration), context.game, settings.seed, iteration)
    learn = context.defects.learning(settings.learn)
    if epochs is not None:
        learn = learn.model_copy(update={"epochs": epochs, "reuse": None})
    return Learner(network, learn, settings.targets, context.learner.device)


class LearnStage(Stage):
    """Trains a candidate on the window.

    Learning continues from the weights and the optimiser state of the best network, not from those
    of a candidate that was rejected. Where weights are averaged these are the weights behind the
    best network, of its latest step.
    """

    name = "learn"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`; there may be too few examples for a batch norm yet."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        progress = context.progress
        load_best(context)
        batches = context.learner.steps(context.window)
        seconds = context.begin("learn", batches, "batches")
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
                wall_seconds=seconds(),
                samples=learned.samples,
                window=len(context.window),
                merged=context.window.merged,
                parameters=context.learner.parameters if context.settings.growth.last else None,
                loss=learned.losses,
                **_learning_details(context.settings.learn, learned),
            )
        ]


def _learning_details(settings: LearnSettings, learned: Learned) -> dict[str, Any]:
    """Return what is worth a field only where settings let it differ from what others say."""
    details: dict[str, Any] = {"gradient_norm": learned.gradient_norm}
    if len(learned.epoch_losses) > 1:
        details["epoch_losses"] = learned.epoch_losses
    if settings.schedule.name != "constant":
        rates = learned.learning_rates
        details |= {"learning_rate": rates[-1], "peak_learning_rate": max(rates)}
    return details


class GateStage(Stage):
    """Accepts or rejects the candidate of this iteration; see `training.criteria`."""

    name = "gate"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`; there may be too few examples for a batch norm yet."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        seconds = context.begin("gate", context.settings.gate.games, "games")
        shown = _play_gate(context) if context.settings.gate.games else {"accepted": True}
        accepted, progress = shown["accepted"], context.progress
        elo = shown.get("candidate_elo", progress.elo) if accepted else progress.elo
        context.update(best=progress.iteration if accepted else progress.best, elo=elo)
        fields = {"iteration": context.iteration, "wall_seconds": seconds(), "elo": elo, **shown}
        return [GateRecord.model_validate(fields)]


def _play_gate(context: TrainingContext) -> dict[str, float]:
    """Return the verdict and what it rests on, as fields of the record."""
    gate, progress = context.settings.gate, context.progress
    candidate, best = (context.network_agent(n) for n in (progress.iteration, progress.best))
    match = context.play_match(candidate, best, gate.games, GateStage.name, openings=gate.openings)
    gained = match.difference()
    return {
        **match.score._asdict(),
        "accepted": gate.accepts(match.score, gained.los),
        "distinct_games": match.distinct,
        "candidate_elo": progress.elo + gained.elo,
        "candidate_elo_low": progress.elo + gained.low,
        "candidate_elo_high": progress.elo + gained.high,
        "los": gained.los,
    }


class WarmStartMatchStage(Stage):
    """Plays plain search against warm-start search, both with the best network [Wang2021a]."""

    name = "warm_start_match"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`: while the warm start lasts, if its schedule asks for matches."""
        warm_start = context.settings.warm_start
        weight = warm_start_weight(warm_start, context.progress)
        return warm_start.is_on and weight > 0 and warm_start.schedule.match is not None

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        settings, progress = context.settings, context.progress
        schedule = settings.warm_start.schedule
        assert schedule.match is not None  # otherwise it would not be due
        games, openings = schedule.match
        seconds = context.begin("warm-start match", games, "games")
        weight = warm_start_weight(settings.warm_start, progress)
        search = warm_start_search(settings.search, settings.warm_start, weight)
        plain = context.network_agent(progress.best)
        warm = context.network_agent(
            progress.best, NetworkOptions.model_validate(search.model_dump())
        )
        # Numbers after those of the gate have random streams of their own.
        match = context.play_match(
            plain, warm, games, self.name, openings=openings, begin=settings.gate.games
        )
        los = match.difference().los
        over = schedule.is_over(los)
        context.update(warm_start_over=over)
        return [
            WarmStartMatchRecord(
                iteration=context.iteration,
                wall_seconds=seconds(),
                **match.score._asdict(),
                distinct_games=match.distinct,
                los=los,
                over=over,
            )
        ]


ITERATION: tuple[Stage, ...] = (
    SelfPlayStage(),
    LearnStage(),
    GateStage(),
    WarmStartMatchStage(),
    AccuracyStage(),
)
"""What every iteration runs."""

SUPERVISED: tuple[Stage, ...] = (LearnStage(), SupervisedStage(), AccuracyStage())
"""What it runs where solved positions take the place of games."""

FINAL = FinalEvaluationStage()
"""What runs once, after the last iteration."""

__all__ = ["FINAL", "ITERATION", "SUPERVISED", "Stage"]
