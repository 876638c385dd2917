"""Self-play between the players of a league, who persist from iteration to iteration.

The league is not saved: it is a function of the settings and of the games that the run has stored,
so that a run which is resumed has the same players.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zerolab.core.config import validate
from zerolab.league.league import LeagueState
from zerolab.league.players import first_players, pairs
from zerolab.league.playing import play_games, player_number
from zerolab.league.settings import Evolution, LeagueSettings
from zerolab.play.selfplay import Episodes, SelfPlayProgress, merge_episodes
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.store.checks import damaged
from zerolab.store.games import GameRecord, GameStore

if TYPE_CHECKING:
    from zerolab.training.settings import TrainSettings


class LeagueEpisodes(NamedTuple):
    """The games of an iteration, and the generation that played the last of them."""

    episodes: Episodes
    generation: int


def league_settings(settings: TrainSettings, evolution: Evolution) -> LeagueSettings:
    """Return the settings of a run's league; raise UserError where they do not fit each other."""
    play = settings.selfplay
    return validate(
        LeagueSettings,
        {
            **evolution.model_dump(), "game": settings.game, "seed": settings.seed,
            "search": settings.search.model_dump(), "sampled_plies": play.sampled_plies,
            "parallel_games": play.parallel_games, "threads": play.threads,
            "batch": evolution.generation,
        },
    )  # fmt: skip


def check_league(settings: TrainSettings, evolution: Evolution) -> None:
    """Raise UserError or ValueError where a run cannot be a league."""
    play = settings.selfplay
    for key, found, expected in (
        ("league.fitness", evolution.fitness, "results"),
        ("selfplay.schedule", play.schedule.name, "episodes"),
        ("selfplay.budget", play.budget.name, "fixed"),
        ("selfplay.random_plies", play.random_plies, 0),
        ("warm_start.variant", settings.warm_start.variant, "baseline"),
    ):
        if found != expected:
            raise ValueError(
                f"{key} = {found} does not go with self-play in a league: expected {expected}"
            )
    chosen = league_settings(settings, evolution)
    if "draws" in chosen.wanted and not any(
        "draws" in head.answers for head in settings.network.heads
    ):
        raise ValueError(
            "league.parameters = draw_value: no head of the network says how likely draws are;"
            ' expected the head "outcome"'
        )


def play_league(
    settings: TrainSettings,
    evolution: Evolution,
    game: Game,
    evaluator: Evaluator,
    store: GameStore,
    iteration: int,
    report: Callable[[SelfPlayProgress], None],
) -> LeagueEpisodes:
    """Play the games of an iteration after those of `store`, the run's; see `play_games`."""
    chosen = league_settings(settings, evolution)
    state = league_after(store, chosen, iteration)
    generation = state.players.generation
    end = state.played + settings.selfplay.episodes
    parts: list[Episodes] = []
    begin = 0
    while numbers := state.next_games(chosen, end):
        generation = state.players.generation
        met = pairs(state.players, chosen, numbers)
        plies = sum(part.moves for part in parts)

        def progress(done: SelfPlayProgress, begin: int = begin, plies: int = plies) -> None:
            report(SelfPlayProgress(begin + done.games, plies + done.plies))

        parts.append(
            play_games(
                game, chosen, evaluator, state.players, met, begin, progress, iteration=iteration
            )
        )
        state.rate(chosen, met, _results(parts[-1].games))
        begin += len(numbers)
    return LeagueEpisodes(merge_episodes(parts), generation)


def league_after(store: GameStore, settings: LeagueSettings, iteration: int) -> LeagueState:
    """Return the league as the games before an iteration have left it.

    Raises UserError if they are not those that its players had to play.
    """
    state = LeagueState(first_players(settings))
    for former in range(1, iteration):
        games = store.games(former, "selfplay")
        while games and (numbers := state.next_games(settings, state.played + len(games))):
            part, games = games[: len(numbers)], games[len(numbers) :]
            met = pairs(state.players, settings, numbers)
            try:
                found = [[player_number(name) for name in game[1:3]] for game in part]
            except ValueError as error:
                raise damaged(store.path, error) from None
            if found != met.tolist():
                raise damaged(store.path, f"games of iteration {former} are of another league")
            state.rate(settings, met, _results(part))
    return state


def _results(games: Sequence[GameRecord]) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.array([game.result for game in games], np.int8)
