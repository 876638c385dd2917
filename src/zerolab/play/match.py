"""A match between two players: colours in turns, all games in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from zerolab.agents.interface import Agent, Player
from zerolab.core import streams
from zerolab.core.threads import available_cores
from zerolab.play.engine import FinishedGame, ScheduledGame, Task
from zerolab.play.openings import random_openings
from zerolab.play.workers import lanes_for, play_batches
from zerolab.ratings.score import Score
from zerolab.rules.interface import DRAW, WIN, Game
from zerolab.store.games import GameRecord


class Match(NamedTuple):
    """A finished match between player A and player B."""

    score: Score
    """From A's view."""
    games: list[GameRecord]

    @property
    def distinct(self) -> int:
        """How many different games were played: without noise, play repeats itself."""
        return len({game.actions for game in self.games})


def play_match(
    game: Game,
    a: Agent | Player,
    b: Agent | Player,
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
    agents = [_agent(each) for each in (a, b)]
    threads = available_cores() if isinstance(a, Agent) and isinstance(b, Agent) else 1
    task = Task(game, agents, seed, iteration, lanes_for(agents, threads))
    numbers = range(begin, begin + games)
    drawn = paired_openings(game, openings, seed, iteration, numbers)
    schedule = [
        ScheduledGame(number, number % 2, 1 - number % 2, number, opening)
        for number, opening in zip(numbers, drawn, strict=True)
    ]
    finished: list[FinishedGame] = []

    def receive(more: list[FinishedGame]) -> None:
        finished.extend(more)
        report(len(finished))

    shares = [
        [each for each in schedule if each.number // 2 % threads == t] for t in range(threads)
    ]
    play_batches(task, shares, threads, receive)
    return _match([agent.name for agent in agents], finished)


def paired_openings(
    game: Game, plies: int, seed: int, iteration: int, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return a random opening for each stream number; 2j and 2j + 1 have the same one."""
    pairs = np.array(numbers, np.int64) // 2
    keys = streams.streams(seed, iteration, pairs, np.zeros_like(pairs), streams.ARENA_OPENING)
    return [tuple(opening) for opening in random_openings(game, plies, keys).tolist()]


def _agent(each: Agent | Player) -> Agent:
    return each if isinstance(each, Agent) else Agent(each.name, lambda: each)


def _match(names: Sequence[str], finished: Sequence[FinishedGame]) -> Match:
    games = [
        GameRecord(number, names[number % 2], names[1 - number % 2], actions, result)
        for number, actions, result in sorted(finished)
    ]
    for_a = [played.result if played.number % 2 == 0 else -played.result for played in games]
    wins, draws = for_a.count(WIN), for_a.count(DRAW)
    return Match(Score(wins, draws, len(games) - wins - draws), games)
