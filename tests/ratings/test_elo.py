"""Elo from a match, against the formula's known values."""

from __future__ import annotations

import math

import pytest

from zerolab.ratings.elo import Score, elo_difference


def test_an_even_score_is_no_difference():
    assert elo_difference(Score(10, 4, 10)) == 0.0
    assert elo_difference(Score(0, 0, 0)) == 0.0


def test_draws_are_half_points():
    assert Score(1, 2, 1).share == 0.5
    assert elo_difference(Score(3, 2, 1)) == pytest.approx(elo_difference(Score(4, 0, 2)))


def test_the_difference_is_that_of_the_logistic_curve():
    """With many games the two virtual draws hardly count: 10 to 1 is 400 points."""
    assert elo_difference(Score(1_000_000, 0, 100_000)) == pytest.approx(400, abs=0.01)
    assert elo_difference(Score(40, 0, 0)) == pytest.approx(400 * math.log10(41))
    assert elo_difference(Score(0, 0, 40)) == pytest.approx(-400 * math.log10(41))


def test_wilson_intervals():
    """Values of Wilson's interval for 8 of 10 and 0 of 10 (Wilson 1927)."""
    assert Score(8, 0, 2).interval() == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert Score(0, 0, 10).interval() == pytest.approx((0.0, 0.2775), abs=1e-4)
