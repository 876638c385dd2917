"""Games of a league, played at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.core.threads import available_cores
from zerolab.league.player import LeaguePlayer, Seating
from zerolab.league.players import Players
from zerolab.league.settings import LeagueSettings
from zerolab.play.schedule import ScheduledGame
from zerolab.play.selfplay import (
    Episodes,
    SelfPlayer,
    SelfPlayProgress,
    play_batches,
    with_outcomes,
)
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.store.games import GameRecord

_LEAGUE = "league"
_PLAYER = "player"


def play_games(
    game: Game,
    settings: LeagueSettings,
    evaluator: Evaluator,
    players: Players,
    met: NDArray[np.int64],
    begin: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    iteration: int = 0,
) -> Episodes:
    """Play the games of numbers `begin` and following between the players int64[games, 2] `met`.

    A game depends on the seed, the iteration, its number and its players' parameters alone. Its
    moves become examples as in self-play: those of both players, random ones excepted. Raises
    UserError where the evaluator lacks what the searches need.
    """
    self_play = SelfPlaySettings(
        sampled_plies=settings.sampled_plies, parallel_games=settings.parallel_games,
        threads=settings.threads,
    )  # fmt: skip
    if "threshold" in settings.parameters:
        self_play = self_play.model_copy(update={"budget": settings.clock})
    seating = Seating(begin, players.values[met])
    threads = min(settings.threads, len(met))
    numbers = range(begin, begin + len(met))
    batches = [
        [ScheduledGame(number, _LEAGUE, _LEAGUE, number) for number in numbers[thread::threads]]
        for thread in range(threads)
    ]
    cores = max(1, available_cores() // settings.threads)

    def new_player() -> SelfPlayer:
        return LeaguePlayer(game, settings, self_play, evaluator, cores, seating)

    played = play_batches(
        game, self_play, settings.search, evaluator, settings.seed, iteration, batches,
        max(1, settings.parallel_games // settings.threads), _LEAGUE, report, new_player,
    )  # fmt: skip
    games = _named(played.games, met, begin)
    return played._replace(examples=with_outcomes(played.examples, games), games=games)


def _named(games: Sequence[GameRecord], met: NDArray[np.int64], begin: int) -> list[GameRecord]:
    """Return games with the names of those who played them."""
    named = []
    for game in games:
        first, second = (player_name(number) for number in met[game.number - begin].tolist())
        named.append(game._replace(first=first, second=second))
    return named


def player_name(number: int) -> str:
    """Return the name of the player with a number, as records have it."""
    return f"{_PLAYER} {number}"


def player_number(name: str) -> int:
    """Return the number of the player with a name; raise ValueError if it is none."""
    return int(name.removeprefix(f"{_PLAYER} "))
