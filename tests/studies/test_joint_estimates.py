"""Joint estimates: hand-computed values, comparisons with scipy, and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from zerolab.report.table import wilson_interval
from zerolab.studies.joint_estimates import (
    RangeEstimate,
    contrast_of_means,
    estimate_largest,
    estimate_ranked,
    estimate_smallest,
    range_of_means,
    relative_spread,
    spread_ratio,
)
from zerolab.studies.statistics import (
    BinomialEstimate,
    StudentEstimate,
    estimate_mean,
    weighted_sum,
)


def test_smallest_of_one_number_is_its_estimate():
    one = estimate_mean([3.1, 4.4, 2.9, 5.0])
    estimate = estimate_smallest([one])
    assert (estimate.value, estimate.interval.low, estimate.interval.high) == pytest.approx(
        (one.value, one.interval.low, one.interval.high)
    )
    for threshold in (1.0, 3.9, 8.0):
        assert estimate.p_value(threshold) == pytest.approx(one.p_value(threshold))


def test_smallest_agrees_with_hand_computed_values():
    high, low = StudentEstimate(10.0, 1.0, math.inf), StudentEstimate(3.0, 1.0, math.inf)
    estimate = estimate_smallest([high, low, high])
    assert estimate.value == 3.0
    assert estimate.interval.low == pytest.approx(3.0 - 1.959964)
    # Bonferroni for three numbers: the quantile of 1 - 0.025 / 3 is 2.393980.
    assert estimate.interval.high == pytest.approx(3.0 + 2.393980)
    normal = scipy.stats.norm
    assert estimate.p_value(1.0) == pytest.approx(2 * normal.sf(2.0))
    assert estimate.p_value(6.0) == pytest.approx(2 * 3 * normal.sf(3.0))
    assert estimate.p_value(estimate.interval.low) == pytest.approx(0.05)
    assert estimate.p_value(estimate.interval.high) == pytest.approx(0.05)


def test_smallest_of_shares_uses_their_binomial_tests():
    low, high = BinomialEstimate(60, 100), BinomialEstimate(90, 100)
    estimate = estimate_smallest([high, low])
    assert estimate.value == 0.6
    assert estimate.p_value(0.5) == pytest.approx(low.p_value(0.5))
    assert estimate.interval.low == low.interval.low
    # Bonferroni for two numbers: Wilson's interval with the quantile of 1 - 0.025 / 2.
    assert estimate.interval.high == pytest.approx(wilson_interval(0.6, 100, 2.2414027276).high)
    assert estimate_smallest([low]).interval.high == pytest.approx(low.interval.high)


def test_number_of_one_run_leaves_only_an_upper_bound():
    unknown, low = estimate_mean([100.0]), StudentEstimate(-5.0, 1.0, 30)
    estimate = estimate_smallest([unknown, low])
    assert estimate.interval.low == -math.inf
    assert estimate.interval.high < 0.0
    assert estimate.p_value(0.0) < 0.01
    assert estimate_smallest([unknown, StudentEstimate(5.0, 1.0, 30)]).p_value(0.0) == 1.0
    with pytest.raises(ValueError, match="at least one estimate"):
        estimate_smallest([])


@pytest.mark.parametrize("truths", [[0.0] * 5, [0.0, 9.0, 9.0], [0.0, 0.3, 1.0]])
def test_smallest_keeps_the_rejection_rate(truths):
    """The smallest of equal numbers is biased, which must not raise the rejection rate."""
    rng = np.random.default_rng(7)
    rejected = outside = 0
    for _ in range(1000):
        estimate = estimate_smallest([estimate_mean(rng.normal(truth, 1.0, 5)) for truth in truths])
        rejected += estimate.p_value(0.0) < 0.05
        outside += not estimate.interval.low <= 0.0 <= estimate.interval.high
    assert rejected == outside
    assert rejected / 1000 <= 0.05 + 0.02


def test_smallest_detects_a_clear_lead():
    rng = np.random.default_rng(8)
    estimate = [
        estimate_smallest([estimate_mean(rng.normal(4.0, 1.0, 6)) for _ in range(5)])
        for _ in range(200)
    ]
    assert np.mean([item.p_value(0.0) < 0.05 for item in estimate]) > 0.95


def test_largest_is_the_negated_smallest_of_negated_values():
    groups = [[1.0, 2.0, 4.0], [9.0, 7.0, 8.5], [0.0, -3.0, 1.0]]
    estimate = estimate_largest([estimate_mean(group) for group in groups])
    negated = estimate_smallest([estimate_mean([-value for value in group]) for group in groups])
    assert (estimate.value, estimate.interval.low, estimate.interval.high) == (
        -negated.value,
        -negated.interval.high,
        -negated.interval.low,
    )
    assert estimate.value == pytest.approx(24.5 / 3)
    assert estimate.p_value(5.0) == negated.p_value(-5.0)


THREE = [StudentEstimate(value, error, 20) for value, error in ((30, 9), (-5, 20), (12, 4))]


def test_second_largest_of_three_needs_two_values():
    """Two of three values are above or below a threshold: twice the second smallest p-value."""
    ranked = estimate_ranked(THREE, 2)
    assert ranked.value == 12
    assert ranked.p_value(0.0) == pytest.approx(2 * THREE[2].p_value(0.0))
    assert ranked.p_value(25.0) == pytest.approx(2 * THREE[1].p_value(25.0))
    low, high = ranked.interval[1:]
    assert ranked.p_value(low) == pytest.approx(0.05)
    assert ranked.p_value(high) == pytest.approx(0.05)


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_wrong_decisions_on_ranks_are_rare(rank):
    """The true value with this rank is 0, and others are equal or far away."""
    random = np.random.default_rng(rank)
    for means in ([0.0] * 5, [9.0] * (rank - 1) + [0.0] + [-9.0] * (5 - rank)):
        samples = random.normal(means, 1.0, (400, 8, 5))
        errors = samples.std(axis=1, ddof=1) / math.sqrt(8)
        rejected = 0
        for sample, sample_errors in zip(samples, errors, strict=True):
            pairs = zip(sample.mean(axis=0), sample_errors, strict=True)
            estimates = [StudentEstimate(value, error, 7) for value, error in pairs]
            rejected += estimate_ranked(estimates, rank).p_value(0.0) < 0.05
        assert rejected / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_range_of_means_agrees_with_tukey_hsd():
    groups = [[1.0, 2.0, 4.0, 3.5], [9.0, 7.0, 8.5, 6.0], [4.0, 3.0, 1.0, 5.0]]
    estimate = range_of_means(groups, groups)
    expected = scipy.stats.tukey_hsd(*groups)
    assert estimate.value == pytest.approx(7.625 - 2.625)
    assert estimate.p_value(0.0) == pytest.approx(expected.pvalue[1, 0])
    interval = expected.confidence_interval(0.95)
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx(
        (interval.low[1, 0], interval.high[1, 0])
    )


@pytest.mark.parametrize(
    ("count", "expected"), [(2, 1.12838), (3, 1.69257), (4, 2.05875), (10, 3.07751)]
)
def test_range_by_chance_agrees_with_the_table_of_expected_ranges(count, expected):
    """Table of d2, the factors of control charts for ranges."""
    assert RangeEstimate(1.0, 2.0, count, 5).expected_range_by_chance == pytest.approx(
        2 * expected, abs=2e-5
    )
    assert RangeEstimate(1.0, 2.0, count, 0).expected_range_by_chance is None


def test_other_groups_sharpen_the_range():
    """Few runs cannot show their spread, but forty other groups can."""
    rng = np.random.default_rng(0)
    others = [rng.normal(0.0, 1.0, 2) for _ in range(40)]
    three = [[0.0, 1.0], [4.0, 5.0], [0.5, 1.5]]
    assert range_of_means(three, three).p_value(0.0) > 0.01
    assert range_of_means(three, others).p_value(0.0) < 0.001


def test_range_keeps_the_rejection_rate():
    rng = np.random.default_rng(3)
    rejected, chance, ranges = 0, [], []
    for number in range(1000):
        groups = rng.normal(0.0, 1.0, (8, 3)).tolist()
        estimate = range_of_means(groups[:3], groups)
        if number < 200:
            rejected += estimate.p_value(0.0) < 0.05
        if number < 40:
            assert (estimate.interval.low > 0.0) == (estimate.p_value(0.0) < 0.05)
        chance.append(estimate.expected_range_by_chance)
        ranges.append(estimate.value)
    assert 0.02 < rejected / 200 < 0.08
    assert np.mean(chance) == pytest.approx(np.mean(ranges), rel=0.05)


def test_contrast_agrees_with_hand_computed_values():
    """Pooled variance 2 with 2 degrees of freedom, and squared error 2 (1/2 + 4/2)."""
    groups = [[1.0, 3.0], [10.0, 12.0]]
    estimate = contrast_of_means([(1.0, groups[1]), (-2.0, groups[0])], groups)
    assert estimate == pytest.approx((7.0, math.sqrt(2.0 * 2.5), 2))
    same = scipy.stats.ttest_ind(*groups)
    assert contrast_of_means([(1.0, groups[0]), (-1.0, groups[1])], groups).p_value(
        0.0
    ) == pytest.approx(same.pvalue)
    assert contrast_of_means([(1.0, [5.0])], [[5.0]]).p_value(0.0) == 1.0
    with pytest.raises(ValueError, match="at least one run"):
        contrast_of_means([(1.0, [])], groups)


def test_rounding_is_no_spread():
    """The mean of three times 0.7 is not exactly 0.7."""
    groups = [[0.7] * 3, [0.6] * 3]
    estimate = contrast_of_means([(1.0, groups[0]), (-1.0, groups[1])], groups)
    assert estimate.p_value(0.0) == 2**-4
    assert range_of_means(groups, groups).p_value(0.0) == 2**-4
    assert spread_ratio([[1.0, 2.0]], groups) is None
    for equal in ([[0.7] * 3, [0.7] * 8], [[0.7] * 3, [0.1 * 7] * 3]):
        assert contrast_of_means([(1.0, equal[0]), (-1.0, equal[1])], equal).p_value(0.0) == 1.0
        assert range_of_means(equal, equal).p_value(0.0) == 1.0


def test_range_without_spread():
    unknown = range_of_means([[1.0], [3.0]], [[1.0], [3.0]])
    assert (unknown.value, unknown.expected_range_by_chance, unknown.p_value(0.0)) == (
        2.0,
        None,
        1.0,
    )
    assert (unknown.interval.low, unknown.interval.high) == (-math.inf, math.inf)
    exact = range_of_means([[1.0, 1.0], [3.0, 3.0]], [[1.0, 1.0], [3.0, 3.0]])
    assert (exact.interval.low, exact.interval.high, exact.p_value(0.0)) == (0.0, math.inf, 0.25)
    threes = [[1.0] * 4, [3.0] * 4]
    certain = range_of_means(threes, threes)
    assert (certain.interval.low, certain.interval.high, certain.p_value(0.0)) == (2.0, 2.0, 2**-6)
    with pytest.raises(ValueError, match="at least one run"):
        range_of_means([[1.0], []], [])


def test_weighted_sum_agrees_with_hand_computed_values():
    """Variances 4 * 1/4 and 9 * 4/9, with 3 and 8 degrees of freedom."""
    estimate = weighted_sum(
        [(2.0, StudentEstimate(1.0, 0.5, 3)), (-3.0, StudentEstimate(2.0, 2 / 3, 8))]
    )
    assert estimate.value == -4.0
    assert estimate.standard_error == pytest.approx(math.sqrt(1 + 4))
    assert estimate.degrees_of_freedom == pytest.approx(25 / (1 / 3 + 16 / 8))
    known = weighted_sum([(1.0, StudentEstimate(0.0, 1.0, math.inf))] * 2)
    assert known.p_value(2.0) == pytest.approx(2 * scipy.stats.norm.sf(math.sqrt(2)))
    assert (
        weighted_sum([(1.0, estimate_mean([3.0])), (1.0, estimate_mean([1.0, 2.0]))]).interval.high
        == math.inf
    )
    with pytest.raises(ValueError, match="at least one estimate"):
        weighted_sum([])


def test_spread_ratio_is_an_f_test():
    estimate = spread_ratio([[1.0, 2.0, 3.0]], [[0.0, 6.0], [1.0, 5.0, 9.0]])
    # Variances 2 / 2 and (18 + 32) / 3.
    assert estimate.value == pytest.approx(math.sqrt(3 / 50))
    assert estimate.p_value(1.0) == pytest.approx(2 * scipy.stats.f.cdf(3 / 50, 2, 3))
    wide = spread_ratio([[0.0, 6.0], [1.0, 5.0, 9.0]], [[1.0, 2.0, 3.0]])
    assert (wide.interval.low, wide.interval.high) == pytest.approx(
        (1 / estimate.interval.high, 1 / estimate.interval.low)
    )
    for end in (wide.interval.low, wide.interval.high):
        assert wide.p_value(end) == pytest.approx(0.05)


def test_spread_ratio_without_spread():
    assert spread_ratio([[1.0], [2.0]], [[1.0, 2.0]]) is None
    assert spread_ratio([[1.0, 2.0]], [[3.0, 3.0]]) is None
    equal = spread_ratio([[3.0, 3.0, 3.0]], [[1.0, 2.0, 4.0]])
    assert (equal.value, equal.p_value(1.0)) == (0.0, 0.25)
    assert (equal.interval.low, equal.interval.high) == (0.0, math.inf)
    surely_equal = spread_ratio([[3.0] * 6], [[1.0, 2.0, 4.0]])
    assert (surely_equal.interval.high, surely_equal.p_value(1.0)) == (0.0, 2**-5)


def test_relative_spread_is_that_of_an_analysis_of_variance():
    """Hand-computed: mean squares of 72 between and 2 within three groups of two."""
    groups = [[1.0, 3.0], [7.0, 9.0], [13.0, 15.0]]
    estimate = relative_spread(groups)
    assert estimate.value == pytest.approx(math.sqrt((36 - 1) / 2))
    assert estimate.p_value(0.0) == pytest.approx(2 * scipy.stats.f_oneway(*groups).pvalue)
    assert estimate.p_value(estimate.interval.low) == pytest.approx(0.05)


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0, 2.0], [3.0]], [[1.0, 1.0], [2.0, 2.0]]])
def test_relative_spread_needs_equal_groups_that_vary(groups):
    assert relative_spread(groups) is None


@pytest.mark.parametrize("size", [2, 8])
def test_relative_spread_does_not_depend_on_the_size_of_groups(size):
    """Intervals cover a true spread of 1.5, and groups without effects have none."""
    rng = np.random.default_rng(size)
    covered, found = 0, []
    for _ in range(400):
        effects = rng.normal(0.0, 3.0, 12)
        estimate = relative_spread([rng.normal(effect, 2.0, size).tolist() for effect in effects])
        covered += estimate.interval.low <= 1.5 <= estimate.interval.high
        found.append(estimate.value)
    assert 0.92 <= covered / 400 <= 0.98
    assert np.median(found) == pytest.approx(1.5, abs=0.15)
    alike = relative_spread(rng.normal(0.0, 2.0, (48, size)).tolist())
    assert alike.interval.low == 0.0 <= alike.value < 0.5


def test_spread_ratio_intervals_have_their_coverage():
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        one = [rng.normal(mean, 2.0, 4).tolist() for mean in (0, 50, 100)]
        estimate = spread_ratio(one, [rng.normal(mean, 5.0, 4).tolist() for mean in (9, 8, 7)])
        hits += estimate.interval.low <= 0.4 <= estimate.interval.high
    assert hits / 1000 == pytest.approx(0.95, abs=0.02)
