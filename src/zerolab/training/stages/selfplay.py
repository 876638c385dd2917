"""Self-play: the best network plays against itself and leaves one example per move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from zerolab.play.selfplay import Episodes, SelfPlayProgress, play_episodes
from zerolab.training.context import TrainingContext
from zerolab.training.records import Record, SelfPlayRecord
from zerolab.training.stages.interface import Stage
from zerolab.training.warm_start.settings import warm_start_search, warm_start_weight


class SelfPlay(Stage):
    """Plays the games of an iteration and saves their examples."""

    name = "selfplay"

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        settings, progress = context.settings, context.progress
        weight = warm_start_weight(settings.warm_start, progress)
        seconds = context.begin("self-play", settings.selfplay.episodes, "games")
        episodes = play_episodes(
            context.game, settings.selfplay,
            warm_start_search(settings.search, settings.warm_start, weight),
            context.evaluator(progress.best), settings.seed, progress.iteration,
            _reporting(context), name=context.network_agent(progress.best).name,
        )  # fmt: skip
        _save(context, episodes)
        plies = len(episodes.examples.plies)
        fields = {
            "iteration": context.iteration,
            "wall_seconds": seconds(),
            "games": len(episodes.games),
            "distinct_games": len({game.actions for game in episodes.games}),
            "positions": plies,
            "plies_per_game": plies / len(episodes.games),
            "warm_start_weight": weight if settings.warm_start.is_on else None,
            **episodes.counts,
            **{f"wall_{part}_seconds": spent for part, spent in episodes.seconds.items()},
        }
        return [SelfPlayRecord.model_validate(fields)]


def _reporting(context: TrainingContext) -> Callable[[SelfPlayProgress], None]:
    began = perf_counter()

    def report(progress: SelfPlayProgress) -> None:
        rate = progress.plies / max(perf_counter() - began, 1e-9)
        context.reporter.progress(progress.games, f"{rate:,.0f} positions/s")

    return report


def _save(context: TrainingContext, episodes: Episodes) -> None:
    context.run.save_examples(context.progress.iteration, episodes.examples)
    context.save_games(SelfPlay.name, episodes.games)
    context.add_to_window(episodes.examples)
    context.update(positions=context.window.total)
