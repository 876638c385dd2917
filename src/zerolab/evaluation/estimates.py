"""Means over positions, with 95 % intervals that account for correlation within games.

Positions of a game are similar, so that they provide less information than positions from different
games. With one position per game, the intervals are the usual ones: Wilson's for a proportion
[Wilson1927] and the normal interval for a mean. Otherwise the standard error is bootstrapped by
resampling whole games [Efron1979].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.report.interval import Z95, Interval, wilson

RESAMPLES = 1000
"""Bootstrap samples per interval; with this number the interval length varies by about 2 %."""

_DRAWS_PER_BATCH = 1 << 22  # 32 MB
_SEED = 0  # a fixed seed gives equal data equal intervals


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
    """Return the mean of hits [n], each 0 or 1, from games int64[n]; None without positions.

    The Wilson interval uses the number of independent trials with the same standard error.
    """
    if not len(hits):
        return None
    rate = float(np.mean(hits))
    return Estimate(wilson(rate, _independent_trials(rate, hits, games)), len(hits))


def _independent_trials(rate: float, hits: NDArray[Any], games: NDArray[np.int64]) -> float:
    """Return n with rate (1 - rate) / n equal to the squared standard error."""
    distinct_games = len(np.unique(games))
    if distinct_games == len(games):
        return len(games)
    if distinct_games == 1 or rate in (0.0, 1.0):  # all bootstrap samples would be equal
        return distinct_games
    variance = bootstrap_error(hits.astype(np.float64), games) ** 2
    return min(len(games), rate * (1.0 - rate) / variance) if variance else len(games)


def mean_estimate(numbers: NDArray[np.float64], games: NDArray[np.int64]) -> Estimate | None:
    """Return the mean of the numbers [n] that are not NaN, with a normal interval.

    Returns None for numbers from fewer than two games, which have no standard error.
    """
    known = ~np.isnan(numbers)
    numbers, games = numbers[known], games[known]
    distinct_games = len(np.unique(games))
    if distinct_games < 2:
        return None
    mean = float(numbers.mean())
    if distinct_games == len(games):
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    else:
        error = bootstrap_error(numbers, games)
    return Estimate(Interval(mean, mean - Z95 * error, mean + Z95 * error), len(numbers))


def exact_estimate(numbers: NDArray[Any]) -> Estimate | None:
    """Return the mean of exact numbers, with an interval of length 0; None without numbers."""
    if not len(numbers):
        return None
    mean = float(numbers.mean())
    return Estimate(Interval(mean, mean, mean), len(numbers))


def bootstrap_error(numbers: NDArray[np.float64], games: NDArray[np.int64]) -> float:
    """Return the standard error of the mean of numbers [n] from at least two games int64[n].

    All G games are resampled with replacement RESAMPLES times. The mean of a sample is the sum over
    its games divided by their number of positions. The variance of these means is multiplied by
    G / (G - 1) to remove its bias.
    """
    _, indices = np.unique(games, return_inverse=True)
    counts = np.bincount(indices).astype(np.float64)
    sums = np.bincount(indices, weights=numbers)
    total, random = len(counts), np.random.default_rng(_SEED)
    step = max(1, _DRAWS_PER_BATCH // total)
    means = []
    for begin in range(0, RESAMPLES, step):
        draws = random.integers(0, total, (min(step, RESAMPLES - begin), total))
        means.append(sums[draws].sum(axis=1) / counts[draws].sum(axis=1))
    deviation = float(np.concatenate(means).std(ddof=1))
    return deviation * math.sqrt(total / (total - 1))
