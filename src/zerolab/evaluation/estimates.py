"""Means over positions, with 95 % intervals that account for correlation within games.

Positions of one game are similar, so they provide less information than positions from different
games. With one position per game, a proportion has Wilson's interval [Wilson1927] and a mean has
the normal interval. Otherwise, the standard error is bootstrapped by resampling whole games
[Efron1979].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.report.table import Z95, Interval, wilson_interval

RESAMPLES = 1000
"""Bootstrap samples per interval; with this number, the interval length varies by about 2 %."""

_DRAWS_PER_BATCH = 1 << 22  # 32 MB
_SEED = 0  # a fixed seed gives equal data equal intervals


class MeanEstimate(NamedTuple):
    """Mean or proportion with its 95 % interval."""

    interval: Interval
    sample_count: int
    """Number of positions, games or moves."""

    def as_dict(self) -> dict[str, float]:
        """Return the fields for JSON."""
        mean, low, high = self.interval
        return {"mean": mean, "low": low, "high": high, "samples": self.sample_count}


def proportion_estimate(hits: NDArray[Any], game_numbers: NDArray[np.int64]) -> MeanEstimate | None:
    """Return the mean of `hits`, [n], each 0 or 1; None without positions.

    `game_numbers` is int64[n]. The Wilson interval uses the number of independent trials that has
    the same standard error.
    """
    if not len(hits):
        return None
    rate = float(np.mean(hits))
    return MeanEstimate(
        wilson_interval(rate, _independent_trials(rate, hits, game_numbers)), len(hits)
    )


def _independent_trials(rate: float, hits: NDArray[Any], game_numbers: NDArray[np.int64]) -> float:
    """Return n with rate (1 - rate) / n equal to the squared standard error."""
    distinct_games = len(np.unique(game_numbers))
    if distinct_games == len(hits):
        return len(hits)
    if distinct_games == 1 or rate in (0.0, 1.0):  # all bootstrap samples would be equal
        return distinct_games
    variance = bootstrap_standard_error(hits.astype(np.float64), game_numbers) ** 2
    return min(len(hits), rate * (1.0 - rate) / variance) if variance else len(hits)


def mean_estimate(
    numbers: NDArray[np.float64], game_numbers: NDArray[np.int64]
) -> MeanEstimate | None:
    """Return the mean of the numbers, [n], that are not NaN, with a normal interval.

    `game_numbers` is int64[n]. Returns None for numbers from fewer than two games, which have no
    standard error.
    """
    known = ~np.isnan(numbers)
    numbers, game_numbers = numbers[known], game_numbers[known]
    distinct_games = len(np.unique(game_numbers))
    if distinct_games < 2:
        return None
    mean = float(numbers.mean())
    if distinct_games == len(numbers):
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    else:
        error = bootstrap_standard_error(numbers, game_numbers)
    return MeanEstimate(Interval(mean, mean - Z95 * error, mean + Z95 * error), len(numbers))


def exact_estimate(numbers: NDArray[Any]) -> MeanEstimate | None:
    """Return the mean of exact numbers with an interval of length 0; None without numbers."""
    if not len(numbers):
        return None
    mean = float(numbers.mean())
    return MeanEstimate(Interval(mean, mean, mean), len(numbers))


def bootstrap_standard_error(
    numbers: NDArray[np.float64], game_numbers: NDArray[np.int64]
) -> float:
    """Return the standard error of the mean of numbers, [n], from at least two games.

    `game_numbers` is int64[n]. All G games are resampled with replacement RESAMPLES times. The mean
    of a sample is the sum over the sampled games divided by their number of positions. The variance
    of these means is multiplied by G / (G - 1) to remove its bias.
    """
    _, indices = np.unique(game_numbers, return_inverse=True)
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
