"""Estimates against scipy, numbers worked out by hand, and coverage by simulation."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.stats

from zerolab.report.xy_plots import pareto_front
from zerolab.studies.statistics import (
    INTERCEPT,
    BinomialEstimate,
    BootstrapEstimate,
    StudentEstimate,
    bootstrap,
    difference_of_means,
    holm,
    linear_regression,
    mean_of,
    paired_difference,
    rank_test,
    sign_test,
    spread,
)

ONE = [3.1, 4.4, 2.9, 5.0, 4.1]
OTHER = [2.0, 2.2, 4.0, 1.1]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def ends(estimate):
    return estimate.interval.low, estimate.interval.high


def test_a_mean_is_a_t_test():
    found, known = mean_of(ONE), scipy.stats.ttest_1samp(ONE, 3.0)
    assert found.value == pytest.approx(3.9)
    assert ends(found) == pytest.approx(tuple(known.confidence_interval()))
    assert found.p_value(3.0) == pytest.approx(known.pvalue)
    assert found.p_value(found.interval.low) == pytest.approx(0.05)


def test_a_mean_by_hand():
    """1, 2, 3: standard error 1 / sqrt(3), t of two degrees of freedom 4.302653."""
    found = mean_of([1, 2, 3])
    assert ends(found) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_welch():
    found = difference_of_means(ONE, OTHER)
    known = scipy.stats.ttest_ind(ONE, OTHER, equal_var=False)
    assert found.freedom == pytest.approx(known.df)
    assert ends(found) == pytest.approx(tuple(known.confidence_interval()))
    assert found.p_value(0.0) == pytest.approx(known.pvalue)


def test_pairs():
    found = paired_difference(ONE[:4], OTHER)
    known = scipy.stats.ttest_rel(ONE[:4], OTHER)
    assert ends(found) == pytest.approx(tuple(known.confidence_interval()))
    assert found.p_value(0.0) == pytest.approx(known.pvalue)
    with pytest.raises(ValueError, match="pairs of 5 and 4"):
        paired_difference(ONE, OTHER)


def test_one_run_says_nothing_about_others():
    for found in (
        mean_of([5.0]),
        difference_of_means([5.0], ONE),
        difference_of_means(ONE, [5.0]),
        paired_difference([5.0], [1.0]),
        bootstrap([5.0], [1.0], statistic=lambda a, b: a[0] - b[0]),
    ):
        assert ends(found) == (-math.inf, math.inf)
        assert found.p_value(-1000.0) == 1.0
    assert mean_of([5.0]).value == 5.0


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [[1.0], [2.0]]])
def test_invalid_samples_are_refused(values):
    with pytest.raises(ValueError, match="expected"):
        mean_of(values)


def test_equal_runs_are_worth_a_sign_test():
    few, many = mean_of([0.1] * 3), mean_of([0.1] * 6)  # the mean of three 0.1 is not 0.1
    assert few.value == many.value == 0.1
    assert ends(few) == (-math.inf, math.inf)
    assert few.p_value(0.0) == sign_test([0.1] * 3) == 0.25
    assert ends(many) == (0.1, 0.1)
    assert many.p_value(0.0) == pytest.approx(sign_test([0.1] * 6)) == 1 / 32
    assert many.p_value(0.1) == 1.0
    assert difference_of_means([0.1] * 3, [0.1] * 4).p_value(0.0) == 1.0
    assert difference_of_means([0.1] * 3, [0.2] * 4).p_value(0.0) == 1 / 32
    assert paired_difference([0.1 + 0.2, 0.6], [0.3, 0.6]) == StudentEstimate(0.0, 0.0, 1)


def test_one_group_may_vary_alone():
    found = difference_of_means([1.0, 1.0, 1.0], [2.0, 2.5, 3.0])
    assert found.freedom == pytest.approx(2)
    assert found.error == pytest.approx(0.5 / math.sqrt(3))


def test_sign_test_by_hand():
    assert sign_test([1, 2, 0, 3, -1, 0]) == pytest.approx(2 * (1 + 4) / 16)
    assert sign_test([0, 0]) == sign_test([]) == 1.0


def test_rank_test_is_exact():
    rng = np.random.default_rng(1)
    for sizes in ((3, 3), (4, 7), (8, 8), (2, 9)):
        one, other = rng.normal(0.7, 1, sizes[0]), rng.normal(0, 1, sizes[1])
        known = scipy.stats.mannwhitneyu(one, other, method="exact").pvalue
        assert rank_test(one, other) == pytest.approx(known)
    assert rank_test([4, 5, 6], [1, 2, 3]) == pytest.approx(2 / 20)


def test_rank_test_with_ties_by_hand():
    """Ranks 1, 2.5, 2.5, 4: of the six pairs of ranks, two have a sum as far off 5 as 6.5."""
    assert rank_test([2, 3], [1, 2]) == pytest.approx(4 / 6)
    assert rank_test([1, 1], [1, 1]) == rank_test([], [1]) == 1.0


def test_rank_test_of_many():
    rng = np.random.default_rng(2)
    one, other = rng.normal(0.5, 1, 30), rng.normal(0, 1, 30)
    known = scipy.stats.mannwhitneyu(one, other, method="exact").pvalue
    assert rank_test(one, other) == pytest.approx(known, rel=0.05)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_binomial():
    found = BinomialEstimate(9, 10)
    assert found.value == 0.9
    known = scipy.stats.binomtest(9, 10, 0.5)
    interval = known.proportion_ci(method="wilson")
    assert ends(found) == pytest.approx((interval.low, interval.high))
    assert found.p_value(0.5) == pytest.approx(2 * 11 / 1024)
    nothing = BinomialEstimate(0, 0)
    assert (nothing.value, *ends(nothing), nothing.p_value(0.9)) == (0.5, 0.0, 1.0, 1.0)
    for whole in (BinomialEstimate(0, 7), BinomialEstimate(7, 7)):
        assert whole.interval.low <= whole.value <= whole.interval.high
        assert whole.p_value(whole.value) == 1.0
        assert whole.p_value(1 - whole.value) == 0.0


def test_shares_of_draws():
    found = BootstrapEstimate(5.0, np.arange(1.0, 10.0))
    assert found.p_value(2.0) == pytest.approx(4 / 9)
    assert found.p_value(5.0) == 1.0
    assert found.p_value(-1.0) == found.p_value(99.0) == pytest.approx(1 / 10)
    assert BootstrapEstimate(5.0, np.arange(1.0, 10.0), 2).p_value(99.0) == 0.25


def test_bootstrap_draws_whole_runs_within_their_groups():
    def statistic(one, other):
        assert set(one) <= {"a", "b", "c"}
        assert set(other) <= {"d", "e"}
        assert (len(one), len(other)) == (3, 2)
        return one.count("a") - other.count("d")

    found = bootstrap(["a", "b", "c"], ["d", "e"], statistic=statistic, seed=4, draws=300)
    assert (found.value, found.freedom, len(found.draws)) == (0.0, 3, 300)
    again = bootstrap(["a", "b", "c"], ["d", "e"], statistic=statistic, seed=4, draws=300)
    assert (again.draws == found.draws).all()


def test_bootstrap_leaves_out_nan():
    def share(runs):
        return math.nan if sum(runs) == 0 else max(runs) / sum(runs)

    found = bootstrap([0, 0, 2, 3], statistic=share)
    assert 0 < len(found.draws) < 4000
    assert found.interval.low < found.interval.high
    with pytest.raises(ValueError, match="is nan"):
        bootstrap([0, 0], statistic=share)
    with pytest.raises(ValueError, match="without runs"):
        bootstrap([1], [], statistic=lambda one, other: 0.0)


def _covers(make, truth, trials, seed):
    """Return the coverage of intervals; p-values must agree with them."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(trials):
        found = make(rng)
        inside = found.interval.low <= truth <= found.interval.high
        hits += inside
        if isinstance(found, StudentEstimate):
            assert inside is (found.p_value(truth) >= 0.05)
    return hits / trials


@pytest.mark.parametrize(
    ("make", "truth"),
    [
        (lambda rng: mean_of(rng.normal(7, 3, 4)), 7),
        (lambda rng: difference_of_means(rng.normal(7, 3, 6), rng.normal(4, 1, 5)), 3),
        (lambda rng: BinomialEstimate(int(rng.binomial(40, 0.3)), 40), 0.3),
    ],
)
def test_coverage(make, truth):
    assert _covers(make, truth, 2000, 0) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("runs", [3, 4, 8, 16])
def test_coverage_of_the_bootstrap(runs):
    """Without widening, the intervals of four runs would cover 80 % of true values."""

    def make(rng):
        sample = rng.normal(7, 3, runs)
        return bootstrap(sample, statistic=lambda drawn: sum(drawn) / runs, draws=300)

    assert _covers(make, 7, 200, 1) == pytest.approx(0.95, abs=0.04)


def test_regression_is_that_of_scipy():
    x = [1.0, 2, 3, 4, 6]
    known = scipy.stats.linregress(x, ONE)
    found = linear_regression(np.array(x)[:, None], ONE, ["x"])
    assert list(found) == [INTERCEPT, "x"]
    assert found["x"].value == pytest.approx(known.slope)
    assert found["x"].error == pytest.approx(known.stderr)
    assert found["x"].p_value(0.0) == pytest.approx(known.pvalue)
    assert found[INTERCEPT].error == pytest.approx(known.intercept_stderr)


def test_regression_of_a_factorial_by_hand():
    """Levels -1 and 1: coefficients are half the differences of means, with equal errors."""
    X = list(itertools.product([-1, 1], repeat=2)) * 2  # noqa: N806
    y = [1.0, 2, 5, 8, 2, 1, 6, 7]
    found = linear_regression(X, y, ["a", "b"])
    assert found["a"].value == pytest.approx((26 - 6) / 8)
    assert found["b"].value == pytest.approx((18 - 14) / 8)
    fitted = [4 + 2.5 * a + 0.5 * b for a, b in X]
    rss = sum((v - f) ** 2 for v, f in zip(y, fitted, strict=True))
    assert found["a"].error == pytest.approx(math.sqrt(rss / 5 / 8))
    assert found["a"].freedom == 5


def test_regression_of_too_few_runs():
    same = linear_regression([[1, 2], [2, 4], [3, 6], [5, 10]], [1.0, 3, 2, 5], ["a", "twice"])
    assert ends(same["a"]) == ends(same["twice"]) == (-math.inf, math.inf)
    assert math.isfinite(same[INTERCEPT].interval.low)
    few = linear_regression([[1], [2]], [1.0, 3.0], ["a"])
    assert few["a"].value == pytest.approx(2)
    assert few["a"].p_value(0.0) == 1.0
    flat = linear_regression(np.arange(9.0)[:, None], [3.3] * 9, ["a"])
    assert (flat["a"].value, flat["a"].p_value(0.0)) == (0.0, 1.0)
    none = linear_regression(np.empty((3, 0)), [1.0, 2, 3], [])
    assert none[INTERCEPT].error == pytest.approx(1 / math.sqrt(3))


def test_spread_by_hand():
    """Variance 4 between the measurements, 1 of which is error: 3 is left."""
    found = spread([1.0, 3.0, 5.0], [1.0, 1.0, 1.0])
    assert found.observed == pytest.approx(2)
    assert found.between == pytest.approx(math.sqrt(3))
    assert found.explained == pytest.approx(1 / 4)
    drowned = spread([1.0, 1.1], [5.0, 5.0])
    assert (drowned.between, drowned.explained) == (0.0, 1.0)
    equal = spread([0.1] * 3, [0.0] * 3)
    assert equal == (0.0, 0.0, 0.0)
    assert equal.explained == 0.0
    assert spread([1.0], [1.0]) is None
    assert spread([], []) is None


def test_spread_recovers_a_simulated_one():
    rng = np.random.default_rng(3)
    runs = rng.normal(0, 30, 4000) + rng.normal(0, 40, 4000)
    found = spread(runs, [40.0] * 4000)
    assert found.observed == pytest.approx(50, rel=0.03)
    assert found.between == pytest.approx(30, rel=0.1)


def test_pareto_front_by_brute_force():
    rng = np.random.default_rng(5)
    for _ in range(50):
        costs, values = rng.integers(0, 6, 12).tolist(), rng.integers(0, 6, 12).tolist()
        points = list(zip(costs, values, strict=True))

        def beaten(point, points=points):
            return any(c <= point[0] and v >= point[1] and (c, v) != point for c, v in points)

        front = pareto_front(costs, values)
        assert sorted(front) == [i for i, point in enumerate(points) if not beaten(point)]
        assert [costs[i] for i in front] == sorted(costs[i] for i in front)
    assert pareto_front([], []) == []
