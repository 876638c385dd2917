"""Self-play: the best network plays against itself and leaves one example per move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import torch

from zerolab.play.selfplay import Episodes, Progress, play_episodes
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord
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
        torch.set_num_threads(1)
        episodes = play_episodes(
            context.game, settings.selfplay,
            warm_start_search(settings.search, settings.warm_start, weight),
            context.evaluator(progress.best), settings.seed, progress.iteration,
            _reporting(context),
        )  # fmt: skip
        games = _games(episodes, context.network_agent(progress.best).name)
        _save(context, episodes, games)
        plies = len(episodes.plies.values)
        fields = {
            "iteration": context.iteration,
            "wall_seconds": seconds(),
            "games": len(games),
            "distinct_games": len({game.actions for game in games}),
            "positions": plies,
            "plies_per_game": plies / len(games),
            "warm_start_weight": weight if settings.warm_start.is_on else None,
            **episodes.counts,
            **{f"wall_{part}_seconds": spent for part, spent in episodes.seconds.items()},
        }
        return [SelfPlayRecord.model_validate(fields)]


def _reporting(context: TrainingContext) -> Callable[[Progress], None]:
    began = perf_counter()

    def report(progress: Progress) -> None:
        rate = progress.plies / max(perf_counter() - began, 1e-9)
        context.reporter.progress(progress.games, f"{rate:,.0f} positions/s")

    return report


def _save(context: TrainingContext, episodes: Episodes, games: Sequence[GameRecord]) -> None:
    plies = episodes.plies
    examples = Examples(plies.states, plies.policies, plies.values, plies.games, plies.plies)
    context.run.save_examples(context.progress.iteration, examples)
    context.save_games(SelfPlay.name, games)
    context.add_to_window(examples)


def _games(episodes: Episodes, name: str) -> list[GameRecord]:
    """Return the games of an iteration; its moves are ordered by game and ply."""
    plies = episodes.plies
    ends = np.flatnonzero(np.diff(plies.games, append=-1)) + 1
    games = []
    for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        actions = tuple(plies.actions[begin:end].tolist())
        games.append(GameRecord(number, name, name, actions, int(plies.values[begin])))
    return games
