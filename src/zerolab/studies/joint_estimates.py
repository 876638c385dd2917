"""Estimates of what several groups of runs decide together: extremes, ranges, spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from zerolab.studies.statistics import LEVEL, StudentEstimate


class SmallestEstimate(NamedTuple):
    """The smallest of several true numbers, from an estimate of each; see `smallest`.

    That it lies above a threshold means that every number does: the intersection-union test takes
    the largest of their one-sided p-values as it is [Berger1982]. That it lies below means that
    some number does: the smallest p-value counts, times how many there are, which is Holm's first
    step [Holm1979]. Neither needs independent estimates. The two-sided p-value is twice the lesser
    one, and the interval consists of the thresholds that it does not reject.

    The smallest of noisy numbers is on average below the smallest true one, so the value is
    biased downwards; test and interval are not, as they look at every number by itself.
    """

    estimates: tuple[StudentEstimate, ...]

    @property
    def value(self) -> float:
        """The smallest estimate."""
        return min(each.value for each in self.estimates)

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval: the lowest of all their lower ends."""
        return min(each.low for each in self.estimates)

    @property
    def high(self) -> float:
        """The upper end: the lowest upper end of intervals widened for their number."""
        level = LEVEL / len(self.estimates)
        return min(each.value + each.margin(level) for each in self.estimates)

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value that the smallest number is the threshold."""
        above = max(_one_sided(each, threshold, 1.0) for each in self.estimates)
        below = min(_one_sided(each, threshold, -1.0) for each in self.estimates)
        return min(1.0, 2.0 * min(above, len(self.estimates) * below))


def smallest(estimates: Sequence[StudentEstimate]) -> SmallestEstimate:
    """Return the estimate of the smallest of some numbers; raise ValueError for none."""
    if not estimates:
        raise ValueError("the smallest of no numbers")
    return SmallestEstimate(tuple(estimates))


class LargestEstimate(NamedTuple):
    """The largest of several true numbers: that of `SmallestEstimate` with all signs turned."""

    turned: SmallestEstimate

    @property
    def value(self) -> float:
        """The largest estimate."""
        return -self.turned.value

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return -self.turned.high

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return -self.turned.low

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value that the largest number is the threshold."""
        return self.turned.p_value(-threshold)


def largest(estimates: Sequence[StudentEstimate]) -> LargestEstimate:
    """Return the estimate of the largest of some numbers; raise ValueError for none."""
    return LargestEstimate(smallest([each._replace(value=-each.value) for each in estimates]))


def _one_sided(estimate: StudentEstimate, threshold: float, sign: float) -> float:
    """Return the p-value that the number is above the threshold (`sign` 1) or below (-1)."""
    half = estimate.p_value(threshold) / 2.0
    return half if sign * (estimate.value - threshold) > 0.0 else 1.0 - half


class RangeEstimate(NamedTuple):
    """The largest of several true means less the smallest, from the means of groups of runs.

    The spread between runs of one group is the same in all groups, and known from `freedom`
    degrees of freedom. The interval is that of [Tukey1949]: no difference between two true means
    is farther from the measured one than its half length. So it holds the true range in at least
    95 % of cases, and leaves out 0 exactly where the test of equal means has p < 0.05.
    """

    value: float
    error: float
    """The standard error of a mean; infinite where the spread is unknown."""
    groups: int
    freedom: int

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval, at least 0."""
        return max(0.0, self.value - self._half()) if self.freedom else -math.inf

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + self._half()

    @property
    def by_chance(self) -> float | None:
        """The range to expect of two or three equal means; None where the spread is unknown.

        The range of n numbers of a normal sample is n / sqrt(pi) standard deviations on average,
        which is exact for no other n.
        """
        return self.groups / math.sqrt(math.pi) * self.error if self.freedom else None

    def _half(self) -> float:
        if not self.freedom or not self.error:
            return self.error
        return _range_quantile(self.groups, self.freedom) * self.error

    def p_value(self, threshold: float) -> float:
        """Return the p-value that the range is the threshold; 0 says that all means are equal."""
        distance = abs(self.value - threshold)
        if not self.freedom or not distance:
            return 1.0
        if not self.error:
            return math.exp2(-self.freedom)
        from scipy.stats import studentized_range  # noqa: PLC0415  slow to import

        return float(studentized_range.sf(distance / self.error, self.groups, self.freedom))


def contrast(
    terms: Sequence[tuple[float, Sequence[float]]], alike: Sequence[Sequence[float]]
) -> StudentEstimate:
    """Return the sum of the means of groups of runs, each times its weight.

    The spread between runs is pooled over the groups `alike`, which spread as much. Raises
    ValueError for an empty group.
    """
    if not all(len(group) for _, group in terms):
        raise ValueError("a contrast of groups without runs")
    squares, freedom = _squares(alike)
    parts = sum(weight**2 / len(group) for weight, group in terms)
    error = math.sqrt(squares / freedom * parts) if freedom else math.inf
    value = sum(weight * float(np.mean(group)) for weight, group in terms)
    return StudentEstimate(value, error, freedom)


def range_of_means(
    groups: Sequence[Sequence[float]], alike: Sequence[Sequence[float]]
) -> RangeEstimate:
    """Return how far the means of some groups of runs lie apart.

    The spread between runs is pooled over the groups `alike`, which spread as much. Groups of
    different sizes count with the mean of their variances, as in [Kramer1956]. Raises ValueError
    for an empty group.
    """
    if not groups or not all(len(group) for group in groups):
        raise ValueError("a range of groups without runs")
    means = [float(np.mean(group)) for group in groups]
    squares, freedom = _squares(alike)
    variance = squares / freedom if freedom else math.inf
    error = math.sqrt(variance * float(np.mean([1 / len(group) for group in groups])))
    return RangeEstimate(max(means) - min(means), error, len(groups), freedom)


@cache
def _range_quantile(groups: int, freedom: int) -> float:
    from scipy.stats import studentized_range  # noqa: PLC0415  slow to import

    return float(studentized_range.ppf(1 - LEVEL, groups, freedom))


class SpreadRatio(NamedTuple):
    """A standard deviation divided by another one, whose squares are those of normal samples.

    Interval and p-value are those of the F-test. It trusts in normal numbers more than tests of
    means do.
    """

    value: float
    freedom: int
    """Degrees of freedom of the dividend."""
    other_freedom: int
    """Degrees of freedom of the divisor."""

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value / math.sqrt(_f_quantile(self.freedom, self.other_freedom))

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value * math.sqrt(_f_quantile(self.other_freedom, self.freedom))

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value; thresholds are above 0.

        Equal numbers, whose spread is 0, are worth a sign test, as in `statistics`.
        """
        if self.value == 0.0:
            return math.exp2(-self.freedom)
        from scipy.special import fdtr, fdtrc  # noqa: PLC0415  slow to import

        found = (self.value / threshold) ** 2
        below = float(fdtr(self.freedom, self.other_freedom, found))
        above = float(fdtrc(self.freedom, self.other_freedom, found))
        return min(1.0, 2.0 * min(below, above))


def spread_ratio(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> SpreadRatio | None:
    """Return how widely numbers vary within the groups of one, divided by that of other.

    Variances are pooled over groups. None where no group has two numbers, or other does not vary.
    """
    (squares, freedom), (other_squares, other_freedom) = _squares(one), _squares(other)
    if not freedom or not other_squares:
        return None
    ratio = (squares / freedom) / (other_squares / other_freedom)
    return SpreadRatio(math.sqrt(ratio), freedom, other_freedom)


def _squares(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the sum of squared distances from the means of groups, and its degrees of freedom."""
    known = [np.asarray(group, np.float64) for group in groups if len(group)]
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in known)
    return squares, sum(len(group) - 1 for group in known)


def _f_quantile(freedom: int, other_freedom: int) -> float:
    from scipy.special import fdtri  # noqa: PLC0415  slow to import

    return float(fdtri(freedom, other_freedom, 1 - LEVEL / 2))
