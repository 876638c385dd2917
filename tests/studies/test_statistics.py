"""Estimates: comparisons with scipy, hand-computed values and simulated coverage."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.stats

from zerolab.report.xy_plots import pareto_front_indices
from zerolab.studies.claims import holm_adjust, sign_test, signed_rank_test
from zerolab.studies.joint_estimates import (
    bootstrap,
    estimate_smallest,
)
from zerolab.studies.statistics import (
    INTERCEPT,
    BinomialEstimate,
    StudentEstimate,
    estimate_mean,
    linear_regression,
    paired_difference,
    pooled_intervals,
    run_sample,
    spread_components,
    weighted_sum,
    with_pooled_intervals,
)

ONE = [3.1, 4.4, 2.9, 5.0, 4.1]
OTHER = [2.0, 2.2, 4.0, 1.1]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def difference(one, other):
    return weighted_sum([(1.0, estimate_mean(one)), (-1.0, estimate_mean(other))])


def ends(estimate):
    return estimate.interval.low, estimate.interval.high


def test_mean_agrees_with_a_t_test():
    result, expected = estimate_mean(ONE), scipy.stats.ttest_1samp(ONE, 3.0)
    assert result.value == pytest.approx(3.9)
    assert ends(result) == pytest.approx(tuple(expected.confidence_interval()))
    assert result.p_value(3.0) == pytest.approx(expected.pvalue)
    assert result.p_value(result.interval.low) == pytest.approx(0.05)


def test_mean_agrees_with_hand_computed_values():
    """Standard error 1 / sqrt(3), and t quantile 4.302653 for two degrees of freedom."""
    result = estimate_mean([1, 2, 3])
    assert ends(result) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_difference_of_means_agrees_with_welch():
    result = difference(ONE, OTHER)
    expected = scipy.stats.ttest_ind(ONE, OTHER, equal_var=False)
    assert result.degrees_of_freedom == pytest.approx(expected.df)
    assert ends(result) == pytest.approx(tuple(expected.confidence_interval()))
    assert result.p_value(0.0) == pytest.approx(expected.pvalue)


def test_paired_difference_agrees_with_a_t_test():
    result = paired_difference(ONE[:4], OTHER)
    expected = scipy.stats.ttest_rel(ONE[:4], OTHER)
    assert ends(result) == pytest.approx(tuple(expected.confidence_interval()))
    assert result.p_value(0.0) == pytest.approx(expected.pvalue)
    with pytest.raises(ValueError, match="5 and 4"):
        paired_difference(ONE, OTHER)


def test_single_runs_have_infinite_intervals():
    for result in (
        estimate_mean([5.0]),
        difference([5.0], ONE),
        difference(ONE, [5.0]),
        paired_difference([5.0], [1.0]),
        bootstrap([5.0], [1.0], statistic=lambda a, b: a[0] - b[0]),
    ):
        assert ends(result) == (-math.inf, math.inf)
        assert result.p_value(-1000.0) == 1.0
    assert estimate_mean([5.0]).value == 5.0


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [[1.0], [2.0]]])
def test_invalid_samples_are_refused(values):
    with pytest.raises(ValueError, match="expected"):
        estimate_mean(values)


def test_equal_runs_use_a_sign_test():
    few, many = (
        estimate_mean([0.1] * 3),
        estimate_mean([0.1] * 6),
    )  # in floating point, the mean of three 0.1 is not 0.1
    assert few.value == many.value == 0.1
    assert ends(few) == (-math.inf, math.inf)
    assert few.p_value(0.0) == sign_test([0.1] * 3) == 0.25
    assert ends(many) == (0.1, 0.1)
    assert many.p_value(0.0) == pytest.approx(sign_test([0.1] * 6)) == 1 / 32
    assert many.p_value(0.1) == 1.0
    assert difference([0.1] * 3, [0.1] * 4).p_value(0.0) == 1.0
    assert difference([0.1] * 3, [0.2] * 4).p_value(0.0) == 1 / 32
    assert paired_difference([0.1 + 0.2, 0.6], [0.3, 0.6]) == StudentEstimate(0.0, 0.0, 1)


def test_one_constant_group():
    result = difference([1.0, 1.0, 1.0], [2.0, 2.5, 3.0])
    assert result.degrees_of_freedom == pytest.approx(2)
    assert result.standard_error == pytest.approx(0.5 / math.sqrt(3))


def test_sign_test_agrees_with_hand_computed_values():
    assert sign_test([1, 2, 0, 3, -1, 0]) == pytest.approx(2 * (1 + 4) / 16)
    assert sign_test([0, 0]) == sign_test([]) == 1.0


def test_signed_rank_test_agrees_with_hand_computed_values():
    """Ranks 1 to 5 with a negative 2: of 32 sign patterns, 3 have a negative sum of at most 2."""
    assert signed_rank_test([1, -2, 3, 4, 5]) == pytest.approx(2 * 3 / 32)
    assert signed_rank_test([0, 3, 4, 5]) == pytest.approx(2 / 8)
    assert signed_rank_test([2, 2, 2, 2]) == pytest.approx(2 / 16)
    assert signed_rank_test([0, 0]) == signed_rank_test([]) == 1.0


def test_signed_rank_test_counts_all_signs_of_tied_differences(monkeypatch):
    """Some versions of SciPy ignore ties, so they must not matter for few differences."""

    def refuse(*args, **options):
        raise AssertionError("expected an enumeration")

    monkeypatch.setattr(scipy.stats, "wilcoxon", refuse)
    differences = [3, -1, 1, 2, 0, 2, -2, 5, 4, 4, 3, 6, 1, 0, -3]
    others = [each for each in differences if each]
    assert len(others) == 13
    ranks = scipy.stats.rankdata(np.abs(others))
    sums = [np.dot(signs, ranks) for signs in itertools.product([-1, 1], repeat=len(others))]
    extreme = np.mean(np.abs(sums) >= abs(np.dot(np.sign(others), ranks)))
    assert signed_rank_test(differences) == pytest.approx(extreme)


def test_long_signed_rank_tests_agree_with_scipy():
    differences = np.random.default_rng(2).normal(0.5, 1.0, 20)
    expected = scipy.stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank_test(differences) == pytest.approx(expected)


def test_holm_agrees_with_hand_computed_values():
    assert holm_adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_adjust([0.9, 0.8]) == [1.0, 1.0]
    assert holm_adjust([]) == []


def test_binomial():
    result = BinomialEstimate(9, 10)
    assert result.value == 0.9
    expected = scipy.stats.binomtest(9, 10, 0.5)
    interval = expected.proportion_ci(method="wilson")
    assert ends(result) == pytest.approx((interval.low, interval.high))
    assert result.p_value(0.5) == pytest.approx(2 * 11 / 1024)
    without_trials = BinomialEstimate(0, 0)
    assert (without_trials.value, *ends(without_trials), without_trials.p_value(0.9)) == (
        0.5,
        0.0,
        1.0,
        1.0,
    )
    for whole in (BinomialEstimate(0, 7), BinomialEstimate(7, 7)):
        assert whole.interval.low <= whole.value <= whole.interval.high
        assert whole.p_value(whole.value) == 1.0
        assert whole.p_value(1 - whole.value) == 0.0


@pytest.mark.parametrize(
    ("successes", "trials", "share"), [(10, 10, 0.7), (30, 40, 0.55), (3, 9, 0.6)]
)
def test_binomial_p_is_twice_the_smaller_tail(successes, trials, share):
    tails = [
        scipy.stats.binomtest(successes, trials, share, side).pvalue for side in ("less", "greater")
    ]
    estimate = BinomialEstimate(successes, trials)
    assert estimate.p_value(share) == pytest.approx(min(1.0, 2 * min(tails)))
    above = estimate_smallest([estimate]).one_sided_p_value(share, 1.0)
    below = estimate_smallest([estimate]).one_sided_p_value(share, -1.0)
    assert min(above, below) == pytest.approx(min(tails))


def _coverage(make, truth, trials, seed):
    """Return the coverage of intervals, and check that p-values agree with them."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(trials):
        result = make(rng)
        inside = result.interval.low <= truth <= result.interval.high
        hits += inside
        if isinstance(result, StudentEstimate):
            assert inside is (result.p_value(truth) >= 0.05)
    return hits / trials


@pytest.mark.parametrize(
    ("make", "truth"),
    [
        (lambda rng: estimate_mean(rng.normal(7, 3, 4)), 7),
        (lambda rng: difference(rng.normal(7, 3, 6), rng.normal(4, 1, 5)), 3),
        (lambda rng: BinomialEstimate(int(rng.binomial(40, 0.3)), 40), 0.3),
    ],
)
def test_intervals_have_their_coverage(make, truth):
    assert _coverage(make, truth, 2000, 0) == pytest.approx(0.95, abs=0.015)


def test_regression_agrees_with_scipy():
    x = [1.0, 2, 3, 4, 6]
    expected = scipy.stats.linregress(x, ONE)
    result = linear_regression(np.array(x)[:, None], ONE, ["x"])
    assert list(result) == [INTERCEPT, "x"]
    assert result["x"].value == pytest.approx(expected.slope)
    assert result["x"].standard_error == pytest.approx(expected.stderr)
    assert result["x"].p_value(0.0) == pytest.approx(expected.pvalue)
    assert result[INTERCEPT].standard_error == pytest.approx(expected.intercept_stderr)


def test_factorial_regression_agrees_with_hand_computed_values():
    """With levels -1 and 1, coefficients are half the differences of means."""
    X = list(itertools.product([-1, 1], repeat=2)) * 2  # noqa: N806
    y = [1.0, 2, 5, 8, 2, 1, 6, 7]
    result = linear_regression(X, y, ["a", "b"])
    assert result["a"].value == pytest.approx((26 - 6) / 8)
    assert result["b"].value == pytest.approx((18 - 14) / 8)
    fitted = [4 + 2.5 * a + 0.5 * b for a, b in X]
    rss = sum((v - f) ** 2 for v, f in zip(y, fitted, strict=True))
    assert result["a"].standard_error == pytest.approx(math.sqrt(rss / 5 / 8))
    assert result["a"].degrees_of_freedom == 5


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
    assert none[INTERCEPT].standard_error == pytest.approx(1 / math.sqrt(3))


def test_spread_agrees_with_hand_computed_values():
    """The observed variance of 4 includes an error variance of 1."""
    result = spread_components([1.0, 3.0, 5.0], [1.0, 1.0, 1.0])
    assert result.observed_sd == pytest.approx(2)
    assert result.between_runs_sd == pytest.approx(math.sqrt(3))
    assert result.error_share == pytest.approx(1 / 4)
    drowned = spread_components([1.0, 1.1], [5.0, 5.0])
    assert (drowned.between_runs_sd, drowned.error_share) == (0.0, 1.0)
    equal = spread_components([0.1] * 3, [0.0] * 3)
    assert equal == (0.0, 0.0, 0.0)
    assert equal.error_share == 0.0
    assert spread_components([1.0], [1.0]) is None
    assert spread_components([], []) is None


def test_spread_recovers_a_simulated_value():
    rng = np.random.default_rng(3)
    runs = rng.normal(0, 30, 4000) + rng.normal(0, 40, 4000)
    result = spread_components(runs, [40.0] * 4000)
    assert result.observed_sd == pytest.approx(50, rel=0.03)
    assert result.between_runs_sd == pytest.approx(30, rel=0.1)


def test_pareto_front_agrees_with_brute_force():
    rng = np.random.default_rng(5)
    for _ in range(50):
        costs, values = rng.integers(0, 6, 12).tolist(), rng.integers(0, 6, 12).tolist()
        points = list(zip(costs, values, strict=True))

        def is_dominated(point, points=points):
            return any(c <= point[0] and v >= point[1] and (c, v) != point for c, v in points)

        front = pareto_front_indices(costs, values)
        assert sorted(front) == [i for i, point in enumerate(points) if not is_dominated(point)]
        assert [costs[i] for i in front] == sorted(costs[i] for i in front)
    assert pareto_front_indices([], []) == []


def test_pooled_intervals_agree_with_the_analysis_of_variance():
    """The pooled variance is the residual mean square of a linear model of group means."""
    samples = [[1.0, 3.0], [10.0, 14.0, 12.0], [5.0]]
    expected = [
        (2.0, math.sqrt((2 + 8) / 3 / 2)), (12.0, math.sqrt((2 + 8) / 3 / 3)),
        (5.0, math.sqrt((2 + 8) / 3)),
    ]  # fmt: skip
    quantile = scipy.stats.t.ppf(0.975, 2)  # the largest sample has 2 degrees of freedom
    for interval, (mean, error) in zip(pooled_intervals(samples), expected, strict=True):
        assert interval == pytest.approx(
            (mean, mean - quantile * error, mean + quantile * error), rel=1e-9
        )
    assert all(math.isinf(each.high) for each in pooled_intervals([[1.0], [2.0]]))
    assert pooled_intervals([]) == []
    assert math.isinf(pooled_intervals([[0.1] * 3])[0].high)  # their mean is not exactly 0.1
    assert math.isinf(pooled_intervals([[0.1] * 3, [0.7] * 3, [0.7, 0.1 * 7, 0.7]])[0].high)


@pytest.mark.parametrize(
    ("samples", "squares", "freedom"),
    [
        # Seeds: 3 (1 + 1) = 6; errors: 0.
        ([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0], [0.0, 1.0, 2.0]], 6, 2),
        # Seeds: 0; errors: 4, with 2 degrees of freedom.
        ([[1.0, 2.0, 3.0], [7.0, 6.0, 5.0]], 4, 2),
        # Seeds: 2 (1 + 1/4 + 1/4) = 3; errors: 2 (1/4 + 1/4) = 1, with 2 degrees of freedom each.
        ([[1.0, 2.0, 3.0], [5.0, 7.0, 6.0]], 4, 4**2 / (3**2 / 2 + 1**2 / 2)),
        # Only one sample varies: squares 2, with its 2 degrees of freedom.
        ([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0], [7.0, 7.0, 7.0]], 2, 2),
    ],
)
def test_runs_with_common_seeds_share_degrees_of_freedom(samples, squares, freedom):
    error = math.sqrt(squares / (2 * len(samples)) / 3)
    for sample, (mean, low, high) in zip(samples, pooled_intervals(samples), strict=True):
        margin = scipy.stats.t.ppf(0.975, freedom) * error
        assert mean == np.mean(sample)
        assert (low, high) == pytest.approx((mean - margin, mean + margin))


@pytest.mark.parametrize("correlation", [0.3, 0.8, 1.0])
def test_pooled_intervals_cover_means_of_runs_in_common_tournaments(correlation):
    """As if runs were independent, seven samples of three runs would cover 94, 89 and 84 %."""
    random = np.random.default_rng(5)
    covered = []
    for _ in range(600):
        common = math.sqrt(correlation) * random.normal(size=3)
        samples = common + math.sqrt(1.0 - correlation) * random.normal(size=(7, 3))
        covered += [low <= 0.0 <= high for _, low, high in pooled_intervals(samples.tolist())]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)


def test_pooled_intervals_cover_the_means():
    """Of 2,000 means of two runs, 95 % are covered, by intervals far shorter than separate ones."""
    random = np.random.default_rng(5)
    covered, lengths, separate = 0, [], []
    for _ in range(400):
        samples = random.normal([[0.0], [1.0], [2.0], [3.0], [4.0]], 1.0, (5, 2))
        intervals = pooled_intervals(samples.tolist())
        covered += sum(low <= mean <= high for mean, (_, low, high) in enumerate(intervals))
        lengths += [each.high - each.low for each in intervals]
        separate += [2 * estimate_mean(sample).margin() for sample in samples]
    assert 1900 - 3 * 12 <= covered <= 1900 + 3 * 12
    assert np.median(lengths) < 0.4 * np.median(separate)


def test_samples_without_runs_keep_no_mean():
    groups = {"a": {"one": run_sample([1.0, 2.0]), "none": run_sample([])}}
    pooled = with_pooled_intervals(groups)["a"]
    assert pooled["none"].mean is None
    assert pooled["one"].mean == groups["a"]["one"].mean  # pooling one sample changes nothing
