"""Mixed model of runs versus statsmodels, analysis of variance and simulated studies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zerolab.studies.block_model import (
    fit_block_model,
    fit_per_game_models,
    relative_spread_within_blocks,
    shrink_variances,
)
from zerolab.studies.statistics import paired_difference

VARIANTS = ("baseline", "rollout", "wrora")


def simulate(random, seeds=12, block=60.0, error=40.0, means=(0.0, 10.0, 50.0)):
    blocks = random.normal(0.0, block, seeds)
    return {
        variant: {
            seed: float(mean + blocks[seed] + random.normal(0.0, error)) for seed in range(seeds)
        }
        for variant, mean in zip(VARIANTS, means, strict=True)
    }


def without(values, missing):
    return {
        variant: {seed: value for seed, value in by_seed.items() if (variant, seed) not in missing}
        for variant, by_seed in values.items()
    }


@pytest.mark.filterwarnings("ignore:Random effects covariance", "ignore:The MLE may be on the")
@pytest.mark.parametrize(
    "missing",
    [(), {("baseline", 0), ("baseline", 5), ("rollout", 1), ("wrora", 2), ("wrora", 3)}],
    ids=["balanced", "unbalanced"],
)
@pytest.mark.parametrize("block", [60.0, 0.0], ids=["blocks", "no blocks"])
def test_agrees_with_statsmodels(missing, block):
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    values = without(simulate(np.random.default_rng(3), block=block), missing)
    rows = [(v, seed, y) for v, by_seed in values.items() for seed, y in by_seed.items()]
    design = np.array([[v == variant for variant in VARIANTS] for v, _, _ in rows], float)
    y, groups = np.array([row[2] for row in rows]), np.array([row[1] for row in rows])
    theirs = mixed.MixedLM(y, design, groups).fit(reml=True)
    ours = fit_block_model(values)
    assert ours.means == pytest.approx(theirs.fe_params, rel=1e-3, abs=0.05)
    assert ours.error_variance == pytest.approx(theirs.scale, rel=2e-3)
    assert ours.block_variance == pytest.approx(float(theirs.cov_re[0, 0]), rel=5e-3, abs=1.0)
    contrast = np.array([-1.0, 0.0, 1.0])
    error = math.sqrt(contrast @ theirs.cov_params()[:3, :3] @ contrast)
    estimate = ours.contrast({"wrora": 1.0, "baseline": -1.0})
    assert estimate.standard_error == pytest.approx(
        error, rel=5e-3
    )  # statsmodels stops near the boundary


def test_balanced_contrasts_are_those_of_the_analysis_of_variance():
    """With complete blocks, the error is the residual mean square with (V - 1)(n - 1) degrees."""
    values = simulate(np.random.default_rng(1))
    table = np.array([list(by_seed.values()) for by_seed in values.values()])
    residuals = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    mean_square = float((residuals**2).sum() / 22)
    estimate = fit_block_model(values).contrast({"wrora": 1.0, "baseline": -1.0})
    assert estimate.value == pytest.approx(table[2].mean() - table[0].mean())
    assert estimate.standard_error == pytest.approx(math.sqrt(2 * mean_square / 12), rel=1e-4)
    assert estimate.degrees_of_freedom == 22


def test_two_variants_are_compared_in_pairs():
    values = simulate(np.random.default_rng(2))
    pair = {name: values[name] for name in VARIANTS[:2]}
    ours = fit_block_model(pair).contrast({"rollout": 1.0, "baseline": -1.0})
    paired = paired_difference([*pair["rollout"].values()], [*pair["baseline"].values()])
    assert (ours.value, ours.degrees_of_freedom) == (
        pytest.approx(paired.value),
        paired.degrees_of_freedom,
    )
    assert ours.standard_error == pytest.approx(paired.standard_error, rel=1e-4)


@pytest.mark.parametrize("error", [1e-1, 1e-2, 1e-3])
def test_blocks_can_vary_much_more_than_errors(error):
    values = simulate(np.random.default_rng(7), seeds=4, block=1.0, error=error)
    ours = fit_block_model({name: values[name] for name in VARIANTS[:2]})
    estimate = ours.contrast({"rollout": 1.0, "baseline": -1.0})
    paired = paired_difference([*values["rollout"].values()], [*values["baseline"].values()])
    assert estimate.value == pytest.approx(paired.value, abs=1e-3 * error)
    assert estimate.standard_error == pytest.approx(paired.standard_error, rel=2e-2)


def test_disconnected_seeds_leave_fewer_degrees_of_freedom():
    """Variants without common seeds are compared across blocks, with one mean per group."""
    apart = {"baseline": {0: 1.0, 1: 4.0, 2: 2.0}, "rollout": {3: 9.0, 4: 7.0}}
    assert fit_block_model(apart).degrees_of_freedom == 5 - 2 - 5 + 2
    assert math.isinf(
        fit_block_model(apart).contrast({"rollout": 1.0, "baseline": -1.0}).standard_error
    )


def test_single_seed_has_no_interval():
    estimate = fit_block_model({"a": {0: 1.0}, "b": {0: 5.0}}).contrast({"b": 1.0, "a": -1.0})
    assert (estimate.value, math.isinf(estimate.standard_error)) == (4.0, True)
    assert estimate.p_value(0.0) == 1.0


def test_bad_contrasts_and_empty_variants_are_rejected():
    model = fit_block_model({"a": {0: 1.0, 1: 2.0}, "b": {0: 5.0, 1: 4.0}})
    with pytest.raises(ValueError, match="add up to 0"):
        model.contrast({"a": 1.0})
    with pytest.raises(KeyError):
        model.contrast({"a": 1.0, "c": -1.0})
    with pytest.raises(ValueError, match="at least one run"):
        fit_block_model({"a": {}})


@pytest.mark.parametrize("missing_share", [0.0, 0.2])
def test_intervals_of_pooled_contrasts_cover_the_truth(missing_share):
    """Games differ in their spread, as they do in tournaments."""
    random = np.random.default_rng(7)
    covered = trials = 0
    for _ in range(300):
        games = {
            game: simulate(random, 6, 2 * error, error)
            for game, error in (("gobang", 60.0), ("connect_four", 40.0), ("othello", 25.0))
        }
        lost = {
            (variant, seed)
            for variant in VARIANTS[:2]
            for seed in range(6)
            if random.random() < missing_share / 2
        }
        model = fit_per_game_models({game: without(values, lost) for game, values in games.items()})
        interval = model.contrast({"wrora": 1.0, "baseline": -1.0}).interval
        covered += interval.low <= 50.0 <= interval.high
        trials += 1
    assert 0.92 <= covered / trials <= 0.985


def test_shrinkage_pools_equal_variances_and_separates_different_ones():
    random = np.random.default_rng(5)
    equal = shrink_variances(random.chisquare(10, 200) / 10, [10] * 200)
    assert equal.prior_variance == pytest.approx(1.0, rel=0.1)
    assert equal.prior_degrees_of_freedom > 60
    true = 8.0 / random.chisquare(8, 400)  # the prior of the model, with 8 degrees of freedom
    different = shrink_variances(true * random.chisquare(10, 400) / 10, [10] * 400)
    assert different.prior_degrees_of_freedom == pytest.approx(8.0, rel=0.35)
    assert different.prior_variance == pytest.approx(1.0, rel=0.15)


def test_shrunk_variances_lie_between_their_own_and_the_prior():
    shrunk = shrink_variances([1.0, 2.0, 3.0, 30.0], [10.0, 10.0, 10.0, 10.0])
    own = (1.0, 2.0, 3.0, 30.0)
    for variance, before in zip(shrunk.variances, own, strict=True):
        low, high = sorted((before, shrunk.prior_variance))
        assert low <= variance <= high
    assert all(10.0 < degrees <= 40.0 for degrees in shrunk.degrees_of_freedom)
    assert shrink_variances([5.0], [3.0]).variances == [5.0]


def test_games_share_the_degrees_of_freedom_of_their_variances():
    """Pooled variances of two games with 3 variants and 3 seeds have 2 x 2 x 2 degrees."""
    random = np.random.default_rng(5)
    model = fit_per_game_models({game: simulate(random, seeds=3) for game in ("one", "other")})
    gain = {"wrora": 1.0, "baseline": -1.0}
    assert all(each.degrees_of_freedom <= 8 for each in model.models.values())
    assert model.contrast(gain).degrees_of_freedom <= 8
    between = model.sum_of_contrasts({"one": gain, "other": {"wrora": -1.0, "baseline": 1.0}})
    one, other = (model.contrast(gain, [game]).value for game in ("one", "other"))
    assert between.value == pytest.approx(one - other)
    assert between.degrees_of_freedom <= 8


def test_games_of_different_spread_keep_their_degrees_of_freedom():
    """Different variances shrink little; their total degrees of freedom are kept."""
    random = np.random.default_rng(6)
    errors = {f"game {number}": 10.0**number for number in range(4)}
    model = fit_per_game_models(
        {game: simulate(random, seeds=6, error=error) for game, error in errors.items()}
    )
    assert model.degrees_of_freedom == 4 * 2 * 5
    assert all(each.degrees_of_freedom < 20 for each in model.models.values())


@pytest.mark.parametrize("true_ratio", [0.0, 0.5, 1.0, 2.0])
def test_spread_of_ratings_that_add_up_to_zero_is_recovered(true_ratio):
    """Ratings of a block share an error and depend on each other, which biases plain spreads."""
    random, studies = np.random.default_rng(1), 400
    values = random.normal(0.0, [true_ratio, 1.0, 1.0, 1.0], (studies, 12, 4))
    values += random.normal(0.0, 3.0, (studies, 12, 1)) + np.array([0.0, 5.0, 1.0, 2.0])
    values -= values.mean(axis=2, keepdims=True)
    found = [relative_spread_within_blocks(each) for each in values]
    covered = [each.interval.low <= true_ratio <= each.interval.high for each in found]
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * math.sqrt(0.05 * 0.95 / studies))
    whole = relative_spread_within_blocks(np.concatenate(values))
    assert whole.value == pytest.approx(true_ratio, abs=0.12)
    if true_ratio:
        rejected = [each.p_value(true_ratio) < 0.05 for each in found]
        assert np.mean(rejected) == pytest.approx(1 - np.mean(covered))


def test_relative_spread_needs_a_spread_of_the_others():
    values = np.zeros((5, 4))
    assert relative_spread_within_blocks(values) is None
    values[:, 1] = [1.0, -1.0, 2.0, 0.0, 3.0]
    assert relative_spread_within_blocks(values).value == 0.0
