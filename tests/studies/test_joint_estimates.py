"""The smallest of several numbers and ratios of spreads: by hand, against scipy, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from zerolab.studies.joint_estimates import (
    contrast,
    largest,
    range_of_means,
    smallest,
    spread_ratio,
)
from zerolab.studies.statistics import StudentEstimate, mean_of, weighted_sum


def test_one_number_is_its_own_smallest():
    one = mean_of([3.1, 4.4, 2.9, 5.0])
    found = smallest([one])
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx(
        (one.value, one.interval.low, one.interval.high)
    )
    for threshold in (1.0, 3.9, 8.0):
        assert found.p_value(threshold) == pytest.approx(one.p_value(threshold))


def test_all_must_be_above_and_one_below_is_enough():
    high, low = StudentEstimate(10.0, 1.0, math.inf), StudentEstimate(3.0, 1.0, math.inf)
    found = smallest([high, low, high])
    assert found.value == 3.0
    assert found.interval.low == pytest.approx(3.0 - 1.959964)
    # 97.5 % divided among three: the quantile of 1 - 0.025 / 3 is 2.393980.
    assert found.interval.high == pytest.approx(3.0 + 2.393980)
    normal = scipy.stats.norm
    assert found.p_value(1.0) == pytest.approx(2 * normal.sf(2.0))
    assert found.p_value(6.0) == pytest.approx(2 * 3 * normal.sf(3.0))
    assert found.p_value(found.interval.low) == pytest.approx(0.05)
    assert found.p_value(found.interval.high) == pytest.approx(0.05)


def test_a_number_of_one_run_prevents_above_but_not_below():
    unknown, low = mean_of([100.0]), StudentEstimate(-5.0, 1.0, 30)
    found = smallest([unknown, low])
    assert found.interval.low == -math.inf
    assert found.interval.high < 0.0
    assert found.p_value(0.0) < 0.01
    assert smallest([unknown, StudentEstimate(5.0, 1.0, 30)]).p_value(0.0) == 1.0
    with pytest.raises(ValueError, match="no numbers"):
        smallest([])


@pytest.mark.parametrize("truths", [[0.0] * 5, [0.0, 9.0, 9.0], [0.0, 0.3, 1.0]])
def test_the_smallest_is_rejected_no_more_often_than_it_should(truths):
    """With equal numbers the smallest estimate is biased, which must not look like a finding."""
    rng = np.random.default_rng(7)
    rejected = outside = 0
    for _ in range(1000):
        found = smallest([mean_of(rng.normal(truth, 1.0, 5)) for truth in truths])
        rejected += found.p_value(0.0) < 0.05
        outside += not found.interval.low <= 0.0 <= found.interval.high
    assert rejected == outside
    assert rejected / 1000 <= 0.05 + 0.02


def test_a_clear_lead_is_found():
    rng = np.random.default_rng(8)
    found = [smallest([mean_of(rng.normal(4.0, 1.0, 6)) for _ in range(5)]) for _ in range(200)]
    assert np.mean([each.p_value(0.0) < 0.05 for each in found]) > 0.95


def test_the_largest_is_the_smallest_with_signs_reversed():
    groups = [[1.0, 2.0, 4.0], [9.0, 7.0, 8.5], [0.0, -3.0, 1.0]]
    found = largest([mean_of(group) for group in groups])
    turned = smallest([mean_of([-each for each in group]) for group in groups])
    assert (found.value, found.interval.low, found.interval.high) == (
        -turned.value,
        -turned.interval.high,
        -turned.interval.low,
    )
    assert found.value == pytest.approx(24.5 / 3)
    assert found.p_value(5.0) == turned.p_value(-5.0)


def test_the_range_of_two_means_is_tukeys_test():
    groups = [[1.0, 2.0, 4.0, 3.5], [9.0, 7.0, 8.5, 6.0], [4.0, 3.0, 1.0, 5.0]]
    found = range_of_means(groups, groups)
    expected = scipy.stats.tukey_hsd(*groups)
    assert found.value == pytest.approx(7.625 - 2.625)
    assert found.p_value(0.0) == pytest.approx(expected.pvalue[1, 0])
    interval = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (interval.low[1, 0], interval.high[1, 0])
    )


def test_the_spread_of_other_groups_sharpens_a_range():
    """Few runs show nothing by themselves; forty groups of equal spread show how small it is."""
    rng = np.random.default_rng(0)
    others = [rng.normal(0.0, 1.0, 2) for _ in range(40)]
    three = [[0.0, 1.0], [4.0, 5.0], [0.5, 1.5]]
    assert range_of_means(three, three).p_value(0.0) > 0.01
    assert range_of_means(three, others).p_value(0.0) < 0.001


def test_equal_means_are_rejected_no_more_often_than_they_should():
    rng = np.random.default_rng(3)
    rejected, chance, ranges = 0, [], []
    for number in range(1000):
        every = rng.normal(0.0, 1.0, (8, 3)).tolist()
        found = range_of_means(every[:3], every)
        if number < 400:
            rejected += found.p_value(0.0) < 0.05
        if number < 50:
            assert (found.interval.low > 0.0) == (found.p_value(0.0) < 0.05)
        chance.append(found.by_chance)
        ranges.append(found.value)
    assert 0.02 < rejected / 400 < 0.08
    assert np.mean(chance) == pytest.approx(np.mean(ranges), rel=0.05)


def test_a_contrast_by_hand():
    """Two groups with a variance of 2 over 2 degrees of freedom; 1/2 + 4/2 of it is the error."""
    groups = [[1.0, 3.0], [10.0, 12.0]]
    found = contrast([(1.0, groups[1]), (-2.0, groups[0])], groups)
    assert found == pytest.approx((7.0, math.sqrt(2.0 * 2.5), 2))
    same = scipy.stats.ttest_ind(*groups)
    assert contrast([(1.0, groups[0]), (-1.0, groups[1])], groups).p_value(0.0) == pytest.approx(
        same.pvalue
    )
    assert contrast([(1.0, [5.0])], [[5.0]]).p_value(0.0) == 1.0
    with pytest.raises(ValueError, match="without runs"):
        contrast([(1.0, [])], groups)


def test_a_range_without_spread():
    unknown = range_of_means([[1.0], [3.0]], [[1.0], [3.0]])
    assert (unknown.value, unknown.by_chance, unknown.p_value(0.0)) == (2.0, None, 1.0)
    assert (unknown.interval.low, unknown.interval.high) == (-math.inf, math.inf)
    exact = range_of_means([[1.0, 1.0], [3.0, 3.0]], [[1.0, 1.0], [3.0, 3.0]])
    assert (exact.interval.low, exact.interval.high, exact.p_value(0.0)) == (2.0, 2.0, 0.25)
    with pytest.raises(ValueError, match="without runs"):
        range_of_means([[1.0], []], [])


def test_weighted_sums():
    """Variances 4 * 1 / 4 and 9 * 4 / 9 with 3 and 8 degrees of freedom."""
    found = weighted_sum(
        [(2.0, StudentEstimate(1.0, 0.5, 3)), (-3.0, StudentEstimate(2.0, 2 / 3, 8))]
    )
    assert found.value == -4.0
    assert found.error == pytest.approx(math.sqrt(1 + 4))
    assert found.freedom == pytest.approx(25 / (1 / 3 + 16 / 8))
    known = weighted_sum([(1.0, StudentEstimate(0.0, 1.0, math.inf))] * 2)
    assert known.p_value(2.0) == pytest.approx(2 * scipy.stats.norm.sf(math.sqrt(2)))
    assert (
        weighted_sum([(1.0, mean_of([3.0])), (1.0, mean_of([1.0, 2.0]))]).interval.high == math.inf
    )
    with pytest.raises(ValueError, match="no estimates"):
        weighted_sum([])


def test_spread_ratio_is_an_f_test():
    found = spread_ratio([[1.0, 2.0, 3.0]], [[0.0, 6.0], [1.0, 5.0, 9.0]])
    # Variances 2 / 2 and (18 + 32) / 3.
    assert found.value == pytest.approx(math.sqrt(3 / 50))
    assert found.p_value(1.0) == pytest.approx(2 * scipy.stats.f.cdf(3 / 50, 2, 3))
    wide = spread_ratio([[0.0, 6.0], [1.0, 5.0, 9.0]], [[1.0, 2.0, 3.0]])
    assert (wide.interval.low, wide.interval.high) == pytest.approx(
        (1 / found.interval.high, 1 / found.interval.low)
    )
    for end in (wide.interval.low, wide.interval.high):
        assert wide.p_value(end) == pytest.approx(0.05)


def test_spread_ratio_without_spread():
    assert spread_ratio([[1.0], [2.0]], [[1.0, 2.0]]) is None
    assert spread_ratio([[1.0, 2.0]], [[3.0, 3.0]]) is None
    equal = spread_ratio([[3.0, 3.0, 3.0]], [[1.0, 2.0, 4.0]])
    assert (equal.value, equal.p_value(1.0)) == (0.0, 0.25)


def test_spread_ratio_covers():
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        one = [rng.normal(mean, 2.0, 4).tolist() for mean in (0, 50, 100)]
        found = spread_ratio(one, [rng.normal(mean, 5.0, 4).tolist() for mean in (9, 8, 7)])
        hits += found.interval.low <= 0.4 <= found.interval.high
    assert hits / 1000 == pytest.approx(0.95, abs=0.02)
