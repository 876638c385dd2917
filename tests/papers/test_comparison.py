"""Comparisons with published scores, on hand-computed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zerolab.papers.warm_start.comparison import (
    PublishedScoreComparison,
    smallest_best_gain,
    smallest_worst_deficit,
)
from zerolab.ratings.results import MatchScore
from zerolab.report.table import Z95
from zerolab.studies.block_model import fit_per_game_models


@pytest.mark.parametrize(
    ("ours", "theirs", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 20), 0.6791, 1.0000),
        ((10, 10), (0, 10), 0.6075, 1.0000),
    ],
)
def test_intervals_agree_with_newcombe(ours, theirs, low, high):
    """Newcombe 1998, "Interval estimation for the difference", Table II, method 10."""
    compared = PublishedScoreComparison(
        MatchScore(ours[0], 0, ours[1] - ours[0]), ours[1], theirs[0] / theirs[1], theirs[1]
    )
    assert compared.difference[1:] == pytest.approx((low, high), abs=0.00006)


@pytest.mark.parametrize(
    ("score", "published", "agrees"),
    [
        # 0.5 and 0.6 of 100 have the intervals [.404, .596] and [.502, .691]: .1 < .1366
        (MatchScore(50, 0, 50), (0.6, 100), True),
        # near 0.5 at 500 games, half-widths of .0436 allow a difference of .0617
        (MatchScore(265, 0, 235), (0.470, 500), True),
        (MatchScore(266, 0, 234), (0.468, 500), False),
        (MatchScore(234, 0, 266), (0.532, 500), False),
        # one loss in a hundred games is no evidence
        (MatchScore(99, 0, 1), (1.0, 500), True),
        (MatchScore(490, 0, 10), (1.0, 500), False),
        (MatchScore(500, 0, 0), (1.0, 500), True),
        (MatchScore(0, 0, 20), (0.0, 500), True),
        # draws count half
        (MatchScore(0, 500, 0), (0.5, 500), True),
        (MatchScore(100, 60, 90), (0.52, 500), True),
    ],
)
def test_verdict_agrees_with_hand_computed_intervals(score, published, agrees):
    compared = PublishedScoreComparison(score, score.game_count, *published)
    assert compared.agrees is agrees
    assert compared.agreement == ("agree" if agrees else "differ")
    difference, low, high = compared.difference
    assert compared.agrees is (low <= 0 <= high)
    assert math.copysign(1, compared.z_score) == math.copysign(1, difference)


def test_z_agrees_with_hand_computed_value():
    """The facing ends of the Wilson intervals of 50 and 60 of 100 are 0.596 and 0.502."""
    margin = math.hypot(0.596168 - 0.5, 0.6 - 0.502003)
    z = PublishedScoreComparison(MatchScore(50, 0, 50), 100, 0.6, 100).z_score
    assert z == pytest.approx(-0.1 / (margin / Z95), abs=1e-4)


@pytest.mark.parametrize("games", [100, 500])
@pytest.mark.parametrize("truth", [0.5, 0.9, 0.97, 0.995])
def test_equal_truths_rarely_differ(truth, games):
    draw = np.random.default_rng(5).binomial
    ours, theirs = draw(games, truth, 3000).tolist(), draw(500, truth, 3000).tolist()
    verdicts = [
        PublishedScoreComparison(MatchScore(a, 0, games - a), games, b / 500, 500).agrees
        for a, b in zip(ours, theirs, strict=True)
    ]
    error = math.sqrt(0.05 * 0.95 / len(verdicts))
    assert 1 - np.mean(verdicts) < 0.05 + 3 * error


def test_published_interval_is_a_wilson_interval():
    """For 0 of 10, the upper end is z^2 / (n + z^2)."""
    _, low, high = PublishedScoreComparison(MatchScore(1, 0, 1), 2, 0.0, 10).published_interval
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(Z95**2 / (10 + Z95**2))
    assert PublishedScoreComparison(
        MatchScore(1, 0, 1), 2, 0.3, 10
    ).published_interval == MatchScore(3, 0, 7).interval(10)


def model_of(elos):
    """Return a model of games in which variants have nearly the given Elo."""
    random = np.random.default_rng(0)
    return fit_per_game_models(
        {
            game: {
                variant: {seed: elo + random.normal() for seed in range(8)}
                for variant, elo in by_variant.items()
            }
            for game, by_variant in elos.items()
        }
    )


def test_best_variants_by_game():
    elos = {
        "one": {"baseline": 0.0, "a": 100.0, "b": -50.0},
        "other": {"baseline": 0.0, "a": -30.0, "b": 40.0},
    }
    gain = smallest_best_gain(model_of(elos), ["a", "b"], ["one", "other"])
    assert gain.value == pytest.approx(40, abs=2)
    assert gain.p_value(30.0) < 0.001
    assert gain.p_value(50.0) < 0.001
    deficit = smallest_worst_deficit(model_of(elos), ["baseline", "a", "b"], ["one", "other"])
    assert deficit.value == pytest.approx(70, abs=2)  # of b over a in the other game
    elos["other"]["a"] = 60.0
    deficit = smallest_worst_deficit(model_of(elos), ["baseline", "a", "b"], ["one", "other"])
    assert deficit.value == pytest.approx(-20, abs=2)  # a is the best in both
    assert deficit.interval.high < 0.0
