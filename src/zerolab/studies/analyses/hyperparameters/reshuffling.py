"""Whether some groups of runs differ at all: what chance alone makes of their means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

_MOST_SPLITS = 50_000  # for which all are looked at; three groups of 4 runs have 34,650
_DRAWS = 20_000


def reshuffling_test(groups: Sequence[Sequence[float]]) -> float:
    """Return how likely chance makes means differ as much: the p-value of a permutation test.

    The statistic is the largest mean less the smallest one. Exact for few runs; 1 where no split
    differs from another, such as with one run per group.
    """
    sizes = tuple(len(group) for group in groups)
    numbers = np.concatenate([np.asarray(group, np.float64) for group in groups])
    means = np.stack([weights @ numbers for weights in _splits(sizes)])  # [groups, splits]
    ranges = np.ptp(means, axis=0)
    slack = 1e-9 * max(1e-300, float(np.abs(numbers).max()))  # equal sums in another order
    return float((ranges >= ranges[0] - slack).mean())


@cache
def _splits(sizes: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """Return per group the weights of runs in its mean, [splits, runs]; the first split is given.

    Without it among random ones, p could be 0.
    """
    runs = sum(sizes)
    ways = math.factorial(runs) // math.prod(math.factorial(size) for size in sizes)
    if ways <= _MOST_SPLITS:
        labels = np.array(list(_labels(tuple(range(runs)), sizes)))
    else:
        given = np.repeat(np.arange(len(sizes)), sizes)
        random = np.random.default_rng(0)
        labels = np.stack([given, *(random.permutation(given) for _ in range(_DRAWS))])
    return [(labels == group) / size for group, size in enumerate(sizes)]


def _labels(left: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield every way to give each run the number of its group; first the groups in order."""
    total = max(left) + 1 if left else 0
    for chosen in _groups(left, sizes):
        labels = [0] * total
        for group, members in enumerate(chosen):
            for run in members:
                labels[run] = group
        yield labels


def _groups(left: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    if not sizes:
        yield []
        return
    for members in combinations(left, sizes[0]):
        others = tuple(run for run in left if run not in members)
        yield from ([members, *rest] for rest in _groups(others, sizes[1:]))


def range_by_chance(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the largest difference to expect of means that differ by chance alone.

    From the spread within groups, which must be two or three: the range of n numbers of a normal
    sample is then n / sqrt(pi) standard deviations on average, which is exact for no other n. None
    where no group has two runs.
    """
    variances = [float(np.var(group, ddof=1)) for group in groups if len(group) > 1]
    weights = [len(group) - 1 for group in groups if len(group) > 1]
    if not weights:
        return None
    variance = float(np.average(variances, weights=weights))
    of_means = variance * float(np.mean([1 / len(group) for group in groups]))
    return len(groups) / math.sqrt(math.pi) * math.sqrt(of_means)
