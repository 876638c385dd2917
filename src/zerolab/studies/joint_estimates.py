"""Estimates over several groups of runs: extremes, contrasts, ranges, ratios of spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from zerolab.report.interval import Interval
from zerolab.studies.statistics import LEVEL, StudentEstimate


class SmallestEstimate(NamedTuple):
    """Smallest of several true numbers, from an estimate of each; see `smallest`.

    It lies above a threshold if every number does: the intersection-union test takes the largest of
    their one-sided p-values, unadjusted [Berger1982]. It lies below if some number does: the
    smallest p-value counts, times the number of estimates, which is Holm's first step [Holm1979].
    Neither test needs independent estimates. The two-sided p-value is twice the smaller one, and
    the interval consists of the thresholds that it does not reject.

    The smallest of noisy numbers is on average below the smallest true one, so the value is biased
    downwards. Test and interval are not, since they consider each number by itself.
    """

    estimates: tuple[StudentEstimate, ...]

    @property
    def value(self) -> float:
        """The smallest estimate."""
        return min(each.value for each in self.estimates)

    @property
    def interval(self) -> Interval:
        """The smallest estimate with its 95 % interval.

        It extends from the lowest of the lower ends to the lowest of the upper ends of intervals
        widened for their number.
        """
        level = LEVEL / len(self.estimates)
        low = min(each.interval.low for each in self.estimates)
        return Interval(
            self.value, low, min(each.value + each.margin(level) for each in self.estimates)
        )

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the smallest is the threshold."""
        above = max(_one_sided(each, threshold, 1.0) for each in self.estimates)
        below = min(_one_sided(each, threshold, -1.0) for each in self.estimates)
        return min(1.0, 2.0 * min(above, len(self.estimates) * below))


def smallest(estimates: Sequence[StudentEstimate]) -> SmallestEstimate:
    """Return an estimate of the smallest of some numbers; raise ValueError without any."""
    if not estimates:
        raise ValueError("the smallest of no numbers")
    return SmallestEstimate(tuple(estimates))


class LargestEstimate(NamedTuple):
    """Largest of several true numbers: `SmallestEstimate` with all signs reversed."""

    negated: SmallestEstimate

    @property
    def value(self) -> float:
        """The largest estimate."""
        return -self.negated.value

    @property
    def interval(self) -> Interval:
        """The largest estimate with its 95 % interval."""
        value, low, high = self.negated.interval
        return Interval(-value, -high, -low)

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the largest is the threshold."""
        return self.negated.p_value(-threshold)


def largest(estimates: Sequence[StudentEstimate]) -> LargestEstimate:
    """Return an estimate of the largest of some numbers; raise ValueError without any."""
    return LargestEstimate(smallest([each._replace(value=-each.value) for each in estimates]))


def _one_sided(estimate: StudentEstimate, threshold: float, sign: float) -> float:
    """Return the one-sided p-value for a number above the threshold (`sign` 1) or below (-1)."""
    half = estimate.p_value(threshold) / 2.0
    return half if sign * (estimate.value - threshold) > 0.0 else 1.0 - half


class RangeEstimate(NamedTuple):
    """Largest of several true means minus the smallest, from the means of groups of runs.

    Assumes that runs spread equally in all groups; the spread is estimated with `freedom` degrees
    of freedom. The interval is that of [Tukey1949]: no difference between two true means is farther
    from the measured one than half its length. It covers the true range in at least 95 % of cases,
    and excludes 0 exactly if the test of equal means has p < 0.05.
    """

    value: float
    error: float
    """Standard error of a mean; infinite if the spread is unknown."""
    groups: int
    freedom: int

    @property
    def interval(self) -> Interval:
        """The range with its 95 % interval, whose lower end is at least 0."""
        half = self._half()
        low = max(0.0, self.value - half) if self.freedom else -math.inf
        return Interval(self.value, low, self.value + half)

    @property
    def by_chance(self) -> float | None:
        """Expected range of equal means; None if the spread is unknown.

        The range of n numbers of a normal sample is n / sqrt(pi) standard deviations on average;
        this is exact only for n of 2 and 3.
        """
        return self.groups / math.sqrt(math.pi) * self.error if self.freedom else None

    def _half(self) -> float:
        if not self.freedom or not self.error:
            return self.error
        return _range_quantile(self.groups, self.freedom) * self.error

    def p_value(self, threshold: float) -> float:
        """Return the p-value of the hypothesis that the range is the threshold.

        The threshold 0 means that all means are equal.
        """
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
    """Return the weighted sum of the means of groups of runs.

    The spread between runs is pooled over the groups `alike`, assuming that it is equal in all
    groups. Raises ValueError for an empty group.
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
    """Return the range of the means of some groups of runs.

    The spread between runs is pooled over the groups `alike`, assuming that it is equal in all
    groups. For groups of different sizes, variances of means are averaged as in [Kramer1956].
    Raises ValueError for an empty group.
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
    """Ratio of two standard deviations of normal samples.

    Interval and p-value are those of the F-test, which relies on normality more than tests of means
    do.
    """

    value: float
    freedom: int
    """Degrees of freedom of the dividend."""
    other_freedom: int
    """Degrees of freedom of the divisor."""

    @property
    def interval(self) -> Interval:
        """The ratio with its 95 % interval."""
        down = math.sqrt(_f_quantile(self.freedom, self.other_freedom))
        up = math.sqrt(_f_quantile(self.other_freedom, self.freedom))
        return Interval(self.value, self.value / down, self.value * up)

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value; thresholds must be above 0.

        For equal numbers, whose spread is 0, it is that of a sign test, as in `statistics`.
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
    """Return the standard deviation within the groups of one, divided by that of other.

    Variances are pooled over groups. None if no group has two numbers or other does not vary.
    """
    (squares, freedom), (other_squares, other_freedom) = _squares(one), _squares(other)
    if not freedom or not other_squares:
        return None
    ratio = (squares / freedom) / (other_squares / other_freedom)
    return SpreadRatio(math.sqrt(ratio), freedom, other_freedom)


def _squares(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the sum of squared distances from the group means, and its degrees of freedom."""
    known = [np.asarray(group, np.float64) for group in groups if len(group)]
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in known)
    return squares, sum(len(group) - 1 for group in known)


def _f_quantile(freedom: int, other_freedom: int) -> float:
    from scipy.special import fdtri  # noqa: PLC0415  slow to import

    return float(fdtri(freedom, other_freedom, 1 - LEVEL / 2))
