"""How good moves are, measured against the exact value of every move (FACTS 4).

A move is *strong* if no other has a higher value: a fastest win, a slowest loss, in Othello the
most discs. It is *weak* if it keeps the result that perfect play reaches: win, draw or loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import FORFEIT
from zerolab.evaluation.positions import Positions
from zerolab.ratings.score import Score

_Z = 1.96  # of a 95 % interval


class Estimate(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float
    positions: int
    """How many it is taken over."""


class Marks(NamedTuple):
    """How good a move is in each of n positions; for a player that draws lots, on average."""

    strong: NDArray[Any]
    """[n] 1 where the move is a strongest one."""
    weak: NDArray[Any]
    """[n] 1 where the move keeps the result."""
    lost: NDArray[Any]
    """[n] the value of the best move less that of the move; NaN where the player gave up."""

    def take(self, rows: NDArray[np.bool_]) -> Marks:
        """Return the marks in some of the positions."""
        return Marks(*(each[rows] for each in self))


def mark(positions: Positions, actions: NDArray[np.int64]) -> Marks:
    """Return the marks of actions int64[n]; giving up is neither strong nor weak."""
    best = positions.best
    given_up = actions == FORFEIT
    values = positions.values[np.arange(len(actions)), np.where(given_up, 0, actions)]
    values = values.astype(np.float64)
    return Marks(
        (values == best) & ~given_up,
        (np.sign(values) == np.sign(best)) & ~given_up,
        np.where(given_up, np.nan, best - values),
    )


def expected_of_random(positions: Positions) -> Marks:
    """Return the exact expectation of the marks of a uniformly drawn legal move."""
    best, legal = positions.best[:, None], positions.legal
    values = np.where(legal, positions.values, 0)
    number = legal.sum(axis=1)
    return Marks(
        (legal & (values == best)).sum(axis=1) / number,
        (legal & (np.sign(values) == np.sign(best))).sum(axis=1) / number,
        (legal * (best - values)).sum(axis=1) / number,
    )


def gives_choice(positions: Positions) -> NDArray[np.bool_]:
    """Return which positions are not trivial, bool[n]: some legal move worsens the result.

    In all others, every lost position among them, every move is weak.
    """
    signs = np.sign(positions.values)
    worse = positions.legal & (signs < np.sign(positions.best)[:, None])
    return np.asarray(worse.any(axis=1))


def share(marks: NDArray[Any]) -> Estimate | None:
    """Return the share of ones among marks that are 0 or 1, with Wilson's interval."""
    if not len(marks):
        return None
    ones = int(marks.sum())
    score = Score(ones, 0, len(marks) - ones)
    return Estimate(score.score_rate, *score.interval(), len(marks))


def exact(numbers: NDArray[Any]) -> Estimate | None:
    """Return the mean of numbers that are known without any doubt."""
    if not len(numbers):
        return None
    mean = float(numbers.mean())
    return Estimate(mean, mean, mean, len(numbers))


def average(numbers: NDArray[Any]) -> Estimate | None:
    """Return the mean of the numbers that are not NaN, with the interval of a normal mean.

    None for less than two of them, which do not tell how far they scatter.
    """
    known = numbers[~np.isnan(numbers)]
    if len(known) < 2:
        return None
    mean = float(known.mean())
    margin = _Z * float(known.std(ddof=1)) / len(known) ** 0.5
    return Estimate(mean, mean - margin, mean + margin, len(known))
