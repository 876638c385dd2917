"""Measure the coverage of the 95 % rating intervals and the time to compute ratings.

Usage: python tools/rating_coverage.py [REPETITIONS]
"""

from __future__ import annotations

import json
import statistics
import sys
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from zerolab.ratings.bayes import rate
from zerolab.ratings.ratings import Ratings
from zerolab.ratings.results import synthetic_tournament
from zerolab.report.table import Z95


class Setting(NamedTuple):
    """Tournament size and parameters of the rating model."""

    players: int
    games: int
    spread: float = 200.0
    advantage: float = 35.0
    draw_elo: float = 97.3


SETTINGS = [
    Setting(33, 20),
    Setting(82, 10),
    Setting(33, 20, spread=500.0),
    Setting(33, 20, advantage=150.0),
    Setting(33, 20, draw_elo=10.0),
    Setting(33, 20, draw_elo=400.0),
    Setting(8, 4),
    Setting(2, 40, spread=50.0),
]


def measure(setting: Setting, repetitions: int) -> dict[str, Any]:
    """Return the coverage of the intervals, mean errors, and seconds per computation."""
    random = np.random.default_rng(1)
    inside, errors, seconds, common = [], [], [], []
    for _ in range(repetitions):
        truth, results = synthetic_tournament(random, *setting)
        began = perf_counter()
        ratings = rate(results)
        seconds.append(perf_counter() - began)
        for rating in ratings.player_ratings:
            true_elo = ratings.model.display_factor * truth[rating.player]
            inside.append(rating.interval.low <= true_elo <= rating.interval.high)
            errors.append(rating.elo_model - truth[rating.player])
        common.append(_model_errors(ratings, setting))
    advantage, draw_elo = np.array(common).transpose(1, 0, 2)
    return {
        **setting._asdict(),
        "repetitions": repetitions,
        "covered": round(float(np.mean(inside)), 4),
        "root_mean_square_error": round(float(np.std(errors)), 2),
        "advantage_covered": round(float(np.mean(advantage[:, 1])), 3),
        "advantage_error": round(float(np.mean(advantage[:, 0])), 2),
        "draw_elo_covered": round(float(np.mean(draw_elo[:, 1])), 3),
        "draw_elo_error": round(float(np.mean(draw_elo[:, 0])), 2),
        "median_seconds": round(statistics.median(seconds), 4),
    }


def _model_errors(ratings: Ratings, setting: Setting) -> list[list[float]]:
    """Return [error, 1.0 if the interval contains the true value] of advantage and draw_elo."""
    model = ratings.model
    errors = [model.first_move_advantage - setting.advantage, model.draw_elo - setting.draw_elo]
    spreads = np.sqrt(np.diag(model.covariance)[-2:]).tolist()
    return [
        [error, float(abs(error) < Z95 * spread)]
        for error, spread in zip(errors, spreads, strict=True)
    ]


def main() -> None:
    """Measure all settings and print the results as JSON."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(json.dumps([measure(setting, repetitions) for setting in SETTINGS], indent=1))


if __name__ == "__main__":
    main()
