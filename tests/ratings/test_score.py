"""Score rates of matches and Wilson intervals."""

from __future__ import annotations

import pytest

from zerolab.ratings.results import MatchScore


def test_draws_count_half():
    assert MatchScore(1, 2, 1).score_rate == 0.5
    assert MatchScore(3, 2, 1).score_rate == MatchScore(4, 0, 2).score_rate
    assert MatchScore(0, 0, 0).score_rate == 0.5


def test_intervals_match_published_wilson_intervals():
    """Published intervals for 8 of 10 and 0 of 10 (Wilson 1927)."""
    assert MatchScore(8, 0, 2).interval(10) == pytest.approx((0.8, 0.4902, 0.9433), abs=1e-4)
    assert MatchScore(0, 0, 10).interval(10) == pytest.approx((0.0, 0.0, 0.2775), abs=1e-4)
