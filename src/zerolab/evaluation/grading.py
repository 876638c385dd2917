"""How good moves are, measured against the exact value of every move [Clausen2021].

A move is *strong* if no other has a higher value: a fastest win, a slowest loss, in Othello the
most discs. It is *weak* if it keeps the result that perfect play reaches: win, draw or loss. Its
*regret* is the value of the best move minus its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import FORFEIT
from zerolab.evaluation.positions import Positions


class Grades(NamedTuple):
    """How good the moves in n positions are; of a random player, on average."""

    strong: NDArray[Any]
    """[n] bool, or float64 for averages: whether the move is a best one."""
    weak: NDArray[Any]
    """[n] bool or float64: whether the move keeps the result."""
    regret: NDArray[np.float64]
    """[n] float64: value of the best move minus value of the move; NaN where the player gave up."""
    games: NDArray[np.int64]
    """[n] int64: the number of the game that the position is from."""

    def take(self, rows: NDArray[np.bool_]) -> Grades:
        """Return the grades in some of the positions, bool[n]."""
        return Grades(self.strong[rows], self.weak[rows], self.regret[rows], self.games[rows])


def grade(positions: Positions, actions: NDArray[np.int64]) -> Grades:
    """Return the grades of actions int64[n]; giving up is neither strong nor weak."""
    best = positions.best
    given_up = actions == FORFEIT
    values = positions.values[np.arange(len(actions)), np.where(given_up, 0, actions)]
    values = values.astype(np.float64)
    return Grades(
        (values == best) & ~given_up,
        (np.sign(values) == np.sign(best)) & ~given_up,
        np.where(given_up, np.nan, best - values),
        positions.games,
    )


def expected_of_random(positions: Positions) -> Grades:
    """Return the exact expectation of the grades of uniformly random legal moves."""
    best, legal = positions.best[:, None], positions.legal
    values = np.where(legal, positions.values, 0)
    number = legal.sum(axis=1)
    return Grades(
        (legal & (values == best)).sum(axis=1) / number,
        (legal & (np.sign(values) == np.sign(best))).sum(axis=1) / number,
        (legal * (best - values)).sum(axis=1) / number,
        positions.games,
    )


def non_trivial(positions: Positions) -> NDArray[np.bool_]:
    """Return in which positions some legal move worsens the result, bool[n].

    In all others, every lost position among them, every move is weak.
    """
    signs = np.sign(positions.values)
    worse = positions.legal & (signs < np.sign(positions.best)[:, None])
    return np.asarray(worse.any(axis=1))
