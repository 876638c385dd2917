"""Estimates over the runs of a study, with 95 % intervals and p-values.

The unit is the run: runs that differ in nothing but their seed are independent, the games of one
run are not. So every number that goes in here stands for one run, and what comes out says how far
the result would vary if the runs were trained again.

Too little data is no error. One run has an interval without ends and p = 1. Runs that are all equal
show no spread, which does not mean that there is none: p is then 2^-f with f degrees of freedom,
that of a sign test of f + 1 runs on one side; where this is below 0.05, the interval is the value
itself, elsewhere without ends. No run at all is a ValueError: then there is no estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.report.figures import Sample
from zerolab.report.interval import Z95, IntervalLike, wilson

LEVEL = 0.05
"""Of tests; intervals hold 1 - LEVEL."""

DRAWS = 4000
"""Bootstrap draws; the ends of an interval then vary by about 3 % of its length."""

_ROUNDING = 1e-12  # of the largest number: differences below are not differences
_MOST_SPLITS = 50_000  # for which the rank test is exact; two groups of 9 runs have 48,620

_Run = TypeVar("_Run")


class Estimate(IntervalLike, Protocol):
    """A number with its 95 % interval, and a test of hypotheses about it."""

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the true number is the threshold."""
        ...


class StudentEstimate(NamedTuple):
    """A number whose error, in units of the standard error, follows Student's t."""

    value: float
    error: float
    """The standard error; infinite where it is unknown, 0 where nothing varies."""
    freedom: float
    """Degrees of freedom; 0 and below where the error is unknown."""

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - self.margin()

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + self.margin()

    def margin(self, level: float = LEVEL) -> float:
        """Return half the length of the interval that holds 1 - level."""
        if not self._is_known():
            return math.inf
        if self.error == 0.0:
            return 0.0 if math.exp2(-self.freedom) < level else math.inf
        return _student_quantile(self.freedom, level) * self.error

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of a t-test."""
        if not self._is_known():
            return 1.0
        distance = abs(self.value - threshold)
        if self.error == 0.0:
            return 1.0 if distance == 0.0 else math.exp2(-self.freedom)
        return 2.0 * _student_tail(self.freedom, distance / self.error)

    def _is_known(self) -> bool:
        return self.freedom > 0 and self.error < math.inf


class BootstrapEstimate(NamedTuple):
    """A number with what it was on bootstrap draws of the runs [Efron1979]; see `bootstrap`."""

    value: float
    draws: NDArray[np.float64]
    """The number on each draw; empty where the runs do not show how far it varies."""
    freedom: float = math.inf
    """Runs less groups; no number of draws makes p less than 2^-freedom, that of a sign test."""

    @property
    def low(self) -> float:
        """The lower end of the percentile interval."""
        return float(np.quantile(self.draws, LEVEL / 2)) if len(self.draws) else -math.inf

    @property
    def high(self) -> float:
        """The upper end of the percentile interval."""
        return float(np.quantile(self.draws, 1 - LEVEL / 2)) if len(self.draws) else math.inf

    def p_value(self, threshold: float) -> float:
        """Return twice the share of the draws beyond the threshold, at least 1 / (draws + 1)."""
        count = len(self.draws)
        if not count:
            return 1.0
        below = int((self.draws <= threshold).sum())
        above = int((self.draws >= threshold).sum())
        beyond = 2 * min(below, above) / count
        return min(1.0, max(beyond, 1 / (count + 1), math.exp2(-self.freedom)))


class BinomialEstimate(NamedTuple):
    """A probability from independent successes and failures."""

    successes: int
    trials: int

    @property
    def value(self) -> float:
        """The share of successes; 0.5 without trials."""
        return self.successes / self.trials if self.trials else 0.5

    @property
    def low(self) -> float:
        """The lower end of Wilson's interval [Wilson1927]."""
        return min(self.value, wilson(self.value, self.trials)[0])  # rounding: 0 may lie outside

    @property
    def high(self) -> float:
        """The upper end of Wilson's interval [Wilson1927]."""
        return max(self.value, wilson(self.value, self.trials)[1])

    def p_value(self, threshold: float) -> float:
        """Return the p-value of the exact binomial test; thresholds lie in [0, 1]."""
        if not self.trials:
            return 1.0
        from scipy.stats import binomtest  # noqa: PLC0415  slow to import

        return float(binomtest(self.successes, self.trials, threshold).pvalue)


def mean_of(values: ArrayLike) -> StudentEstimate:
    """Return the mean of one number per run."""
    return _mean(_numbers(values))


def sample_of_runs(
    values: Sequence[float], errors: Sequence[float] = (), published: float | None = None
) -> Sample:
    """Return one number per run, as plots show it, with its mean; see `Sample`."""
    return Sample(values, errors, published, mean_of(values) if len(values) else None)


def paired_difference(one: ArrayLike, other: ArrayLike) -> StudentEstimate:
    """Return the mean of one - other, number by number: pairs share a seed, or a setting."""
    first, second = _numbers(one), _numbers(other)
    if len(first) != len(second):
        raise ValueError(f"pairs of {len(first)} and {len(second)} numbers")
    difference = first - second
    difference[np.abs(difference) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return _mean(difference)


def difference_of_means(one: ArrayLike, other: ArrayLike) -> StudentEstimate:
    """Return the mean of one less that of other, whose variances may differ [Welch1947]."""
    return weighted_sum([(1.0, mean_of(one)), (-1.0, mean_of(other))])


def weighted_sum(terms: Sequence[tuple[float, StudentEstimate]]) -> StudentEstimate:
    """Return the sum of independent estimates times their weights, none of which is 0.

    Variances may differ; degrees of freedom are those of [Welch1947]. An error that is known rather
    than estimated has infinitely many. Raises ValueError for no terms.
    """
    if not terms:
        raise ValueError("a sum of no estimates")
    value = sum(weight * each.value for weight, each in terms)
    errors = [abs(weight) * each.error for weight, each in terms]
    error = math.hypot(*errors)
    if math.isinf(error):
        return StudentEstimate(value, math.inf, 0)
    if error == 0.0:
        return StudentEstimate(value, 0.0, sum(each.freedom for _, each in terms))
    shares = sum(
        (part / error) ** 4 / each.freedom for part, (_, each) in zip(errors, terms, strict=True)
    )
    return StudentEstimate(value, error, 1.0 / shares if shares else math.inf)


def sign_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value that positive and negative ones are equally likely.

    Zeros are left out; 1 if nothing else is there.
    """
    numbers = np.asarray(differences, np.float64)
    positive, negative = int((numbers > 0).sum()), int((numbers < 0).sum())
    return BinomialEstimate(positive, positive + negative).p_value(0.5)


def rank_test(one: ArrayLike, other: ArrayLike) -> float:
    """Return the two-sided p-value that neither tends to be larger [Mann1947].

    Exact, ties included, for up to nine runs each; the normal approximation beyond. 1 where a group
    is empty or all numbers are equal.
    """
    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    both = np.concatenate([first, second])
    if not len(first) or not len(second) or np.ptp(both) == 0.0:
        return 1.0
    from scipy.stats import mannwhitneyu, rankdata  # noqa: PLC0415  slow to import

    if math.comb(len(both), len(first)) > _MOST_SPLITS:
        return float(mannwhitneyu(first, second, method="asymptotic").pvalue)
    doubled = (2 * rankdata(both)).astype(np.int64)  # whole numbers: sums compare exactly
    splits = np.array(list(combinations(range(len(both)), len(first))))
    middle = len(first) * (len(both) + 1)
    distances = np.abs(doubled[splits].sum(axis=1) - middle)
    return float((distances >= distances[0]).mean())  # the first split is the one that was seen


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted so that any error among them has its probability [Holm1979]."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def bootstrap(
    *groups: Sequence[_Run],
    statistic: Callable[..., float],
    seed: int = 0,
    draws: int = DRAWS,
) -> BootstrapEstimate:
    """Return a statistic of groups of runs, with its values on groups drawn with replacement.

    A run is whatever the statistic takes: `statistic(*groups)` gets lists of as many runs as the
    groups have, each drawn from its own group. Draws of few runs vary too little, and percentiles
    take no account of how badly few runs show their spread [Hesterberg2015]. So the distances of
    the draws from the value are multiplied by sqrt(n / (n - g)) t / z, with n runs in g groups, and
    with t and z the 97.5 % quantiles of Student's t of n - g degrees of freedom and of the normal
    distribution. Draws on which the statistic is NaN are left out.

    Raises ValueError for an empty group, and where the statistic of all runs is not a number.
    """
    if not groups or not all(len(group) for group in groups):
        raise ValueError("a bootstrap of a group without runs")
    value = float(statistic(*(list(group) for group in groups)))
    if not math.isfinite(value):
        raise ValueError(f"the statistic is {value}")
    runs = sum(len(group) for group in groups)
    freedom = runs - len(groups)
    if freedom == 0:
        return BootstrapEstimate(value, np.empty(0), 0)
    random = np.random.default_rng(seed)
    chosen = [random.integers(0, len(group), (draws, len(group))).tolist() for group in groups]
    found = np.array(
        [float(statistic(*_drawn(groups, rows))) for rows in zip(*chosen, strict=True)]
    )
    widening = math.sqrt(runs / freedom) * _student_quantile(freedom) / Z95
    return BootstrapEstimate(value, value + widening * (found[~np.isnan(found)] - value), freedom)


def _drawn(groups: Sequence[Sequence[_Run]], rows: Sequence[list[int]]) -> list[list[_Run]]:
    return [[group[i] for i in row] for group, row in zip(groups, rows, strict=True)]


INTERCEPT = "intercept"
"""What `linear_regression` calls the constant."""


def linear_regression(
    X: ArrayLike,  # noqa: N803  the symbol of every text
    y: ArrayLike,
    names: Sequence[str],
) -> dict[str, StudentEstimate]:
    """Return the coefficients of y = intercept + X b + error by ordinary least squares.

    X has one row per run and one column per name, y one number per run; t intervals have as many
    degrees of freedom as there are runs more than coefficients. A coefficient that the columns do
    not determine has an interval without ends, as all have without degrees of freedom.
    """
    target = _numbers(y)
    columns = np.asarray(X, np.float64).reshape(len(target), len(names))
    design = np.column_stack([np.ones(len(target)), columns])
    inverse = np.linalg.pinv(design)
    fitted = inverse @ target
    residuals = target - design @ fitted
    freedom = len(target) - int(np.linalg.matrix_rank(design))
    largest = np.abs(target).max()
    if np.abs(residuals).max() <= 1e-9 * largest:  # an exact fit: only rounding is left
        residuals[:] = 0.0
        fitted[np.abs(fitted) * np.abs(design).max(axis=0) <= 1e-9 * largest] = 0.0
    variance = float(residuals @ residuals) / max(1, freedom)
    errors = np.sqrt(variance * (inverse**2).sum(axis=1))
    determined = np.abs(np.diag(inverse @ design) - 1.0) < 1e-6
    errors[~determined] = math.inf
    return {
        name: StudentEstimate(float(value), float(error), freedom)
        for name, value, error in zip((INTERCEPT, *names), fitted, errors, strict=True)
    }


class Spread(NamedTuple):
    """Why runs that differ only in their seed differ: standard deviations."""

    observed: float
    """Between the numbers that were measured."""
    between: float
    """Between the true numbers of the runs."""
    measurement: float
    """The error of measuring one run."""

    @property
    def explained(self) -> float:
        """The share of the observed variance that error of measurement explains, 0 to 1."""
        if self.observed == 0.0:
            return 0.0 if self.measurement == 0.0 else 1.0
        return min(1.0, (self.measurement / self.observed) ** 2)


def spread(values_per_run: ArrayLike, errors_per_run: ArrayLike) -> Spread | None:
    """Return the spread between runs, from a number per run and its standard error.

    By the method of moments: the variance between true numbers is the observed variance less the
    mean squared error, not below 0. None for fewer than two runs.
    """
    values = np.asarray(values_per_run, np.float64)
    if len(values) < 2:
        return None
    observed = _deviation(_numbers(values))
    measurement = math.sqrt(float(np.mean(np.square(_numbers(errors_per_run)))))
    between = math.sqrt(max(0.0, observed**2 - measurement**2))
    return Spread(observed, between, measurement)


def _mean(numbers: NDArray[np.float64]) -> StudentEstimate:
    freedom = len(numbers) - 1
    if freedom == 0:
        return StudentEstimate(float(numbers[0]), math.inf, 0)
    deviation = _deviation(numbers)
    value = float(numbers.mean()) if deviation else float(numbers[0])
    return StudentEstimate(value, deviation / math.sqrt(len(numbers)), freedom)


def _deviation(numbers: NDArray[np.float64]) -> float:
    """Return the sample standard deviation; exactly 0 for numbers that differ by rounding."""
    if np.ptp(numbers) <= _ROUNDING * np.abs(numbers).max():
        return 0.0
    return float(numbers.std(ddof=1))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"expected one number per run, at least one; found shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"expected finite numbers; found {numbers.tolist()}")
    return numbers


def _student_tail(freedom: float, t: float) -> float:
    from scipy.special import stdtr  # noqa: PLC0415  slow to import

    return float(stdtr(freedom, -t))


def _student_quantile(freedom: float, level: float = LEVEL) -> float:
    from scipy.special import stdtrit  # noqa: PLC0415

    return float(stdtrit(freedom, 1 - level / 2))
