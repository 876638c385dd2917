"""Bootstrap over groups of runs: hand-computed values and simulated coverage."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from zerolab.studies.joint_estimates import bootstrap, bootstrap_mean_statistic
from zerolab.studies.statistics import BootstrapEstimate


def test_bootstrap_p_values_are_shares_of_draws():
    result = BootstrapEstimate(5.0, np.arange(1.0, 10.0))
    assert result.p_value(2.0) == pytest.approx(4 / 9)
    assert result.p_value(5.0) == 1.0
    assert result.p_value(-1.0) == result.p_value(99.0) == pytest.approx(1 / 10)
    assert BootstrapEstimate(5.0, np.arange(1.0, 10.0), 2).p_value(99.0) == 0.25


def test_bootstrap_resamples_runs_within_groups():
    def statistic(one, other):
        assert set(one) <= {"a", "b", "c"}
        assert set(other) <= {"d", "e"}
        assert (len(one), len(other)) == (3, 2)
        return one.count("a") - other.count("d")

    result = bootstrap(["a", "b", "c"], ["d", "e"], statistic=statistic, seed=4, sample_count=300)
    assert (result.value, len(result.replicates)) == (0.0, 300)
    repeated = bootstrap(["a", "b", "c"], ["d", "e"], statistic=statistic, seed=4, sample_count=300)
    assert (repeated.replicates == result.replicates).all()


def test_degrees_of_freedom_of_a_bootstrap_agree_with_hand_computed_values():
    """Means of n runs with equal variances have variances of 1/n with n - 1 degrees of freedom."""

    def freedom(*sizes):
        groups = [list(range(size)) for size in sizes]
        return bootstrap(*groups, statistic=lambda *_: 0.0, sample_count=1).degrees_of_freedom

    assert freedom(3, 2) == pytest.approx((5 / 6) ** 2 / (1 / 9 / 2 + 1 / 4))
    assert freedom(2, 8) == pytest.approx((5 / 8) ** 2 / (1 / 4 + 1 / 64 / 7))
    assert (freedom(5), freedom(3, 3), freedom(*[3] * 25)) == (4, 4, 50)


def test_bootstrap_in_one_batch_has_the_same_samples():
    """A mean over groups of different sizes, of a statistic of two measures per run."""
    random = np.random.default_rng(3)
    groups = [random.normal(size=(runs, 2)) for runs in (3, 5, 2)]

    def covariances(samples):
        centred = samples - samples.mean(axis=1, keepdims=True)
        return (centred[..., 0] * centred[..., 1]).mean(axis=1)

    one_by_one = bootstrap(
        *map(list, groups),
        statistic=lambda *each: np.mean([covariances(np.array(group)[None])[0] for group in each]),
        sample_count=50,
    )
    batch = bootstrap_mean_statistic(*groups, statistic=covariances, sample_count=50)
    assert batch.value == pytest.approx(one_by_one.value)
    assert batch.replicates == pytest.approx(one_by_one.replicates)
    assert batch.degrees_of_freedom == one_by_one.degrees_of_freedom
    alone = bootstrap_mean_statistic(groups[2][:1], statistic=covariances)
    assert (alone.degrees_of_freedom, len(alone.replicates)) == (0, 0)
    with pytest.raises(ValueError, match="at least one run per group"):
        bootstrap_mean_statistic(np.empty((0, 2)), statistic=covariances)


def test_bootstrap_ignores_nan():
    def share(runs):
        return math.nan if sum(runs) == 0 else max(runs) / sum(runs)

    result = bootstrap([0, 0, 2, 3], statistic=share)
    assert 0 < len(result.replicates) < 4000
    assert result.interval.low < result.interval.high
    with pytest.raises(ValueError, match="is nan"):
        bootstrap([0, 0], statistic=share)
    with pytest.raises(ValueError, match="at least one run"):
        bootstrap([1], [], statistic=lambda one, other: 0.0)


def test_group_of_one_run_has_an_infinite_interval():
    """The spread of six other runs says nothing about that of a single one."""
    six = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02]
    for estimate in (
        bootstrap([1.3], six, statistic=lambda a, b: fmean(a) / fmean(b)),
        bootstrap_mean_statistic(
            np.array(six)[:, None], np.ones((1, 1)), statistic=lambda each: each.mean(axis=(1, 2))
        ),
    ):
        assert (estimate.interval.low, estimate.interval.high) == (-math.inf, math.inf)
        assert estimate.p_value(-1000.0) == 1.0


def coverage(make, truth):
    """Return the share of 200 simulated intervals that contain the true value."""
    rng = np.random.default_rng(1)
    intervals = [make(rng).interval for _ in range(200)]
    return np.mean([low <= truth <= high for _, low, high in intervals])


@pytest.mark.parametrize("runs", [3, 4, 8, 16])
def test_bootstrap_intervals_have_their_coverage(runs):
    """Without widening, intervals of four runs would only cover 80 % of true values."""

    def make(rng):
        sample = rng.normal(7, 3, runs)
        return bootstrap(sample, statistic=lambda drawn: sum(drawn) / runs, sample_count=300)

    assert coverage(make, 7) == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize(("sizes", "largest_margin"), [((3, 8), 0.7), ((2, 8), 1.2)])
def test_bootstrap_intervals_of_unequal_groups_have_their_coverage(sizes, largest_margin):
    """With n - g degrees of freedom, intervals for 3 and 8 or 2 and 8 runs cover 90 or 85 %."""
    margins = []

    def make(rng):
        groups = (rng.normal(1.0, 0.2, size).tolist() for size in sizes)
        result = bootstrap(*groups, statistic=lambda a, b: fmean(a) / fmean(b), sample_count=300)
        margins.append((result.interval.high - result.interval.low) / 2)
        return result

    assert coverage(make, 1.0) >= 0.94
    assert np.median(margins) < largest_margin
