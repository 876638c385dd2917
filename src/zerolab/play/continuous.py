"""Self-play whose games outlive iterations, in lanes that are never without a game.

Lane l of L plays the games l, l + L, l + 2 L and so on, one after the other, and in every iteration
equally many plies. So the number of a game is unique in its run, and tells its random streams
whatever iterations it happens to be played in; and no lane waits for another one's long game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.play.schedule import ScheduledGame
from zerolab.play.selfplay import (
    Episodes,
    SelfPlayProgress,
    in_order,
    play_batches,
    with_outcomes,
)
from zerolab.play.selfplay_settings import Continuous, SelfPlaySettings
from zerolab.rules.interface import ONGOING, Game
from zerolab.search.interface import Evaluator
from zerolab.search.settings import SearchSettings
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord
from zerolab.store.unfinished import Unfinished

_ALL_ITERATIONS = 0
"""What streams are keyed by in place of an iteration; episodes have iterations from 1."""


def play_on(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    former: Unfinished | None,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
) -> Episodes:
    """Play an iteration of continuous self-play; `former` is what the one before left unfinished.

    Returns the games that have ended, with all of their examples, and those that go on. A game
    depends on the seed, its number, and the networks and searches of the iterations in which it is
    played; see `play_episodes` for the rest.
    """
    assert isinstance(settings.schedule, Continuous)
    lanes = settings.parallel_games
    begun = former.games if former else [_unplayed(lane, name) for lane in range(lanes)]
    threads = min(settings.threads, lanes)
    waiting = [_continued(each, name, settings.schedule.plies, lanes) for each in begun]
    played = play_batches(
        game, settings, search, evaluator, seed, _ALL_ITERATIONS,
        [waiting[thread::threads] for thread in range(threads)], -(-lanes // threads), name, report,
    )  # fmt: skip
    known = {each.number: each for each in begun}
    games = [_with_movers(each, known.get(each.number)) for each in played.games]
    moves = in_order([former.moves, played.examples]) if former else played.examples
    finished = [each for each in games if each.result != ONGOING]
    over = np.isin(moves.games, [each.number for each in finished])
    examples = with_outcomes(_rows(moves, over), finished)
    unfinished = Unfinished(_going_on(games, lanes, name), _rows(moves, ~over))
    return played._replace(examples=examples, games=finished, unfinished=unfinished)


def _unplayed(number: int, name: str) -> GameRecord:
    return GameRecord(number, name, name, (), 0)


def _continued(game: GameRecord, name: str, plies: int, lanes: int) -> ScheduledGame:
    """Return a game as it goes on: what was played before is its opening."""
    return ScheduledGame(game.number, name, name, game.number, game.actions, plies, lanes)


def _with_movers(game: GameRecord, begun: GameRecord | None) -> GameRecord:
    """Return a game with who made its moves: those of `begun`, then its own players."""
    if begun is None or not begun.actions:
        return game
    if begun.last_mover == game.first:
        return game._replace(movers=begun.movers)
    former = begun.movers or ((0, begun.first),)
    return game._replace(movers=(*former, (len(begun.actions), game.first)))


def _going_on(games: Sequence[GameRecord], lanes: int, name: str) -> tuple[GameRecord, ...]:
    """Return the game of every lane after some have been played, by number."""
    latest = {game.number % lanes: game for game in sorted(games)}
    return tuple(
        sorted(
            game._replace(result=0)
            if game.result == ONGOING
            else _unplayed(game.number + lanes, name)
            for game in latest.values()
        )
    )


def _rows(moves: Examples, chosen: NDArray[np.bool_]) -> Examples:
    columns: list[NDArray[Any]] = [column[chosen] for column in moves]
    return Examples(*columns)
