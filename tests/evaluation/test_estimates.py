"""Confidence intervals for correlated positions: coverage in simulations."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.evaluation.position_statistics import (
    exact_estimate,
    jackknife_standard_error,
    mean_estimate,
    proportion_estimate,
)
from zerolab.ratings.results import MatchScore
from zerolab.report.table import wilson_interval

RUNS = 300
SLACK = 3 * (0.95 * 0.05 / RUNS) ** 0.5


def random_game_numbers(random, games, positions):
    """Return the game number of each position, for games of random lengths."""
    return np.repeat(np.arange(games), 1 + random.poisson(positions - 1, games))


def test_one_position_per_game_has_the_wilson_interval():
    hits = np.array([True] * 30 + [False] * 10)
    estimate = proportion_estimate(hits, np.arange(40))
    assert estimate.interval == pytest.approx(MatchScore(30, 0, 10).interval(40))
    assert (estimate.interval.value, estimate.sample_count) == (0.75, 40)


@pytest.mark.parametrize(("games", "rate", "correlation"), [(20, 0.5, 0.5), (60, 0.8, 0.3)])
def test_proportion_intervals_cover_correlated_positions(games, rate, correlation):
    """With beta-binomial games, plain Wilson intervals cover only 60 to 75 %."""
    random = np.random.default_rng(1)
    a, b = (p * (1 - correlation) / correlation for p in (rate, 1 - rate))
    covered, naive = [], []
    for _ in range(RUNS):
        numbers = random_game_numbers(random, games, 8)
        hits = random.random(len(numbers)) < random.beta(a, b, games)[numbers]
        estimate = proportion_estimate(hits, numbers)
        covered.append(estimate.interval.low <= rate <= estimate.interval.high)
        _, low, high = wilson_interval(estimate.interval.value, len(hits))
        naive.append(low <= rate <= high)
    assert 0.95 - SLACK < np.mean(covered) < 0.95 + SLACK
    assert np.mean(naive) < 0.85


def test_interval_of_a_mean_regret_does_not_contain_negative_values():
    estimate = mean_estimate(np.array([0.0, 0.0, 9.0]), np.arange(3))
    assert estimate.interval.low == 0
    assert estimate.interval.high > 3


def test_mean_intervals_cover_correlated_positions():
    random = np.random.default_rng(2)
    covered = []
    for _ in range(RUNS):
        numbers = random_game_numbers(random, 50, 6)
        values = random.normal(2.0, 1.0, 50)[numbers] + random.normal(0.0, 1.0, len(numbers))
        estimate = mean_estimate(values, numbers)
        covered.append(estimate.interval.low <= 2.0 <= estimate.interval.high)
    assert 0.95 - SLACK < np.mean(covered) < 0.95 + SLACK


def test_error_ignores_repeated_positions():
    """Five copies of each value in one game count as one observation."""
    numbers = np.random.default_rng(3).normal(0, 1, 400)
    estimate = jackknife_standard_error(np.repeat(numbers, 5), np.repeat(np.arange(400), 5))
    assert estimate == pytest.approx(numbers.std(ddof=1) / 20)


def test_error_agrees_with_hand_computed_values():
    """Without game 1, 2 or 4, the mean is 12 / 2, 10 / 3 or 10 / 3."""
    error = jackknife_standard_error(np.array([1.0, 3.0, 6.0, 6.0]), np.array([1, 1, 2, 4]))
    means = [6.0, 10 / 3, 10 / 3]
    assert error == pytest.approx(np.std(means, ddof=1) * 2 / 3**0.5)


def test_error_of_many_games_agrees_with_the_bootstrap():
    random = np.random.default_rng(4)
    numbers = random_game_numbers(random, 200, 5)
    values = random.normal(0.0, 1.0, 200)[numbers] + random.normal(0.0, 1.0, len(numbers))
    sums, counts = np.bincount(numbers, weights=values), np.bincount(numbers)
    draws = random.integers(0, 200, (4000, 200))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    assert jackknife_standard_error(values, numbers) == pytest.approx(means.std(), rel=0.05)


def test_constant_values_use_games_as_trials():
    games = np.arange(100) // 4
    assert proportion_estimate(np.ones(100), games).interval == wilson_interval(1.0, 25)
    assert proportion_estimate(
        np.array([1, 0, 1, 1]), np.zeros(4, int)
    ).interval == wilson_interval(0.75, 1)


def test_too_few_games_have_no_estimate():
    no_values = np.empty(0)
    assert proportion_estimate(no_values, no_values) is exact_estimate(no_values) is None
    assert mean_estimate(np.array([1.0, 2.0]), np.array([7, 7])) is None
    assert mean_estimate(np.array([1.0, np.nan]), np.array([7, 8])) is None
    assert mean_estimate(np.array([1.0, np.nan, 3.0]), np.array([7, 8, 9])).interval.value == 2.0
