"""Standard errors of Elo relative to Random, for simulated tournaments of equally strong runs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_results, made_up_run, noise

from zerolab.papers.elo import elo_sample_above_random
from zerolab.papers.loss_functions.study import LossFunctionsStudy
from zerolab.ratings.results import EffectiveScore, MatchScore
from zerolab.studies.finished_work import PlayedTournament
from zerolab.studies.ledger import PairScore

PART = "gobang-5x5"
SCORE_AGAINST_RANDOM, DRAW_RATE, GAMES = 0.85, 0.1, 30


def simulated_scores(random, planned):
    """Return the scores of a tournament in which all networks are equally strong."""
    by_pair = {}
    for one, other in permutations(planned.players, 2):
        rate = 0.5
        if "random" in (one, other):
            rate = SCORE_AGAINST_RANDOM if other == "random" else 1.0 - SCORE_AGAINST_RANDOM
        chances = [rate - DRAW_RATE / 2, DRAW_RATE, 1.0 - rate - DRAW_RATE / 2]
        by_pair[one, other] = MatchScore(*random.multinomial(GAMES, chances).tolist())
    return [
        PairScore(
            planned.key, one, other, score, MatchScore(*by_pair[other, one][::-1]),
            EffectiveScore(*map(float, score)),
            EffectiveScore(*map(float, by_pair[other, one][::-1])),
        )
        for (one, other), score in by_pair.items()
    ]  # fmt: skip


def simulated(random, planned_tournaments):
    scores = {each.key: simulated_scores(random, each) for each in planned_tournaments}
    return PlayedTournament(planned_tournaments, scores)


def planned_with(seed_count):
    """Return a tournament per seed, one tournament of all seeds, and the runs of one loss."""
    design = design_of(LossFunctionsStudy, "mini", seed_count).restricted_to_parts([PART])
    by_seed = [each for each in design.tournaments if each.group_name == PART]
    everyone = {name: run for each in by_seed for name, run in each.run_by_player.items()}
    runs = [made_up_run(run, **alike(run)) for run in everyone.values()]
    of_one_loss = [run for run in runs if run.factors["loss"] == "sum"]
    return by_seed, replace(by_seed[0], run_by_player=everyone, seed=None), of_one_loss


def test_elo_is_relative_to_random():
    design = design_of(LossFunctionsStudy, "small").restricted_to_parts([PART])
    results = made_up_results("small", design, alike, noise)
    sample = elo_sample_above_random(results.tournaments[PART], results.runs_where(loss="sum"))
    assert np.mean(sample.values) == pytest.approx(300, abs=40)


def test_errors_agree_with_the_covariance_of_ratings():
    by_seed, _, runs = planned_with(2)
    played = simulated(np.random.default_rng(0), by_seed)
    for run, planned in zip(runs, by_seed, strict=True):
        model = played.ratings[planned.key].model
        i, j = (model.names.index(name) for name in (run.planned.label, "random"))
        c = model.covariance
        expected = model.display_factor * math.sqrt(c[i, i] + c[j, j] - 2.0 * c[i, j])
        assert model.display_factor < 0.99
        assert played.error_above_agent(run) == pytest.approx(expected)
        assert played.error_above_agent(run) > 1.3 * played.final_rating(run).standard_error


def test_spread_of_equal_runs_is_measurement_error_in_a_tournament_per_seed():
    random, ratios = np.random.default_rng(1), []
    by_seed, _, runs = planned_with(12)
    for _ in range(8):
        sample = elo_sample_above_random(simulated(random, by_seed), runs)
        ratios.append(np.var(sample.values, ddof=1) / np.mean(np.square(sample.standard_errors)))
    # The mean of 8 variances with 11 degrees of freedom has a standard error of 15 %.
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.4)


def test_spread_of_equal_runs_excludes_the_error_of_random_in_a_single_tournament():
    random, ratios, shifts = np.random.default_rng(2), [], []
    _, together, runs = planned_with(6)
    for _ in range(20):
        played = simulated(random, [together])
        sample = elo_sample_above_random(played, runs)
        ratios.append(np.var(sample.values, ddof=1) / np.mean(np.square(sample.standard_errors)))
        shifts.append(np.mean(sample.values))
    # 100 degrees of freedom: a standard error of 14 %.
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.4)
    assert np.std(shifts) > 1.2 * np.mean(sample.standard_errors)  # the error of Random
