"""Means over positions, with 95 % intervals that allow for positions from the same game.

Positions of one game are similar, so that they carry less information than as many games. With one
position per game, intervals are the usual ones: Wilson's for a proportion [Wilson1927], the normal
one for a mean. Otherwise the standard error is bootstrapped by drawing whole games [Efron1979].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.report.interval import Z95, Interval, wilson

RESAMPLES = 1000
"""Bootstrap samples of an interval; its length then varies by about 2 %."""

_AT_ONCE = 1 << 22  # games drawn at once, 32 MB
_SEED = 0  # the same positions and moves always have the same interval


class Estimate(NamedTuple):
    """A mean with its 95 % interval."""

    interval: Interval
    samples: int
    """The number of positions, games or moves."""

    def as_dict(self) -> dict[str, float]:
        """Return the fields for JSON."""
        mean, low, high = self.interval
        return {"mean": mean, "low": low, "high": high, "samples": self.samples}


def proportion_estimate(hits: NDArray[Any], games: NDArray[np.int64]) -> Estimate | None:
    """Return the mean of hits [n], each 0 or 1, from games int64[n].

    The interval is Wilson's, with the number of independent trials that would have the same
    standard error. None without positions.
    """
    if not len(hits):
        return None
    rate = float(np.mean(hits))
    return Estimate(wilson(rate, _independent_trials(rate, hits, games)), len(hits))


def _independent_trials(rate: float, hits: NDArray[Any], games: NDArray[np.int64]) -> float:
    """Return n with rate (1 - rate) / n equal to the squared standard error."""
    different = len(np.unique(games))
    if different == len(games):
        return len(games)
    if different == 1 or rate in (0.0, 1.0):  # nothing varies, so the bootstrap knows no error
        return different
    variance = bootstrap_error(hits.astype(np.float64), games) ** 2
    return min(len(games), rate * (1.0 - rate) / variance) if variance else len(games)


def mean_estimate(numbers: NDArray[np.float64], games: NDArray[np.int64]) -> Estimate | None:
    """Return the mean of the numbers [n] that are not NaN, with a normal interval.

    None for numbers from fewer than two games, whose spread is unknown.
    """
    known = ~np.isnan(numbers)
    numbers, games = numbers[known], games[known]
    different = len(np.unique(games))
    if different < 2:
        return None
    mean = float(numbers.mean())
    if different == len(games):
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    else:
        error = bootstrap_error(numbers, games)
    return Estimate(Interval(mean, mean - Z95 * error, mean + Z95 * error), len(numbers))


def exact_estimate(numbers: NDArray[Any]) -> Estimate | None:
    """Return the mean of numbers without error; None without numbers."""
    if not len(numbers):
        return None
    mean = float(numbers.mean())
    return Estimate(Interval(mean, mean, mean), len(numbers))


def bootstrap_error(numbers: NDArray[np.float64], games: NDArray[np.int64]) -> float:
    """Return the standard error of the mean of numbers [n] from at least two games int64[n].

    G games, as many as there are, are drawn with replacement, RESAMPLES times; the mean of a sample
    is the sum over its games divided by their number of positions. The variance of these means is
    multiplied by G / (G - 1), like that of any sample.
    """
    _, which = np.unique(games, return_inverse=True)
    counts = np.bincount(which).astype(np.float64)
    sums = np.bincount(which, weights=numbers)
    total, random = len(counts), np.random.default_rng(_SEED)
    step = max(1, _AT_ONCE // total)
    means = []
    for begin in range(0, RESAMPLES, step):
        drawn = random.integers(0, total, (min(step, RESAMPLES - begin), total))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    spread = float(np.concatenate(means).std(ddof=1))
    return spread * math.sqrt(total / (total - 1))
