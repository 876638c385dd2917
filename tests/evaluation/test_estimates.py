"""Intervals by simulation: positions of one game are alike, and 95 % intervals cover 95 %."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.evaluation.estimates import (
    bootstrap_error,
    exact_estimate,
    mean_estimate,
    proportion_estimate,
)
from zerolab.ratings.results import Score
from zerolab.report.interval import wilson

RUNS = 300
SLACK = 3 * (0.95 * 0.05 / RUNS) ** 0.5


def drawn_games(random, games, positions):
    """Return the game of each position; games have different numbers of them."""
    return np.repeat(np.arange(games), 1 + random.poisson(positions - 1, games))


def test_one_position_per_game_has_wilsons_interval():
    hits = np.array([True] * 30 + [False] * 10)
    found = proportion_estimate(hits, np.arange(40))
    assert found.interval == pytest.approx(Score(30, 0, 10).interval())
    assert (found.interval.value, found.samples) == (0.75, 40)


@pytest.mark.parametrize(("games", "rate", "alike"), [(20, 0.5, 0.5), (60, 0.8, 0.3)])
def test_proportions_over_correlated_positions_are_covered(games, rate, alike):
    """Beta-binomial games, some easy and some hard; Wilson's interval alone covers 60 to 75 %."""
    random = np.random.default_rng(1)
    a, b = (p * (1 - alike) / alike for p in (rate, 1 - rate))
    covered, naive = [], []
    for _ in range(RUNS):
        numbers = drawn_games(random, games, 8)
        hits = random.random(len(numbers)) < random.beta(a, b, games)[numbers]
        found = proportion_estimate(hits, numbers)
        covered.append(found.interval.low <= rate <= found.interval.high)
        _, low, high = wilson(found.interval.value, len(hits))
        naive.append(low <= rate <= high)
    assert 0.95 - SLACK < np.mean(covered) < 0.95 + SLACK
    assert np.mean(naive) < 0.85


def test_means_over_correlated_positions_are_covered():
    random = np.random.default_rng(2)
    covered = []
    for _ in range(RUNS):
        numbers = drawn_games(random, 50, 6)
        values = random.normal(2.0, 1.0, 50)[numbers] + random.normal(0.0, 1.0, len(numbers))
        found = mean_estimate(values, numbers)
        covered.append(found.interval.low <= 2.0 <= found.interval.high)
    assert 0.95 - SLACK < np.mean(covered) < 0.95 + SLACK


def test_the_error_of_equal_games_is_that_of_their_means():
    """Five copies of every number are no more evidence than one."""
    numbers = np.random.default_rng(3).normal(0, 1, 400)
    found = bootstrap_error(np.repeat(numbers, 5), np.repeat(np.arange(400), 5))
    assert found == pytest.approx(numbers.std(ddof=1) / 20, rel=0.1)


def test_an_interval_is_the_same_each_time():
    numbers = np.arange(100) // 4
    hits = np.random.default_rng(4).random(100) < 0.7
    assert proportion_estimate(hits, numbers) == proportion_estimate(hits, numbers)


def test_where_nothing_varies_games_are_the_trials():
    games = np.arange(100) // 4
    assert proportion_estimate(np.ones(100), games).interval == wilson(1.0, 25)
    assert proportion_estimate(np.array([1, 0, 1, 1]), np.zeros(4, int)).interval == wilson(0.75, 1)


def test_too_little_to_say_anything():
    nothing = np.empty(0)
    assert proportion_estimate(nothing, nothing) is exact_estimate(nothing) is None
    assert mean_estimate(np.array([1.0, 2.0]), np.array([7, 7])) is None
    assert mean_estimate(np.array([1.0, np.nan]), np.array([7, 8])) is None
    assert mean_estimate(np.array([1.0, np.nan, 3.0]), np.array([7, 8, 9])).interval.value == 2.0
