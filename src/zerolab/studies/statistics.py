"""Estimates over the runs of a study, with 95 % confidence intervals and p-values.

The sampling unit is the run. Runs that differ only in their seed are independent, but the games of
a run are not. Each number passed to these functions therefore represents one run, and intervals
show how much the result would vary if the runs were trained again.

Having few runs is not an error. A single run has an infinite interval and p = 1. Identical results
of several runs do not prove that there is no variation, so p is then 2^-f for f degrees of freedom,
as in a sign test with f + 1 runs on the same side. In this case, the interval has width 0 if p is
below 0.05, and is infinite otherwise. Estimating from no runs at all raises ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.report.figures import RunSample
from zerolab.report.table import Interval, wilson_interval

SIGNIFICANCE_LEVEL = 0.05
"""Significance level of tests. Intervals have coverage 1 - SIGNIFICANCE_LEVEL."""

_ROUNDING = 1e-12  # differences below this share of the largest number count as 0


class ClaimEstimate(Protocol):
    """Estimate that can decide a claim, with a 95 % confidence interval and a hypothesis test."""

    @property
    def value(self) -> float:
        """Estimated value."""
        ...

    @property
    def interval(self) -> Interval:
        """Value with its 95 % confidence interval."""
        ...

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the true value is the threshold."""
        ...


class StudentEstimate(NamedTuple):
    """Estimate whose error, divided by the standard error, has Student's t distribution."""

    value: float
    standard_error: float
    """Standard error: infinite if unknown, 0 if all numbers are equal."""
    degrees_of_freedom: float
    """Degrees of freedom; if not positive, the error is unknown."""

    @property
    def interval(self) -> Interval:
        """Value with its 95 % confidence interval."""
        return Interval(self.value, self.interval_end(-1.0), self.interval_end(1.0))

    def interval_end(self, sign: float, level: float = SIGNIFICANCE_LEVEL) -> float:
        """Return the upper (`sign` 1) or lower (-1) end of the interval with coverage 1 - level."""
        return self.value + sign * self.margin(level)

    def margin(self, level: float = SIGNIFICANCE_LEVEL) -> float:
        """Return half the width of the confidence interval with coverage 1 - level."""
        if not self._is_known():
            return math.inf
        if self.standard_error == 0.0:
            return 0.0 if math.exp2(-self.degrees_of_freedom) < level else math.inf
        return student_quantile(self.degrees_of_freedom, level) * self.standard_error

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of a t-test."""
        if not self._is_known():
            return 1.0
        distance = abs(self.value - threshold)
        if self.standard_error == 0.0:
            return 1.0 if distance == 0.0 else math.exp2(-self.degrees_of_freedom)
        return 2.0 * _student_tail(self.degrees_of_freedom, distance / self.standard_error)

    def _is_known(self) -> bool:
        return self.degrees_of_freedom > 0 and self.standard_error < math.inf


class BootstrapEstimate(NamedTuple):
    """Estimate with bootstrap replicates [Efron1979]; see `joint_estimates.bootstrap`."""

    value: float
    replicates: NDArray[np.float64]
    """Bootstrap values of the statistic, widened as in `joint_estimates.bootstrap`; empty if a
    group has only one run."""
    degrees_of_freedom: float = math.inf
    """Degrees of freedom, f. As in a sign test, p is at least 2^-f."""

    @property
    def interval(self) -> Interval:
        """Value with its 95 % percentile interval."""
        if not len(self.replicates):
            return Interval.unbounded(self.value)
        low, high = (
            float(np.quantile(self.replicates, end))
            for end in (SIGNIFICANCE_LEVEL / 2, 1 - SIGNIFICANCE_LEVEL / 2)
        )
        return Interval(self.value, low, high)

    def p_value(self, threshold: float) -> float:
        """Return twice the share of replicates beyond the threshold.

        The result is at least 1 / (replicates + 1) and at least 2^-degrees_of_freedom.
        """
        count = len(self.replicates)
        if not count:
            return 1.0
        below = int((self.replicates <= threshold).sum())
        above = int((self.replicates >= threshold).sum())
        beyond = 2 * min(below, above) / count
        return min(1.0, max(beyond, 1 / (count + 1), math.exp2(-self.degrees_of_freedom)))


class BinomialEstimate(NamedTuple):
    """Probability estimated from independent trials, whose effective number can be a fraction."""

    successes: float
    trials: float

    @property
    def value(self) -> float:
        """Share of successes; 0.5 without trials."""
        return self.successes / self.trials if self.trials else 0.5

    @property
    def interval(self) -> Interval:
        """Share of successes with Wilson's interval [Wilson1927]."""
        value, low, high = wilson_interval(self.value, self.trials)
        # Rounding can put a share of 0 or 1 just outside its interval.
        return Interval(value, min(value, low), max(value, high))

    def interval_end(self, sign: float, level: float = SIGNIFICANCE_LEVEL) -> float:
        """Return the upper (`sign` 1) or lower (-1) end of Wilson's 1 - level interval."""
        from scipy.special import ndtri  # noqa: PLC0415  slow to import

        value, low, high = wilson_interval(self.value, self.trials, float(ndtri(1.0 - level / 2.0)))
        return max(value, high) if sign > 0.0 else min(value, low)

    def p_value(self, threshold: float) -> float:
        """Return twice the smaller tail of a binomial distribution, for a threshold in [0, 1]."""
        from scipy.special import betainc  # noqa: PLC0415  slow to import

        # The incomplete beta function extends the tails to fractions of trials.
        successes, failures = self.successes, self.trials - self.successes
        at_most = float(betainc(failures, successes + 1, 1.0 - threshold)) if failures else 1.0
        at_least = float(betainc(successes, failures + 1, threshold)) if successes else 1.0
        return min(1.0, 2.0 * at_most, 2.0 * at_least)


def estimate_mean(values: ArrayLike) -> StudentEstimate:
    """Estimate the mean of `values`, which contain one number per run."""
    return _mean(_numbers(values))


def run_sample(
    values: Sequence[float], errors: Sequence[float] = (), published: float | None = None
) -> RunSample:
    """Return a sample for plots: one number per run, and the mean with its interval."""
    return RunSample(
        values, errors, published, estimate_mean(values).interval if len(values) else None
    )


POOLED_VARIANCE_NOTE = (
    "Intervals pool the variance between runs within a group and allow for correlated results of"
    " runs with the same seed."
)
"""Note under figures and tables of samples with pooled intervals."""


def pooled_intervals(samples: Sequence[Sequence[float]]) -> list[Interval]:
    """Return each sample's mean with a 95 % interval from the variance pooled over all samples.

    If the true variances are equal and runs are few, these intervals are much shorter than those
    from separate variances. Numbers with the same index belong to runs with the same seed, which
    can be correlated, for example by playing in the same tournament. While samples have different
    sizes, because a study is unfinished, the intervals are therefore wider than in the end. Samples
    must not be empty. If no sample has several values, the intervals are unbounded.
    """
    arrays = [_numbers(sample) for sample in samples]
    squares, count = squared_deviations(samples)
    error = math.sqrt(squares / count) if count else math.inf
    degrees_of_freedom = _pooled_degrees_of_freedom(arrays)
    means = [(float(array.mean()), error / math.sqrt(len(array))) for array in arrays]
    return [StudentEstimate(*each, degrees_of_freedom).interval for each in means]


def _pooled_degrees_of_freedom(samples: Sequence[NDArray[np.float64]]) -> float:
    """Return the degrees of freedom of the pooled variance in the model of `block_model`.

    The variance is a weighted mean of the mean squares of seeds and of errors, which are
    independent, so its degrees of freedom follow [Satterthwaite1946]. Samples of different sizes
    cannot be matched by index. They count as completely correlated, which leaves the degrees of
    freedom of the largest sample. Samples without variation add none.
    """
    largest = max(map(len, samples), default=1)
    if largest == 1 or any(len(sample) < largest for sample in samples):
        return largest - 1
    varied = [each - each.mean() for each in samples if _deviation(each) > 0.0]
    if not varied:
        return largest - 1
    residuals = np.array(varied)
    common = residuals.mean(axis=0)
    within = float(((residuals - common) ** 2).sum())
    between = float(len(residuals) * (common**2).sum())
    squares = between**2 + within**2 / max(1, len(residuals) - 1)
    return (largest - 1) * ((between + within) ** 2 / squares)


def squared_deviations(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the sum of squared deviations from the group means, and its degrees of freedom.

    Groups can be empty. A group whose numbers differ only by rounding adds 0 to the sum.
    """
    arrays = [_numbers(group) for group in groups if len(group)]
    squares = sum((len(array) - 1) * _deviation(array) ** 2 for array in arrays if len(array) > 1)
    return squares, sum(len(array) - 1 for array in arrays)


def without_rounding(difference: float, numbers: Sequence[float]) -> float:
    """Return a difference between numbers, or 0 if it is only a rounding error."""
    return 0.0 if abs(difference) <= _ROUNDING * max(map(abs, numbers)) else difference


def with_pooled_intervals(
    groups: Mapping[str, Mapping[str, RunSample]],
) -> dict[str, dict[str, RunSample]]:
    """Return the samples, with intervals from the variance pooled over the samples of a group."""
    pooled: dict[str, dict[str, RunSample]] = {}
    for title, samples in groups.items():
        measured = {name: each.values for name, each in samples.items() if each.values}
        intervals = dict(zip(measured, pooled_intervals(list(measured.values())), strict=True))
        pooled[title] = {
            name: each._replace(mean=intervals.get(name)) for name, each in samples.items()
        }
    return pooled


def paired_difference(one: ArrayLike, other: ArrayLike) -> StudentEstimate:
    """Return the mean of `one` minus `other` over pairs of runs with a common seed or setting.

    Raises ValueError if the lengths differ.
    """
    first, second = _numbers(one), _numbers(other)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} numbers: expected equal lengths")
    difference = first - second
    difference[np.abs(difference) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return _mean(difference)


def weighted_sum(terms: Sequence[tuple[float, StudentEstimate]]) -> StudentEstimate:
    """Return the weighted sum of independent estimates with non-zero weights.

    Variances can differ, and the degrees of freedom follow [Welch1947]. An error that is known
    exactly has infinite degrees of freedom. Raises ValueError if there are no terms.
    """
    if not terms:
        raise ValueError("expected at least one estimate")
    value = sum(weight * estimate.value for weight, estimate in terms)
    errors = [abs(weight) * estimate.standard_error for weight, estimate in terms]
    error = math.hypot(*errors)
    if math.isinf(error):
        return StudentEstimate(value, math.inf, 0)
    if error == 0.0:
        finite = [
            each.degrees_of_freedom for _, each in terms if math.isfinite(each.degrees_of_freedom)
        ]
        return StudentEstimate(value, 0.0, sum(finite) if finite else math.inf)
    shares = sum(
        (part / error) ** 4 / estimate.degrees_of_freedom
        for part, (_, estimate) in zip(errors, terms, strict=True)
    )
    return StudentEstimate(value, error, 1.0 / shares if shares else math.inf)


INTERCEPT = "intercept"
"""Name of the constant in `linear_regression`."""


def linear_regression(
    X: ArrayLike,  # noqa: N803  conventional symbol
    y: ArrayLike,
    names: Sequence[str],
) -> dict[str, StudentEstimate]:
    """Fit y = intercept + X b + error by ordinary least squares and return the coefficients.

    X has one row per run and one column per name; y has one number per run. The intervals are t
    intervals. Their degrees of freedom are the number of runs minus the rank of the design matrix.
    Coefficients that are not identifiable have infinite intervals. Without degrees of freedom, all
    intervals are infinite.
    """
    target = _numbers(y)
    columns = np.asarray(X, np.float64).reshape(len(target), len(names))
    design = np.column_stack([np.ones(len(target)), columns])
    inverse = np.linalg.pinv(design)
    fitted = inverse @ target
    residuals = target - design @ fitted
    degrees_of_freedom = len(target) - int(np.linalg.matrix_rank(design))
    largest = np.abs(target).max()
    if np.abs(residuals).max() <= 1e-9 * largest:  # exact fit except for rounding
        residuals[:] = 0.0
        fitted[np.abs(fitted) * np.abs(design).max(axis=0) <= 1e-9 * largest] = 0.0
    variance = float(residuals @ residuals) / max(1, degrees_of_freedom)
    errors = np.sqrt(variance * (inverse**2).sum(axis=1))
    determined = np.abs(np.diag(inverse @ design) - 1.0) < 1e-6
    errors[~determined] = math.inf
    return {
        name: StudentEstimate(float(value), float(error), degrees_of_freedom)
        for name, value, error in zip((INTERCEPT, *names), fitted, errors, strict=True)
    }


class SpreadComponents(NamedTuple):
    """Components of the standard deviation between runs that differ only in their seed."""

    observed_sd: float
    """Standard deviation of the measured values."""
    between_runs_sd: float
    """Standard deviation of the true values."""
    measurement_standard_error: float
    """Standard error of one measured value."""

    @property
    def error_share(self) -> float:
        """Share of the observed variance that is measurement error, from 0 to 1."""
        if self.observed_sd == 0.0:
            return 0.0 if self.measurement_standard_error == 0.0 else 1.0
        return min(1.0, (self.measurement_standard_error / self.observed_sd) ** 2)


def spread_components(
    values_per_run: ArrayLike, errors_per_run: ArrayLike
) -> SpreadComponents | None:
    """Return the components of the spread between runs, or None for fewer than two runs.

    The arguments contain one value per run and its standard error. By the method of moments, the
    variance of the true values is the observed variance minus the mean squared error, or 0 if the
    difference is negative.
    """
    values = np.asarray(values_per_run, np.float64)
    if len(values) < 2:
        return None
    observed = _deviation(_numbers(values))
    measurement_standard_error = math.sqrt(float(np.mean(np.square(_numbers(errors_per_run)))))
    between_runs = math.sqrt(max(0.0, observed**2 - measurement_standard_error**2))
    return SpreadComponents(observed, between_runs, measurement_standard_error)


def _mean(numbers: NDArray[np.float64]) -> StudentEstimate:
    degrees_of_freedom = len(numbers) - 1
    if degrees_of_freedom == 0:
        return StudentEstimate(float(numbers[0]), math.inf, 0)
    deviation = _deviation(numbers)
    value = float(numbers.mean()) if deviation else float(numbers[0])
    return StudentEstimate(value, deviation / math.sqrt(len(numbers)), degrees_of_freedom)


def _deviation(numbers: NDArray[np.float64]) -> float:
    """Return the sample standard deviation, or 0 for numbers that differ only by rounding."""
    if np.ptp(numbers) <= _ROUNDING * np.abs(numbers).max():
        return 0.0
    return float(numbers.std(ddof=1))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"expected one number per run for at least one run, not {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"expected finite numbers, not {numbers.tolist()}")
    return numbers


def _student_tail(degrees_of_freedom: float, t: float) -> float:
    from scipy.special import stdtr  # noqa: PLC0415  slow to import

    return float(stdtr(degrees_of_freedom, -t))


def student_quantile(degrees_of_freedom: float, level: float = SIGNIFICANCE_LEVEL) -> float:
    """Return the value that |t| exceeds with probability `level`, for Student's t."""
    from scipy.special import stdtrit  # noqa: PLC0415

    return float(stdtrit(degrees_of_freedom, 1 - level / 2))
