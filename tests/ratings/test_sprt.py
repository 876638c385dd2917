"""The sequential test: error rates, likelihood ratios and pairs of games."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zerolab.core.errors import UserError
from zerolab.ratings.results import GameResult
from zerolab.ratings.sprt import Sprt, cumulative_pair_counts, expected_score, log_likelihood_ratio


def verdict_on_pairs(sprt, pairs):
    """Return the verdict for int[5]: numbers of pairs with 0, 1/2, 1, 3/2 and 2 points."""
    return sprt.verdict(float(log_likelihood_ratio(pairs, sprt.elo0, sprt.elo1)))


def share_accepting_h1(elo, elo0, elo1, *, runs=1000, max_pairs=1500, bias=0.0):
    """Simulate sequential tests on pairs of games, and return the share that accept H1.

    Both games of a pair share an opening, which favours one side by up to `bias`.
    """
    random = np.random.default_rng(5)
    pairs = np.zeros((runs, 5))
    upper = math.log(0.95 / 0.05)
    decided = np.zeros(runs)
    for _ in range(max_pairs):
        running = np.flatnonzero(decided == 0)
        if not running.size:
            break
        share, draw_rate = expected_score(elo), 0.3
        tilt = random.uniform(-bias, bias, len(running))
        points = np.zeros(len(running), np.int64)
        for sign in (1, -1):
            wins = share + sign * tilt - draw_rate / 2
            samples = random.random(len(running))
            points += np.where(samples < wins, 2, np.where(samples < wins + draw_rate, 1, 0))
        pairs[running, points] += 1
        ratio = log_likelihood_ratio(pairs[running], elo0, elo1)
        decided[running] = np.where(ratio >= upper, 1, np.where(ratio <= -upper, -1, 0))
    assert np.count_nonzero(decided) > 0.99 * runs
    return np.mean(decided == 1)


@pytest.mark.parametrize("bias", [0.0, 0.25])
def test_error_rates_are_within_bounds(bias):
    """Both are at most 5 %, with three standard deviations of 1,000 tests (2.1 %) as a margin."""
    assert share_accepting_h1(0, 0, 80, bias=bias) < 0.071
    assert share_accepting_h1(80, 0, 80, bias=bias) > 0.929


def test_large_difference_is_decided_quickly():
    verdicts = [verdict_on_pairs(Sprt(0, 50), [0, 0, 0, 0, n]).decision for n in range(60)]
    assert verdicts[0] == "continue"
    assert verdicts[-1] == "accept H1"
    lost = [verdict_on_pairs(Sprt(0, 50), [n, 0, 0, 0, 0]).decision for n in range(60)]
    assert lost[-1] == "accept H0"


def test_even_pairs_favour_nearer_hypothesis():
    assert verdict_on_pairs(Sprt(0, 50), [0, 0, 500, 0, 0]).decision == "accept H0"
    assert verdict_on_pairs(Sprt(-50, 0), [0, 0, 500, 0, 0]).decision == "accept H1"
    assert verdict_on_pairs(Sprt(-20, 20), [3, 7, 11, 7, 3]).llr == pytest.approx(0, abs=1e-9)


def test_two_scores_give_bernoulli_likelihood_ratio():
    """Pairs that are always won or lost follow a Bernoulli distribution."""
    p0, p1 = expected_score(0), expected_score(60)
    coin = 30 * math.log(p1 / p0) + 20 * math.log((1 - p1) / (1 - p0))
    assert log_likelihood_ratio([20, 0, 0, 0, 30], 0, 60) == pytest.approx(coin, abs=0.02)


def test_bounds_follow_wald():
    verdict = verdict_on_pairs(Sprt(0, 10, alpha=0.05, beta=0.1), [0] * 5)
    assert verdict.llr == 0
    assert verdict.lower == pytest.approx(math.log(0.1 / 0.95))
    assert verdict.upper == pytest.approx(math.log(0.9 / 0.05))


def games_of_a(outcomes, lines=None):
    """Return games with these outcomes for "a", which moves first in even-numbered games."""
    sides = ("a", "b"), ("b", "a")
    return [
        GameResult(*sides[i % 2], outcome * (-1) ** i, lines[i] if lines else None)
        for i, outcome in enumerate(outcomes)
    ]


def test_pairs_are_counted():
    outcomes = [1, 1, 1, 0, 1, -1, 0, 0, 0, -1, -1, -1, 1]
    counts = cumulative_pair_counts("a", games_of_a(outcomes))
    assert counts[0].tolist() == [0, 0, 0, 0, 1]
    assert counts[-1].tolist() == [1, 1, 2, 1, 1]
    assert counts.sum(axis=1).tolist() == [1, 2, 3, 4, 5, 6]
    reversed_counts = cumulative_pair_counts("b", games_of_a(outcomes))
    assert reversed_counts[-1].tolist() == counts[-1, ::-1].tolist()
    assert cumulative_pair_counts("a", games_of_a([1])).shape == (0, 5)


def test_pairs_are_scaled_to_their_effective_number():
    """Second games are x, x, x and z, so four pairs count as 4^2 / (3^2 + 1)."""
    lines = ["x", "x", "x", "x", "y", "x", "z", "z"]
    counts = cumulative_pair_counts("a", games_of_a([1] * 8, lines))
    assert counts[:, 4].tolist() == [1, 1, 1, 1.6]
    assert counts[:, :4].sum() == 0


def test_repeating_two_games_never_decides():
    repeated = games_of_a([1, 1] * 100, ["x", "y"] * 100)
    count, verdict = Sprt(0, 50).judge_games("a", repeated)
    assert (count, verdict.decision) == (200, "continue")
    different = games_of_a([1, 1] * 100)
    count, verdict = Sprt(0, 50).judge_games("a", different)
    assert verdict.decision == "accept H1"
    assert count < 60


def test_judge_stops_at_deciding_pair():
    outcomes = np.random.default_rng(2).choice([1, 1, 0, -1], 400).tolist()
    games = games_of_a(outcomes)
    count, verdict = Sprt(0, 50).judge_games("a", games)
    assert verdict == verdict_on_pairs(Sprt(0, 50), cumulative_pair_counts("a", games[:count])[-1])
    assert verdict.decision != "continue"
    assert Sprt(0, 50).judge_games("a", games[: count - 2])[1].decision == "continue"
    assert Sprt(0, 50).judge_games("a", games, undecided=count - 6) == (count, verdict)
    assert Sprt(0, 50).judge_games("a", [])[1].decision == "continue"


def test_repeated_games_do_not_raise_error_rate():
    """Equal players with 30 lines; if repetitions counted, a sixth of the tests would err."""
    random = np.random.default_rng(6)
    is_wrong = []
    for _ in range(200):
        outcomes = random.choice([1, 0, -1], (30, 2))
        lines = random.integers(0, 30, 120)
        games = games_of_a(outcomes[lines].reshape(-1).tolist(), np.repeat(lines, 2).tolist())
        is_wrong.append(Sprt(0, 50).judge_games("a", games)[1].decision == "accept H1")
    assert np.mean(is_wrong) < 0.1  # 5 % plus three standard deviations


@pytest.mark.parametrize(
    "wrong",
    [
        Sprt(50, 0),
        Sprt(0, 0),
        Sprt(0, 5000),
        Sprt(math.nan, 5),
        Sprt(0, 5, 0.0),
        Sprt(0, 5, 0.05, 0.7),
    ],
)
def test_invalid_tests_are_refused(wrong):
    with pytest.raises(UserError, match="expected"):
        wrong.validated()
