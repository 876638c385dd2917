"""Training Elo and tournament Elo: measurement errors, correlation, and ranked leads."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_results, made_up_run, noise
from scipy.stats import spearmanr

from zerolab.papers.elo import (
    correlation_with_elo,
    rank_correlations,
)
from zerolab.papers.loss_functions.analysis import (
    RunElos,
    attainable_correlation,
    candidate_elo_standard_errors,
    expected_rank_correlation,
    loss_report,
    rank_correlation,
    run_elos,
    training_elo_standard_errors,
)
from zerolab.papers.loss_functions.study import LOSS_SYMBOLS, LossFunctionsStudy
from zerolab.report.document import Paragraph
from zerolab.report.table import Z95
from zerolab.studies.block_model import fit_per_game_models, ranked_lead
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import bootstrap_mean_statistic
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
    assert training_elo_standard_errors(run) == pytest.approx([30.0, 30.0, 50.0, 50.0])
    rejected = math.hypot(30.0, 99.0)
    assert candidate_elo_standard_errors(run) == pytest.approx([30.0, rejected, 50.0])


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


def test_attainable_correlation_is_that_of_perfectly_correlated_strengths():
    """Groups of 12 runs with reliabilities of 0.19 and 0.79, in many studies of 24 groups.

    A reliability that is clipped at 0 in each group would give 0.29 instead of 0.34.
    """
    rng = np.random.default_rng(1)
    training_error, tournament_error = (math.sqrt(1 / share - 1) for share in (0.19, 0.79))
    observed, attainable = [], []
    for _ in range(60):
        groups = []
        for _ in range(24):
            strengths = rng.normal(0.0, 1.0, 12)
            training = strengths + rng.normal(0.0, training_error, 12)
            tournament = strengths + rng.normal(0.0, tournament_error, 12)
            groups.append(
                [
                    RunElos(one, training_error, other, tournament_error)
                    for one, other in zip(training, tournament, strict=True)
                ]
            )
        observed.append(np.mean([rank_correlation(group) for group in groups]))
        attainable.append(attainable_correlation(groups))
    assert np.mean(attainable) == pytest.approx(np.mean(observed), abs=0.02)


def test_attainable_correlation_without_errors_is_one():
    assert attainable_correlation([exactly((1, 5), (2, 9), (4, 3))]) == pytest.approx(1.0)


@pytest.mark.parametrize(("correlation", "count"), [(0.4, 12), (-0.9, 3)])
def test_expected_rank_correlation_agrees_with_simulated_samples(correlation, count):
    rng = np.random.default_rng(4)
    covariance = [[1.0, correlation], [correlation, 1.0]]
    pairs = rng.multivariate_normal([0.0, 0.0], covariance, (20_000, count))
    found = expected_rank_correlation(correlation, count)
    assert found == pytest.approx(rank_correlations(pairs).mean(), abs=0.02)


def test_expected_rank_correlation_has_the_sign_and_the_limits_of_the_correlation():
    for count in (2, 3, 50):
        assert expected_rank_correlation(1.0, count) == pytest.approx(1.0)
        assert expected_rank_correlation(-1.0, count) == pytest.approx(-1.0)
        assert expected_rank_correlation(0.0, count) == 0.0


@pytest.mark.parametrize(("error", "is_noted"), [(200.0, True), (0.0, False)])
def test_report_notes_a_limit_that_cannot_be_reached(error, is_noted):
    design = design_of(LossFunctionsStudy, "mini")
    report = loss_report(made_up_results("mini", design, alike, noise, error))
    texts = [each.text for each in report.blocks if isinstance(each, Paragraph)]
    assert any("does not show that training Elo is biased" in text for text in texts) == is_noted


def test_errors_of_deviations_follow_from_the_covariance():
    """Five players with equal errors: the difference from the mean of four has Var(1 - 1 / 4)."""
    design = design_of(LossFunctionsStudy, "mini", 2).restricted_to_parts(["gobang-5x5"])
    results = made_up_results("mini", design, alike, noise, error=20.0)
    runs = [run for loss in LOSS_SYMBOLS for run in results.runs_where(loss=loss)]
    independent = 20.0 * math.sqrt(5 / 4)
    for each in run_elos(results.tournaments["gobang-5x5"], runs):
        assert each.tournament_elo_standard_error == pytest.approx(independent * math.sqrt(3 / 4))


def correlated(groups, seed_count=None):
    """Return the correlation for runs whose Elo and training Elo depend on the loss alone, except
    for independent noise."""
    level = {"policy": 0.0, "value": 1000.0, "sum": 2000.0, "product": 3000.0}

    def elo(planned):
        return level[planned.factors["loss"]] + noise(planned)

    def measure(planned):
        return {**alike(planned), "elo": elo(planned) + 100 * noise(planned, 0.1, "training")}

    design = design_of(LossFunctionsStudy, "mini", seed_count).restricted_to_parts(
        ["othello-5x5", "gobang-5x5"]
    )
    results = made_up_results("mini", design, measure, elo)
    return correlation_with_elo(
        results, design.part_names, "loss", groups, lambda run: run.training_elos[-1]
    )


def test_correlation_includes_differences_between_the_levels_of_a_group():
    between, within = (
        correlated([[*LOSS_SYMBOLS]]),
        correlated([[target] for target in LOSS_SYMBOLS]),
    )
    assert between.value > 0.9
    assert between.p_value(0.5) < 0.01
    assert within.value < 0.9


def test_groups_of_a_part_are_resampled_together():
    """Two levels with opposite numbers have equal correlations in every sample of seeds."""
    sign = {"value": 1.0, "policy": -1.0}

    def opposite(planned, what):
        number = np.random.default_rng([planned.factors["seed"], *what.encode()]).normal(0.0, 100.0)
        return sign.get(planned.factors["loss"], 0.0) * number

    def measure(planned):
        return {**alike(planned), "elo": opposite(planned, "elo") + opposite(planned, "more")}

    design = design_of(LossFunctionsStudy, "mini").restricted_to_parts(["othello-5x5"])
    results = made_up_results("mini", design, measure, lambda run: opposite(run, "elo"))
    found = correlation_with_elo(
        results, design.part_names, "loss", [["value"], ["policy"]],
        lambda run: run.training_elos[-1],
    )  # fmt: skip
    elos = results.tournaments["othello-5x5"].elo_above_agent
    runs = results.runs_where("othello-5x5", loss="value")
    pairs = np.array([[(run.training_elos[-1], elos(run))] for run in runs])
    alone = bootstrap_mean_statistic(pairs, statistic=rank_correlations)
    assert 0.1 < found.value < 0.99
    np.testing.assert_allclose(found.replicates, alone.replicates)


def test_correlation_needs_three_runs_per_group():
    assert isinstance(correlated([["sum"]], seed_count=2), MissingEstimate)
    assert not isinstance(correlated([["sum", "value"]], seed_count=2), MissingEstimate)


def leads_of(values, rank):
    return ranked_lead(fit_per_game_models(values), "a", ["b", "c"], [*values], rank)


def table_of_leads(true_leads, seeds=4, spread=5.0, generator=None):
    """Return values by game, variant and seed: "a" leads "b" by the given number and "c" by 100
    more."""
    rng = generator or np.random.default_rng(3)
    return {
        game: {
            variant: {seed: mean + rng.normal(0, spread) for seed in range(seeds)}
            for variant, mean in (("a", lead), ("b", 0.0), ("c", -100.0))
        }
        for game, lead in enumerate(true_leads)
    }


def test_ranked_lead_is_that_over_the_closest_rival():
    values = table_of_leads([60, -40, 20, 90, -70, 30])
    for rank, lead in ((1, 90), (3, 30), (4, 20), (5, -40), (6, -70)):
        found = leads_of(values, rank)
        assert found.value == pytest.approx(lead, abs=8)
        assert found.interval.low < lead < found.interval.high
        assert found.p_value(lead) > 0.05
    majority = leads_of(values, 4)
    assert majority.interval.low > 0
    assert majority.p_value(0.0) < 0.05
    assert leads_of(values, 5).p_value(0.0) < 0.05


def test_small_leads_of_one_sign_add_up():
    """Leads of -14 with standard errors of 7 are significant only on several boards together."""
    values = table_of_leads([-14] * 6, seeds=4, spread=10.0)
    found = leads_of(values, 4)
    single = leads_of({0: values[0]}, 1)
    assert found.p_value(0.0) < 0.05 < single.p_value(0.0)


@pytest.mark.parametrize("true_leads", [(0,) * 6, (0, 0, 0, 0, -90, -90), (90, 90, 90, 0, 0, 0)])
def test_ranked_lead_of_zero_is_rarely_rejected(true_leads):
    """At most 5 % of decisions, plus three standard deviations, are wrong in 100 studies."""
    rng = np.random.default_rng(1)
    wrong = sum(
        leads_of(table_of_leads(true_leads, spread=20.0, generator=rng), 4).p_value(0.0) < 0.05
        for _ in range(100)
    )
    assert wrong <= 100 * 0.05 + 3 * math.sqrt(100 * 0.05 * 0.95)
