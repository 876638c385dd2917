"""Training Elo and tournament Elo: measurement errors and correlation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_run
from scipy.stats import spearmanr

from zerolab.papers.elo import (
    RunElos,
    attenuation,
    candidate_elo_errors,
    observed_elo_correlation,
    rank_correlation,
    training_elo_errors,
)
from zerolab.papers.loss_functions.study import LossFunctionsStudy
from zerolab.report.table import Z95
from zerolab.studies.claims import MissingEstimate
from zerolab.training.records import GateRecord


def gate(number, accepted, error, elo=0.0):
    return GateRecord(
        iteration=number, wall_seconds=0, accepted=accepted, elo=elo, candidate_elo=elo,
        candidate_elo_low=elo - Z95 * error, candidate_elo_high=elo + Z95 * error,
    )  # fmt: skip


def test_training_elo_errors_accumulate_over_accepted_candidates():
    planned = design_of(LossFunctionsStudy, "smoke").runs[0]
    gates = [gate(1, True, 30.0), gate(2, False, 99.0), gate(3, True, 40.0)]
    no_games = GateRecord(iteration=4, wall_seconds=0, accepted=True, elo=0.0)
    run = replace(made_up_run(planned, **alike(planned)), records=[*gates, no_games])
    assert training_elo_errors(run) == pytest.approx([30.0, 30.0, 50.0, 50.0])
    rejected = math.hypot(30.0, 99.0)
    assert candidate_elo_errors(run) == pytest.approx([30.0, rejected, 50.0])


def exactly(*pairs):
    return [RunElos(training, 0.0, tournament, 0.0) for training, tournament in pairs]


def test_rank_correlation_agrees_with_hand_computed_values():
    assert rank_correlation(exactly((1, 10), (2, 20), (3, 30))) == pytest.approx(1)
    assert rank_correlation(exactly((1, 30), (2, 20), (3, 10))) == pytest.approx(-1)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
    assert rank_correlation(exactly((1, 2), (2, 1), (3, 9), (4, 5))) == pytest.approx(0.6)
    assert rank_correlation(exactly((1, 5), (2, 5))) == 0


def test_rank_correlation_of_ties_agrees_with_scipy():
    random = np.random.default_rng(2)
    for _ in range(20):
        pairs = random.integers(0, 4, (9, 2)).astype(float)
        expected = float(spearmanr(*pairs.T).statistic)
        assert rank_correlation(exactly(*pairs.tolist())) == pytest.approx(expected)


def test_measurement_errors_reduce_the_correlation_to_the_attainable_one():
    """Measurement errors as large as the strengths reduce the correlation to 0.7.

    The rank correlation of normal variables is 6 / pi asin(r / 2). Tolerances are five standard
    deviations over seeds.
    """
    rng, count = np.random.default_rng(1), 200
    groups = []
    for _ in range(4):
        strengths = rng.normal(0, 100, count)
        first, second = (strengths + rng.normal(0, error, count) for error in (100, 10))
        pairs = zip(first, second, strict=True)
        groups.append([RunElos(one, 100.0, other, 10.0) for one, other in pairs])
    measured = math.sqrt(1 / (2 * 1.01))
    ranked = 6 / math.pi * math.asin(measured / 2)
    assert observed_elo_correlation(groups).value == pytest.approx(ranked, abs=0.1)
    assert np.mean([attenuation(group) for group in groups]) == pytest.approx(measured, abs=0.1)


def test_correlation_needs_three_runs_per_group():
    assert isinstance(observed_elo_correlation([exactly((1, 1), (2, 2))]), MissingEstimate)
