"""Estimates from groups of runs: extremes, contrasts, ranges, spread ratios and the bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zerolab.report.table import Z95, Interval
from zerolab.studies.statistics import (
    SIGNIFICANCE_LEVEL,
    BinomialEstimate,
    BootstrapEstimate,
    StudentEstimate,
    squared_deviations,
    student_quantile,
    without_rounding,
)


class RankedEstimate(NamedTuple):
    """Largest, second largest, and so on, of several true values, with an estimate of each value.

    The k-th largest of n values is above a threshold if every set of n - k + 1 values includes one
    above the threshold. Each set is tested by its smallest one-sided p-value, multiplied by its
    size as in the first step of [Holm1979], and all sets together by the largest product
    [Berger1982]. This equals the k-th smallest p-value multiplied by n - k + 1. The k-th largest
    value is below a threshold if every set of k values includes one below it, which is tested in
    the same way. The two-sided p-value is twice the smaller one-sided p-value, and the interval
    contains the thresholds that are not rejected. Estimates need not be independent.

    The smallest of several noisy estimates is biased downwards, and the largest upwards. The test
    and the interval are not biased because they consider each estimate separately.
    """

    estimates: tuple[StudentEstimate | BinomialEstimate | RankedEstimate, ...]
    rank: int
    """1 for the largest value, and the number of values for the smallest."""

    @property
    def value(self) -> float:
        """Estimate with this rank."""
        return self._ranked([each.value for each in self.estimates])

    @property
    def interval(self) -> Interval:
        """Value with its 95 % confidence interval."""
        return Interval(self.value, self.interval_end(-1.0), self.interval_end(1.0))

    def interval_end(self, sign: float, level: float = SIGNIFICANCE_LEVEL) -> float:
        """Return the upper (`sign` 1) or lower (-1) end of the interval with coverage 1 - level."""
        part = level / self._set_size(-sign)
        return self._ranked([each.interval_end(sign, part) for each in self.estimates])

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the true value is the threshold."""
        return min(1.0, 2.0 * min(self.one_sided_p_value(threshold, sign) for sign in (1.0, -1.0)))

    def one_sided_p_value(self, threshold: float, sign: float) -> float:
        """Return the one-sided p-value for a value above (`sign` 1) or below (-1) the threshold."""
        p_values = sorted(_one_sided(each, threshold, sign) for each in self.estimates)
        size = self._set_size(sign)
        return min(1.0, size * p_values[-size])

    def _set_size(self, sign: float) -> int:
        """Return the size of the sets that must include a value above (`sign` 1) or below (-1)."""
        return len(self.estimates) - self.rank + 1 if sign > 0.0 else self.rank

    def _ranked(self, values: Sequence[float]) -> float:
        return sorted(values, reverse=True)[self.rank - 1]


def estimate_smallest(
    estimates: Sequence[StudentEstimate | BinomialEstimate],
) -> RankedEstimate:
    """Estimate the smallest of several true values; raise ValueError without any estimates."""
    return estimate_ranked(estimates, len(estimates))


def estimate_largest(estimates: Sequence[StudentEstimate]) -> RankedEstimate:
    """Estimate the largest of several true values; raise ValueError without any estimates."""
    return estimate_ranked(estimates, 1)


def estimate_ranked(
    estimates: Sequence[StudentEstimate | BinomialEstimate | RankedEstimate], rank: int
) -> RankedEstimate:
    """Estimate the true value with a rank, 1 for the largest.

    Raises ValueError if there are fewer values.
    """
    if not 1 <= rank <= len(estimates):
        raise ValueError(f"rank {rank} of {len(estimates)}: expected at least one estimate")
    return RankedEstimate(tuple(estimates), rank)


def _one_sided(
    estimate: StudentEstimate | BinomialEstimate | RankedEstimate, threshold: float, sign: float
) -> float:
    """Return the one-sided p-value for a value above (`sign` 1) or below (-1) the threshold."""
    if isinstance(estimate, RankedEstimate):
        return estimate.one_sided_p_value(threshold, sign)
    half = estimate.p_value(threshold) / 2.0
    return half if sign * (estimate.value - threshold) > 0.0 else 1.0 - half


class RangeEstimate(NamedTuple):
    """Largest minus smallest of several true means, estimated from groups of runs.

    All groups are assumed to have the same, estimated variance. The interval is based on the
    simultaneous intervals of [Tukey1949] for all differences between two means. It covers the true
    range in at least 95 % of cases, and excludes 0 if and only if equal means have p < 0.05.
    """

    value: float
    standard_error: float
    """Standard error of a mean, infinite if the variance is unknown."""
    group_count: int
    """Number of groups."""
    degrees_of_freedom: int
    """Degrees of freedom, 0 if the variance is unknown."""

    @property
    def interval(self) -> Interval:
        """Range with its 95 % confidence interval, whose lower end is at least 0 if known."""
        margin = self._margin()
        low = max(0.0, self.value - margin) if self.degrees_of_freedom else -math.inf
        return Interval(self.value, low, self.value + margin)

    @property
    def expected_range_by_chance(self) -> float | None:
        """Expected range if all true means are equal, or None if the variance is unknown."""
        if not self.degrees_of_freedom:
            return None
        from scipy import integrate, special  # noqa: PLC0415  slow to import

        count, share = self.group_count, special.ndtr
        half, _ = integrate.quad(lambda x: 1 - share(x) ** count - share(-x) ** count, 0, math.inf)
        return float(2 * half * self.standard_error)

    def _margin(self) -> float:
        if not self.degrees_of_freedom:
            return math.inf
        if not self.standard_error:
            return 0.0 if math.exp2(-self.degrees_of_freedom) < SIGNIFICANCE_LEVEL else math.inf
        return _range_quantile(self.group_count, self.degrees_of_freedom) * self.standard_error

    def p_value(self, threshold: float) -> float:
        """Return the p-value for a true range equal to the threshold; 0 tests for equal means."""
        distance = abs(self.value - threshold)
        if not self.degrees_of_freedom or not distance:
            return 1.0
        if not self.standard_error:
            return math.exp2(-self.degrees_of_freedom)
        from scipy.stats import studentized_range  # noqa: PLC0415  slow to import

        ratio = distance / self.standard_error
        return float(studentized_range.sf(ratio, self.group_count, self.degrees_of_freedom))


def contrast_of_means(
    terms: Sequence[tuple[float, Sequence[float]]], pooled: Sequence[Sequence[float]]
) -> StudentEstimate:
    """Return the weighted sum of the means of groups of runs.

    The variance between runs is pooled over the groups in `pooled`, assuming that it is the same in
    all groups. Raises ValueError if a group is empty.
    """
    if not all(len(group) for _, group in terms):
        raise ValueError("expected at least one run per group")
    squares, degrees_of_freedom = squared_deviations(pooled)
    factor = sum(weight**2 / len(group) for weight, group in terms)
    error = math.sqrt(squares / degrees_of_freedom * factor) if degrees_of_freedom else math.inf
    parts = [weight * float(np.mean(group)) for weight, group in terms]
    return StudentEstimate(without_rounding(sum(parts), parts), error, degrees_of_freedom)


def range_of_means(
    groups: Sequence[Sequence[float]], pooled: Sequence[Sequence[float]], removed_constants: int = 0
) -> RangeEstimate:
    """Return the range of the means of groups of runs.

    The variance between runs, assumed to be the same everywhere, is pooled over `pooled`; each
    constant that was fitted and removed costs a degree of freedom. If group sizes differ, the
    variances of the means are averaged as in [Kramer1956]. Raises ValueError if a group is empty.
    """
    if not groups or not all(len(group) for group in groups):
        raise ValueError("expected at least one run per group")
    means = [float(np.mean(group)) for group in groups]
    squares, unconstrained = squared_deviations(pooled)
    degrees_of_freedom = unconstrained - removed_constants
    variance = squares / degrees_of_freedom if degrees_of_freedom else math.inf
    error = math.sqrt(variance * float(np.mean([1 / len(group) for group in groups])))
    largest_difference = without_rounding(max(means) - min(means), means)
    return RangeEstimate(largest_difference, error, len(groups), degrees_of_freedom)


@cache
def _range_quantile(groups: int, degrees_of_freedom: int) -> float:
    from scipy.stats import studentized_range  # noqa: PLC0415  slow to import

    return float(studentized_range.ppf(1 - SIGNIFICANCE_LEVEL, groups, degrees_of_freedom))


class SpreadRatio(NamedTuple):
    """Ratio of the standard deviations of two normal samples.

    The interval and the p-value come from the F-test, which is more sensitive to deviations from
    normality than tests of means.
    """

    value: float
    numerator_degrees_of_freedom: int
    """Degrees of freedom of the numerator."""
    denominator_degrees_of_freedom: int
    """Degrees of freedom of the denominator."""

    @property
    def interval(self) -> Interval:
        """Ratio with its 95 % confidence interval."""
        if self.value == 0.0:
            return Interval(0.0, 0.0, 0.0 if self.p_value(1.0) < SIGNIFICANCE_LEVEL else math.inf)
        freedom = self.numerator_degrees_of_freedom, self.denominator_degrees_of_freedom
        divisor = math.sqrt(_f_quantile(*freedom))
        factor = math.sqrt(_f_quantile(*reversed(freedom)))
        return Interval(self.value, self.value / divisor, self.value * factor)

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the ratio is a positive threshold.

        For a ratio of 0, it is the p-value of a sign test, as for constant samples in `statistics`.
        """
        if self.value == 0.0:
            return math.exp2(-self.numerator_degrees_of_freedom)
        from scipy.special import fdtr, fdtrc  # noqa: PLC0415  slow to import

        freedom = self.numerator_degrees_of_freedom, self.denominator_degrees_of_freedom
        f = (self.value / threshold) ** 2
        return min(1.0, 2.0 * min(float(fdtr(*freedom, f)), float(fdtrc(*freedom, f))))


class RelativeSpread(NamedTuple):
    """Standard deviation of one kind of effect relative to another, such as between and within.

    If the effects are normally distributed, F is distributed as ``1 + size * spread**2`` times
    Fisher's F; see `SpreadRatio`.
    """

    sqrt_f: SpreadRatio
    """Square root of F, such as the mean square between groups divided by that within groups."""
    group_size: int
    """Number of values whose mean F compares, such as the size of a group."""

    @property
    def value(self) -> float:
        """Relative spread; 0 if groups differ less than expected by chance."""
        return self._spread_from_sqrt_f(self.sqrt_f.value)

    @property
    def interval(self) -> Interval:
        """Relative spread with its 95 % confidence interval."""
        return Interval(*(self._spread_from_sqrt_f(end) for end in self.sqrt_f.interval))

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the spread is a threshold."""
        return self.sqrt_f.p_value(math.sqrt(1.0 + self.group_size * threshold**2))

    def _spread_from_sqrt_f(self, sqrt_f: float) -> float:
        return math.sqrt(max(0.0, sqrt_f**2 - 1.0) / self.group_size)


def relative_spread(groups: Sequence[Sequence[float]]) -> RelativeSpread | None:
    """Return the spread between `groups` relative to that within them.

    Returns None unless there are several groups, of equal size above 1, with variation inside.
    """
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or (size := sizes.pop()) < 2:
        return None
    means = [math.sqrt(size) * float(np.mean(group)) for group in groups]
    sqrt_f = spread_ratio([means], groups)
    return None if sqrt_f is None else RelativeSpread(sqrt_f, size)


def spread_ratio(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> SpreadRatio | None:
    """Return the standard deviation within the groups of `one` divided by that of `other`.

    Variances are pooled over groups. Returns None if all groups of `one` have fewer than two
    numbers or if `other` has no variation within groups.
    """
    squares, freedom = squared_deviations(one)
    other_squares, other_freedom = squared_deviations(other)
    if not freedom or not other_squares:
        return None
    ratio = (squares / freedom) / (other_squares / other_freedom)
    return SpreadRatio(math.sqrt(ratio), freedom, other_freedom)


def _f_quantile(numerator_freedom: int, denominator_freedom: int) -> float:
    from scipy.special import fdtri  # noqa: PLC0415  slow to import

    return float(fdtri(numerator_freedom, denominator_freedom, 1 - SIGNIFICANCE_LEVEL / 2))


BOOTSTRAP_SAMPLES = 4000
"""Number of bootstrap samples, at which the ends of an interval vary by 3 % of its width."""

_Run = TypeVar("_Run")


def bootstrap(
    *groups: Sequence[_Run],
    statistic: Callable[..., float],
    seed: int = 0,
    sample_count: int = BOOTSTRAP_SAMPLES,
) -> BootstrapEstimate:
    """Return a statistic of groups of runs, with its values in bootstrap samples of the groups.

    `statistic(*groups)` takes one list of runs per group. Runs can have any type. With few runs,
    bootstrap intervals are too narrow [Hesterberg2015]. The distances between replicates and the
    value are therefore multiplied by r t / z, where t and z are the 97.5 % quantiles of Student's t
    distribution with f degrees of freedom and of the normal distribution. For n runs in g groups of
    equal size, r^2 = n / (n - g) and f = n - g. For other groups, r and f [Satterthwaite1946] are
    those of a sum of means, if runs of all groups have equal variances. The interval is unbounded
    if a group has only one run. Bootstrap samples in which the statistic is NaN are discarded.

    Raises ValueError if a group is empty or if the statistic of all runs is not finite.
    """
    if not groups or not all(len(group) for group in groups):
        raise ValueError("expected at least one run per group")
    value = float(statistic(*(list(group) for group in groups)))
    indices = [rows.tolist() for rows in _resampled_indices(groups, seed, sample_count)]
    replicates = [
        float(statistic(*_resampled(groups, rows))) for rows in zip(*indices, strict=True)
    ]
    return _bootstrap_estimate(groups, value, np.array(replicates))


def bootstrap_mean_statistic(
    *groups: NDArray[np.float64],  # each [runs, measures]
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    seed: int = 0,
    sample_count: int = BOOTSTRAP_SAMPLES,
) -> BootstrapEstimate:
    """Return the mean over groups of a statistic, with its values in bootstrap samples.

    `statistic` takes float64[samples, runs, measures] and returns float64[samples], which is far
    faster than one call per sample. Estimate, random numbers and errors are as in `bootstrap`.
    """
    if not groups or not all(len(group) for group in groups):
        raise ValueError("expected at least one run per group")
    value = float(np.mean([statistic(group[None])[0] for group in groups]))
    indices = _resampled_indices(groups, seed, sample_count)
    by_group = [statistic(group[rows]) for group, rows in zip(groups, indices, strict=True)]
    return _bootstrap_estimate(groups, value, np.mean(by_group, axis=0))


def _resampled_indices(
    groups: Sequence[Sequence[_Run] | NDArray[np.float64]], seed: int, sample_count: int
) -> list[NDArray[np.int64]]:
    """Return int64[sample_count, runs] by group; no samples if a group has only one run."""
    random = np.random.default_rng(seed)
    samples = sample_count if min(map(len, groups)) > 1 else 0
    return [random.integers(0, len(group), (samples, len(group))) for group in groups]


def _bootstrap_estimate(
    groups: Sequence[Sequence[_Run] | NDArray[np.float64]],
    value: float,
    replicates: NDArray[np.float64],
) -> BootstrapEstimate:
    if not math.isfinite(value):
        raise ValueError(f"the statistic is {value}: expected a finite number")
    if not len(replicates):
        return BootstrapEstimate(value, replicates, 0)
    # The mean of n runs has the variance 1/n, of which resampling loses the share 1/n. Fractions
    # make the degrees of freedom of groups of equal size exact.
    variances = [Fraction(1, len(group)) for group in groups]
    variance = sum(variances, Fraction())
    lost = sum((each**2 for each in variances), Fraction())
    freedom = float(variance**2 / sum(each**3 / (1 - each) for each in variances))
    widening = math.sqrt(variance / (variance - lost)) * student_quantile(freedom) / Z95
    widened = value + widening * (replicates[~np.isnan(replicates)] - value)
    return BootstrapEstimate(value, widened, freedom)


def _resampled(groups: Sequence[Sequence[_Run]], rows: Sequence[list[int]]) -> list[list[_Run]]:
    return [[group[i] for i in row] for group, row in zip(groups, rows, strict=True)]
