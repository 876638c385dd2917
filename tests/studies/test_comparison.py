"""Agree or differ, on numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zerolab.ratings.elo import Score
from zerolab.studies.comparison import Comparison


@pytest.mark.parametrize(
    ("score", "published", "games", "z", "agrees"),
    [
        # p = 0.55, variance 0.2475 / 50
        (Score(50, 0, 50), 0.6, 100, -0.1 / math.sqrt(0.00495), True),
        # p = 0.5, variance 0.25 / 250 = 0.001
        (Score(265, 0, 235), 0.470, 500, 0.060 / math.sqrt(0.001), True),
        (Score(266, 0, 234), 0.468, 500, 0.064 / math.sqrt(0.001), False),
        (Score(234, 0, 266), 0.532, 500, -0.064 / math.sqrt(0.001), False),
        # p = 0.75, variance 0.1875 / 250
        (Score(500, 0, 0), 0.5, 500, 0.5 / math.sqrt(0.00075), False),
        # unequal counts: p = (10 + 0.2 * 80) / 100 = 0.26, variance 0.1924 * (1/20 + 1/80)
        (Score(10, 0, 10), 0.2, 80, 0.3 / math.sqrt(0.012025), False),
        # draws are halves
        (Score(0, 500, 0), 0.5, 500, 0.0, True),
        (Score(100, 60, 90), 0.52, 500, 0.0, True),
        # no variance at either end
        (Score(500, 0, 0), 1.0, 500, 0.0, True),
        (Score(0, 0, 20), 0.0, 500, 0.0, True),
    ],
)
def test_z_and_verdict(score, published, games, z, agrees):
    compared = Comparison(score, published, games)
    assert compared.z == pytest.approx(z, abs=1e-12)
    assert compared.agrees is agrees
    assert compared.verdict == ("agree" if agrees else "differ")


@pytest.mark.parametrize("truth", [0.5, 0.9, 0.97, 0.995])
def test_equal_truths_differ_in_at_most_one_case_of_twenty(truth):
    drawn = np.random.default_rng(5).binomial(500, truth, (4000, 2)).tolist()
    verdicts = [Comparison(Score(a, 0, 500 - a), b / 500, 500).agrees for a, b in drawn]
    error = math.sqrt(0.05 * 0.95 / len(verdicts))
    assert 1 - np.mean(verdicts) < 0.05 + 3 * error


def test_the_published_interval_is_wilson_s():
    """None of ten: the upper end is z^2 / (n + z^2), Wilson's centre plus margin."""
    low, high = Comparison(Score(1, 0, 1), 0.0, 10).published_interval
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(1.96**2 / (10 + 1.96**2))
    assert Comparison(Score(1, 0, 1), 0.3, 10).published_interval == Score(3, 0, 7).interval()


def test_the_dictionary_holds_the_numbers():
    found = Comparison(Score(7, 2, 1), 0.5, 500).as_dict()
    assert (found["wins"], found["draws"], found["losses"], found["share"]) == (7, 2, 1, 0.8)
    assert found["low"] < 0.8 < found["high"]
    assert found["published_low"] < 0.5 < found["published_high"]
    assert found["difference"] == pytest.approx(0.3)
