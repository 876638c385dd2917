"""A match between two players, all games in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.arena.players import Player
from zerolab.core import streams
from zerolab.ratings.elo import Score
from zerolab.rules import calls
from zerolab.rules.interface import DRAW, ONGOING, WIN, Game


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
    a: Player,
    b: Player,
    games: int,
    seed: int,
    iteration: int = 0,
    report: Callable[[int], None] = lambda _: None,
) -> Match:
    """Play `games` games, A first in those with even numbers.

    The random streams depend on (seed, iteration, game number, ply) alone. Both players think at
    the same time, each about the games in which it is to move. `report` is told after every ply
    how many games are over.
    """
    board = _Board(game, games)
    for player in (a, b):
        player.start(games)
    with ThreadPoolExecutor(2, thread_name_prefix="arena") as pool:
        while board.running.size:
            slots = board.running
            a_to_move = (slots + board.ply) % 2 == 0
            sides = slots[a_to_move], slots[~a_to_move]
            thinking = [
                pool.submit(_choose, player, board, side, seed, iteration)
                for player, side in zip((a, b), sides, strict=True)
            ]
            actions = np.zeros(games, np.int64)
            for side, thought in zip(sides, thinking, strict=True):
                actions[side] = thought.result()
            for player in (a, b):
                player.advance(slots, actions[slots])
            board.play(slots, actions[slots])
            report(games - len(board.running))
    return board.match(a.name, b.name)


def _choose(
    player: Player, board: _Board, slots: NDArray[np.int64], seed: int, iteration: int
) -> NDArray[np.int64]:
    if not slots.size:
        return np.empty(0, np.int64)
    plies = np.full(len(slots), board.ply)
    keys = streams.streams(seed, iteration, slots, plies, streams.ARENA_MOVE)
    return player.choose(slots, board.states[slots], keys)


class _Board:
    """The positions of all games of a match, which are all at the same ply."""

    def __init__(self, game: Game, games: int) -> None:
        self.game = game
        self.ply = 0
        self.states = np.repeat(calls.start_state(game)[None], games, axis=0)
        self.running = np.arange(games)
        self._actions: list[list[int]] = [[] for _ in range(games)]
        self._results = np.zeros(games, np.int64)

    def play(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Play one action in every running game."""
        outcomes = calls.play_all(self.game, self.states, slots, actions)
        self.ply += 1
        for slot, action in zip(slots, actions, strict=True):
            self._actions[slot].append(int(action))
        over = outcomes != ONGOING
        sign = 1 if self.ply % 2 == 0 else -1
        self._results[slots[over]] = sign * outcomes[over]
        self.running = slots[~over]

    def match(self, a: str, b: str) -> Match:
        """Return the finished match, A having been first in the games with even numbers."""
        games = [
            PlayedGame(n, *((a, b) if n % 2 == 0 else (b, a)), tuple(actions), int(result))
            for n, (actions, result) in enumerate(zip(self._actions, self._results, strict=True))
        ]
        for_a = [played.result if played.number % 2 == 0 else -played.result for played in games]
        wins, draws = for_a.count(WIN), for_a.count(DRAW)
        return Match(Score(wins, draws, len(games) - wins - draws), games)
