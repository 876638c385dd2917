"""A match between two players: colours in turns, all games in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from zerolab.arena.lockstep import Finished, Fixture, Task
from zerolab.arena.openings import random_openings
from zerolab.arena.players import Entrant, Player
from zerolab.arena.workers import cores, lanes_for, play_batches
from zerolab.core import streams
from zerolab.ratings.elo import Score
from zerolab.rules.interface import DRAW, WIN, Game


class PlayedGame(NamedTuple):
    """One finished game of a match."""

    number: int
    first: str
    second: str
    actions: tuple[int, ...]
    result: int
    """The outcome for the first player: 1, 0 or -1."""


class Match(NamedTuple):
    """A finished match between player A and player B."""

    score: Score
    """From A's view."""
    games: list[PlayedGame]

    @property
    def distinct(self) -> int:
        """How many different games were played: without noise, play repeats itself."""
        return len({game.actions for game in self.games})


def play_match(
    game: Game,
    a: Entrant | Player,
    b: Entrant | Player,
    games: int,
    seed: int,
    iteration: int = 0,
    report: Callable[[int], None] = lambda _: None,
    *,
    openings: int = 0,
    begin: int = 0,
) -> Match:
    """Play the games `begin` to `begin + games - 1` of a match, A first in those of even number.

    Games 2j and 2j + 1 begin with the same `openings` random plies. The random streams depend on
    (seed, iteration, game number, ply) alone. Entrants play on all cores, and make players for
    each; a player that is given itself plays in one thread. `report` is told a few times a second
    how many games are over. Raises UserError where openings are longer than games.
    """
    entrants = [_entrant(each) for each in (a, b)]
    threads = cores() if isinstance(a, Entrant) and isinstance(b, Entrant) else 1
    task = Task(game, entrants, seed, iteration, lanes_for(entrants, threads))
    numbers = range(begin, begin + games)
    drawn = paired_openings(game, openings, seed, iteration, numbers)
    fixtures = [
        Fixture(number, number % 2, 1 - number % 2, number, opening)
        for number, opening in zip(numbers, drawn, strict=True)
    ]
    finished: list[Finished] = []

    def receive(more: list[Finished]) -> None:
        finished.extend(more)
        report(len(finished))

    shares = [
        [each for each in fixtures if each.number // 2 % threads == t] for t in range(threads)
    ]
    play_batches(task, shares, threads, receive)
    return _match([entrant.name for entrant in entrants], finished)


def paired_openings(
    game: Game, plies: int, seed: int, iteration: int, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return a random opening for each stream number; 2j and 2j + 1 have the same one."""
    pairs = np.array(numbers, np.int64) // 2
    keys = streams.streams(seed, iteration, pairs, np.zeros_like(pairs), streams.ARENA_OPENING)
    return [tuple(opening) for opening in random_openings(game, plies, keys).tolist()]


def _entrant(each: Entrant | Player) -> Entrant:
    return each if isinstance(each, Entrant) else Entrant(each.name, lambda: each)


def _match(names: Sequence[str], finished: Sequence[Finished]) -> Match:
    games = [
        PlayedGame(number, names[number % 2], names[1 - number % 2], actions, result)
        for number, actions, result in sorted(finished)
    ]
    for_a = [played.result if played.number % 2 == 0 else -played.result for played in games]
    wins, draws = for_a.count(WIN), for_a.count(DRAW)
    return Match(Score(wins, draws, len(games) - wins - draws), games)
