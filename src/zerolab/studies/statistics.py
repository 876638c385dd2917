"""Estimates over the runs of a study, with 95 % intervals and p-values.

The unit is the run: runs that differ only in their seed are independent, the games of one run are
not. Every number passed to these functions therefore stands for one run, and intervals show how far
the result would vary if the runs were trained again.

Too little data is no error. A single run has an infinite interval and p = 1. Runs that are all
equal show no spread, which does not prove that there is none: p is then 2^-f with f degrees of
freedom, as in a sign test of f + 1 runs on one side; if this is below 0.05, the interval is the
value itself, otherwise it is infinite. Without any run there is no estimate, but a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.report.figures import Sample
from zerolab.report.interval import Z95, Interval, wilson

LEVEL = 0.05
"""Significance level of tests; the coverage of intervals is 1 - LEVEL."""

DRAWS = 4000
"""Number of bootstrap draws: enough that the ends of an interval vary by 3 % of its length."""

_ROUNDING = 1e-12  # relative to the largest number; smaller differences count as 0
_MAX_EXACT_SPLITS = 50_000  # of the rank test; two groups of 9 runs have 48,620

_Run = TypeVar("_Run")


class Estimate(Protocol):
    """A number with its 95 % interval, and a test of hypotheses about it."""

    @property
    def value(self) -> float:
        """The number itself."""
        ...

    @property
    def interval(self) -> Interval:
        """The number with its 95 % interval."""
        ...

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the true number is the threshold."""
        ...


class StudentEstimate(NamedTuple):
    """A number whose error, in units of the standard error, follows Student's t."""

    value: float
    error: float
    """Standard error; infinite if unknown, 0 if nothing varies."""
    freedom: float
    """Degrees of freedom; 0 or less if the error is unknown."""

    @property
    def interval(self) -> Interval:
        """The number with its 95 % interval."""
        margin = self.margin()
        return Interval(self.value, self.value - margin, self.value + margin)

    def margin(self, level: float = LEVEL) -> float:
        """Return half the length of the interval with coverage 1 - level."""
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
    """A number and its values on bootstrap draws of the runs [Efron1979]; see `bootstrap`."""

    value: float
    draws: NDArray[np.float64]
    """Value on each draw; empty if there are too few runs to show how far it varies."""
    freedom: float = math.inf
    """Runs less groups; p is at least 2^-freedom, as in a sign test, for any number of draws."""

    @property
    def interval(self) -> Interval:
        """The number with its percentile interval."""
        if not len(self.draws):
            return Interval.unknown(self.value)
        low, high = (float(np.quantile(self.draws, end)) for end in (LEVEL / 2, 1 - LEVEL / 2))
        return Interval(self.value, low, high)

    def p_value(self, threshold: float) -> float:
        """Return twice the share of draws beyond the threshold, at least 1 / (draws + 1)."""
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
        """Share of successes; 0.5 without trials."""
        return self.successes / self.trials if self.trials else 0.5

    @property
    def interval(self) -> Interval:
        """The share with Wilson's interval [Wilson1927]."""
        value, low, high = wilson(self.value, self.trials)
        return Interval(value, min(value, low), max(value, high))  # rounding: 0 may lie outside

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
    return Sample(values, errors, published, mean_of(values).interval if len(values) else None)


def paired_difference(one: ArrayLike, other: ArrayLike) -> StudentEstimate:
    """Return the mean of one - other over pairs of runs that share a seed or a setting."""
    first, second = _numbers(one), _numbers(other)
    if len(first) != len(second):
        raise ValueError(f"pairs of {len(first)} and {len(second)} numbers")
    difference = first - second
    difference[np.abs(difference) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return _mean(difference)


def difference_of_means(one: ArrayLike, other: ArrayLike) -> StudentEstimate:
    """Return the mean of one minus that of other; variances may differ [Welch1947]."""
    return weighted_sum([(1.0, mean_of(one)), (-1.0, mean_of(other))])


def weighted_sum(terms: Sequence[tuple[float, StudentEstimate]]) -> StudentEstimate:
    """Return the weighted sum of independent estimates; weights must not be 0.

    Variances may differ; the degrees of freedom are those of [Welch1947]. An error that is known
    rather than estimated has infinitely many. Raises ValueError without terms.
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
    """Return the two-sided p-value of the hypothesis that both signs are equally likely.

    Zeros are left out; without other numbers, p is 1.
    """
    numbers = np.asarray(differences, np.float64)
    positive, negative = int((numbers > 0).sum()), int((numbers < 0).sum())
    return BinomialEstimate(positive, positive + negative).p_value(0.5)


def rank_test(one: ArrayLike, other: ArrayLike) -> float:
    """Return the two-sided p-value of the hypothesis that neither tends to be larger [Mann1947].

    Exact, with ties, for up to nine runs each; the normal approximation beyond. 1 if a group is
    empty or all numbers are equal.
    """
    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    both = np.concatenate([first, second])
    if not len(first) or not len(second) or np.ptp(both) == 0.0:
        return 1.0
    from scipy.stats import mannwhitneyu, rankdata  # noqa: PLC0415  slow to import

    if math.comb(len(both), len(first)) > _MAX_EXACT_SPLITS:
        return float(mannwhitneyu(first, second, method="asymptotic").pvalue)
    doubled = (2 * rankdata(both)).astype(np.int64)  # whole numbers: sums compare exactly
    splits = np.array(list(combinations(range(len(both)), len(first))))
    middle = len(first) * (len(both) + 1)
    distances = np.abs(doubled[splits].sum(axis=1) - middle)
    return float((distances >= distances[0]).mean())  # the first split is the observed one


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted to control the family-wise error rate [Holm1979]."""
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

    `statistic(*groups)` takes one list of runs per group, as long as the group; runs may be of any
    type. Draws of few runs vary too little, and percentiles ignore how uncertain the spread of few
    runs is [Hesterberg2015]. Therefore the distances of the draws from the value are multiplied by
    sqrt(n / (n - g)) t / z, with n runs in g groups, and with t and z the 97.5 % quantiles of
    Student's t with n - g degrees of freedom and of the normal distribution. Draws on which the
    statistic is NaN are left out.

    Raises ValueError for an empty group, and if the statistic of all runs is not finite.
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
"""Name of the constant in `linear_regression`."""


def linear_regression(
    X: ArrayLike,  # noqa: N803  the symbol of every text
    y: ArrayLike,
    names: Sequence[str],
) -> dict[str, StudentEstimate]:
    """Return the coefficients of y = intercept + X b + error by ordinary least squares.

    X has one row per run and one column per name, y one number per run. The degrees of freedom of
    the t intervals are the number of runs minus the rank of the design. A coefficient that the
    columns do not determine has an infinite interval, as all have without degrees of freedom.
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
    """Standard deviations of runs that differ only in their seed, by cause."""

    observed: float
    """Standard deviation of the measured numbers."""
    between: float
    """Standard deviation of the true numbers of the runs."""
    measurement: float
    """Standard error of measuring one run."""

    @property
    def explained(self) -> float:
        """Share of the observed variance that measurement error explains, 0 to 1."""
        if self.observed == 0.0:
            return 0.0 if self.measurement == 0.0 else 1.0
        return min(1.0, (self.measurement / self.observed) ** 2)


def spread(values_per_run: ArrayLike, errors_per_run: ArrayLike) -> Spread | None:
    """Return the spread between runs, from a number per run and its standard error.

    Method of moments: the variance of the true numbers is the observed variance minus the mean
    squared error, and at least 0. None for fewer than two runs.
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
    """Return the sample standard deviation; exactly 0 for numbers that differ only by rounding."""
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
