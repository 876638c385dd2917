"""Results of games, and how often each player met each other with which outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError

Counts = NDArray[np.int64]


class Result(NamedTuple):
    """How one game ended."""

    first: str
    """Who moved first."""
    second: str
    outcome: int
    """1, 0 or -1 for the player who moved first."""


class Tally(NamedTuple):
    """Results counted by ordered pair: entry [i, j] is about games in which i moved first."""

    players: tuple[str, ...]
    wins: Counts
    """int64[n, n]: games that the first player won."""
    draws: Counts
    """int64[n, n]"""
    losses: Counts
    """int64[n, n]: games that the first player lost."""

    @property
    def meetings(self) -> Counts:
        """int64[n, n], symmetric: games between two players, whoever moved first."""
        played = self.wins + self.draws + self.losses
        return played + played.T


def tally(results: Iterable[Result]) -> Tally:
    """Count results; players stand in alphabetical order.

    Games of a player against itself say nothing about strengths and are left out. Raises
    ValueError for an outcome other than 1, 0 and -1.
    """
    games = [result for result in results if result.first != result.second]
    players = tuple(sorted({name for game in games for name in game[:2]}))
    number = {name: i for i, name in enumerate(players)}
    pairs = np.array([(number[g.first], number[g.second]) for g in games], np.int64).reshape(-1, 2)
    outcomes = np.array([game.outcome for game in games], np.int64)
    if not np.isin(outcomes, (1, 0, -1)).all():
        raise ValueError("an outcome is 1, 0 or -1")
    wins, draws, losses = (_count(len(players), pairs[outcomes == each]) for each in (1, 0, -1))
    return Tally(players, wins, draws, losses)


def _count(players: int, pairs: NDArray[np.int64]) -> Counts:
    cells = np.bincount(pairs[:, 0] * players + pairs[:, 1], minlength=players * players)
    return cells.reshape(players, players).astype(np.int64)


def groups(counted: Tally) -> list[list[str]]:
    """Return the players in groups that games connect, the largest group first."""
    meetings = counted.meetings
    left = set(range(len(counted.players)))
    found: list[list[str]] = []
    while left:
        reached = frontier = {min(left)}
        while frontier:
            met = set(np.flatnonzero(meetings[sorted(frontier)].any(axis=0)).tolist())
            frontier = met - reached
            reached = reached | frontier
        left -= reached
        found.append([counted.players[i] for i in sorted(reached)])
    return sorted(found, key=len, reverse=True)


def require_comparable(counted: Tally) -> None:
    """Raise UserError unless the games compare at least two players, each with every other."""
    if not counted.players:
        raise UserError("no finished game between two players: expected at least one")
    separate = groups(counted)
    if len(separate) > 1:
        named = "; ".join(_named(group) for group in separate)
        raise UserError(
            f"the players are in {len(separate)} groups without a game between them, so they"
            f" cannot be compared: {named}"
        )


_NAMED = 5
"""Players of a group that an error names."""


def _named(group: list[str]) -> str:
    others = len(group) - _NAMED
    return ", ".join(group[:_NAMED]) + (f" and {others} more" if others > 0 else "")
