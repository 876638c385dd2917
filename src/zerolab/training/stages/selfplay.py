"""Self-play: the best network plays against itself and leaves one example per move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from zerolab.play.continuous import play_on
from zerolab.play.selfplay import Episodes, SelfPlayProgress, play_episodes
from zerolab.play.selfplay_settings import Continuous, SelfPlaySettings
from zerolab.play.service.network_spec import NetworkSpec
from zerolab.play.service.schedules import play_by_service
from zerolab.play.service.settings import Service
from zerolab.store.games import SELF_PLAY
from zerolab.training.context import TrainingContext
from zerolab.training.league import play_league
from zerolab.training.records import Record, SelfPlayRecord
from zerolab.training.stages.interface import Stage
from zerolab.training.warm_start.settings import warm_start_search, warm_start_weight


class SelfPlay(Stage):
    """Plays the games of an iteration and saves their examples."""

    name = SELF_PLAY

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        began = context.begin("self-play", *_work(context.settings.selfplay))
        episodes, generation = _play(context)
        seconds = began()  # without what examples need to be learnt, such as features
        _save(context, episodes)
        facts = {**_facts(context, episodes, seconds), "generation": generation}
        return [SelfPlayRecord.model_validate(facts)]


def _work(settings: SelfPlaySettings) -> tuple[int, str]:
    """Return how much is to be played, and in what that is counted."""
    schedule = settings.schedule
    if isinstance(schedule, Continuous):
        return schedule.plies * settings.parallel_games, "plies"
    return settings.episodes, "games"


def _play(context: TrainingContext) -> tuple[Episodes, int | None]:
    """Play with the best network, in a league if there is one; return its generation, too."""
    settings, progress = context.settings, context.progress
    if context.league is None:
        return _play_alone(context), None
    return play_league(
        context.league, settings.selfplay.episodes, context.evaluator(progress.best),
        progress.iteration, _reporting(context),
    )  # fmt: skip


def _play_alone(context: TrainingContext) -> Episodes:
    """Let the best network play; games that the iteration before has left unfinished go on."""
    settings, progress, run = context.settings, context.progress, context.run
    weight = warm_start_weight(settings.warm_start, progress)
    search = warm_start_search(settings.search, settings.warm_start, weight)
    evaluator, name = context.evaluator(progress.best), context.network_agent(progress.best).name
    if not isinstance(settings.selfplay.schedule, Continuous):
        given = (
            context.game, settings.selfplay, search, evaluator, settings.seed, progress.iteration,
            _reporting(context),
        )  # fmt: skip
        if isinstance(settings.selfplay.schedule, Service):
            return play_by_service(*given, name=name, spec=lambda: _network_spec(context))
        return play_episodes(*given, name=name)
    former = run.load_unfinished(progress.iteration - 1) if progress.iteration > 1 else None
    return play_on(
        context.game, settings.selfplay, search, evaluator, settings.seed, former,
        _reporting(context), name=name,
    )  # fmt: skip


def _network_spec(context: TrainingContext) -> NetworkSpec:
    """Return what another process makes the evaluator of the best network from."""
    settings, best = context.settings, context.progress.best
    weights = context.run.load_weights(best)
    return NetworkSpec(settings.game, settings.network_of(best).model_dump(), weights)


def _facts(context: TrainingContext, episodes: Episodes, seconds: float) -> dict[str, Any]:
    """Return the fields of the record; what is always the same without an option is left out."""
    settings, games, unfinished = context.settings, episodes.games, episodes.unfinished
    weight = warm_start_weight(settings.warm_start, context.progress)
    plies = len(episodes.examples.plies)
    play = settings.selfplay
    served = isinstance(play.schedule, Service)
    is_alone = settings.league is None and not served
    varied = play.budget.name != "fixed" or play.random_plies > 0 or not is_alone
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
    counts_plies = isinstance(context.settings.selfplay.schedule, Continuous)

    def report(progress: SelfPlayProgress) -> None:
        rate = progress.plies / max(perf_counter() - began, 1e-9)
        done = progress.plies if counts_plies else progress.games
        context.reporter.progress(done, f"{rate:,.0f} positions/s")

    return report


def _save(context: TrainingContext, episodes: Episodes) -> None:
    context.save_examples(episodes.examples)
    if episodes.unfinished is not None:
        context.run.save_unfinished(context.progress.iteration, episodes.unfinished)
    context.save_games(SelfPlay.name, episodes.games)
    context.update(positions=context.window.total)
