"""Findings on loss functions, for invented runs with known effects.

The tests stay in one file because they share invented results of the whole study.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_results, noise, words

from zerolab.papers.elo import GAME_TITLES, weakest_elo_above_random
from zerolab.papers.loss_functions import analysis, curve_claims, findings, study
from zerolab.papers.loss_functions.study import LAMBDA, LOSS_SYMBOLS, LossFunctionsStudy
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.results import Results
from zerolab.training.records import GateRecord, LearnRecord

pytestmark = pytest.mark.usefixtures("no_folders")


@cache
def losses_results(advantage, scale="small", seed_count=None):
    """Return results in which the value loss adds `advantage` Elo."""

    def elo(planned):
        return noise(planned) + (advantage if planned.factors["loss"] == "value" else 0.0)

    return made_up_results(scale, design_of(LossFunctionsStudy, scale, seed_count), alike, elo)


def judged(measure):
    """Return statistics, their values by claim key, and results, for runs with a measure."""
    results = made_up_results("mini", design_of(LossFunctionsStudy, "mini"), measure, noise)
    statistics = findings.loss_statistics(results)
    return statistics, {claim.key: each.value for claim, each in statistics.items()}, results


def weakest(results):
    return weakest_elo_above_random(results, results.design.part_names, "loss", [*LOSS_SYMBOLS])


def bias(results):
    correlations = findings.correlations(results, results.design.part_names)
    return correlations[curve_claims.TRAINING_ELO_BIAS_CLAIM]


def test_value_claims_follow_the_elo_of_value_and_sum():
    for advantage, word in ((300.0, "holds"), (-200.0, "does not hold")):
        found = words(findings.loss_statistics(losses_results(advantage)))
        assert found["value-loss-best"] == found["value-above-sum"] == word
        assert {found[each.key] for each in findings.VALUE_BEST_ON_BOARD_CLAIMS.values()} == {word}
        assert found["product-losses-like-sum"] == "holds"
        assert found["all-learn"] == "holds"


def test_sum_and_product_follow_their_elo():
    """The product adds 600 Elo in 6x6 Gobang, the value loss takes 100 everywhere."""

    def elo(planned):
        gains = planned.factors["loss"] == "product" and planned.part == "gobang-6x6"
        loses = planned.factors["loss"] == "value"
        return noise(planned) + 600.0 * gains - 100.0 * loses

    design = design_of(LossFunctionsStudy, "mini")
    statistics = findings.loss_statistics(made_up_results("mini", design, alike, elo))
    found, values = words(statistics), {claim.key: each for claim, each in statistics.items()}
    assert found["value-best-on-most-boards"] == "does not hold"
    assert values["value-above-sum-everywhere"].value == pytest.approx(-100, abs=15)
    assert found["product-as-strong-as-sum"] == "does not hold"
    assert values["product-as-strong-as-sum"].value == pytest.approx(100, abs=15)
    assert values["product-above-sum-in-some-games"].value == pytest.approx(600, abs=40)
    assert found["best-loss-depends-on-game"] == "does not hold"  # the policy loss leads everywhere
    assert values["best-loss-depends-on-game"].value == pytest.approx(-100, abs=15)
    assert values["sum-is-a-compromise"].value == pytest.approx(600, abs=40)
    assert values["value-loss-varies-less-othello-6x6"].value == pytest.approx(1.0, abs=0.7)
    assert values["product-above-sum-in-both-games"].value == pytest.approx(0, abs=15)
    assert values["loss-can-matter-much"].value == pytest.approx(100, abs=40)  # no Gobang


def test_usually_best_means_best_on_most_boards():
    """The value loss gains 100 Elo on some boards and loses much more on the others."""
    design = design_of(LossFunctionsStudy, "mini")
    for count, word in ((4, "holds"), (3, "does not hold")):

        def elo(planned, boards=design.part_names[:count]):
            gain = 100.0 if planned.part in boards else -300.0
            return noise(planned) + gain * (planned.factors["loss"] == "value")

        statistics = findings.loss_statistics(made_up_results("mini", design, alike, elo))
        assert words(statistics)["value-best-on-most-boards"] == word
        if count == 4:  # the sum is not best on these
            assert words(statistics)["sum-seldom-best"] == "holds"
        mean = statistics[findings.VALUE_ABOVE_SUM_ALL_CLAIM].value
        assert mean == pytest.approx((100 * count - 300 * (6 - count)) / 6, abs=15)


def test_value_loss_must_be_best_on_each_claimed_board():
    def elo(planned):
        gain = -100.0 if planned.part == "connect_four-5x5" else 300.0
        return noise(planned) + gain * (planned.factors["loss"] == "value")

    design = design_of(LossFunctionsStudy, "mini")
    found = findings.loss_statistics(made_up_results("mini", design, alike, elo))
    assert found[findings.VALUE_BEST_CLAIM].value == pytest.approx(-100, abs=40)


@pytest.mark.parametrize(("gain", "word"), [(20.0, "holds"), (0.0, "does not hold")])
def test_value_loss_has_the_highest_training_elo_if_it_beats_each_other_loss(gain, word):
    def measure(planned):
        own = gain if planned.factors["loss"] == "value" else 10.0
        return {**alike(planned), "elo": own + noise(planned, 0.1)}

    assert words(judged(measure)[0])["value-highest-training-elo"] == word


def test_combinations_must_beat_each_single_loss():
    """Training Elo gains 100 per iteration with a combination, and 80 with the policy loss."""

    def measure(planned):
        gain = {"policy": 80.0, "value": 0.0}.get(planned.factors["loss"], 100.0)
        return {**alike(planned), "elo": gain}

    _, values, results = judged(measure)
    iterations = results.runs_where("othello-6x6")[0].planned.settings.iterations
    assert values["combined-rise-faster-othello-6x6"] == pytest.approx(20 * iterations)


def test_product_and_sum_are_compared_on_each_board():
    """Differences of opposite sign on two boards do not cancel."""

    def measure(planned):
        sign = {"othello-5x5": 1.0, "othello-6x6": -1.0}.get(planned.part, 0.0)
        return {**alike(planned), "loss": 1.0 + 0.5 * sign * (planned.factors["loss"] == "sum")}

    assert judged(measure)[1]["product-losses-like-sum"] == pytest.approx(0.7 * 0.5)


def test_best_loss_depends_on_game_only_if_it_changes():
    """The value loss gains 100 Elo, and the policy loss gains or loses 300 in Gobang."""
    for gain, word in ((300.0, "holds"), (-300.0, "does not hold")):

        def elo(planned, gain=gain):
            loss, is_gobang = planned.factors["loss"], planned.part.startswith("gobang")
            return noise(planned) + {"value": 100.0, "policy": gain * is_gobang}.get(loss, 0.0)

        design = design_of(LossFunctionsStudy, "mini")
        statistics = findings.loss_statistics(made_up_results("mini", design, alike, elo))
        assert words(statistics)["best-loss-depends-on-game"] == word


def test_fastest_training_elo_is_compared_with_every_other_loss():
    """The policy loss gains 500 Elo per iteration and the value loss 300, so the lead is 200."""

    def measure(planned):
        gain = {"policy": 500.0, "value": 300.0}.get(planned.factors["loss"], 0.0)
        return {**alike(planned), "elo": 10.0 + gain}

    _, values, results = judged(measure)
    for part, key, sign in (
        ("othello-5x5", "policy-rises-fastest", 1), ("gobang-5x5", "value-rises-highest", -1)
    ):  # fmt: skip
        iterations = results.runs_where(part)[0].planned.settings.iterations
        assert values[f"{key}-{part}"] == pytest.approx(sign * 200 * iterations)


def test_losses_of_boards_are_measured():
    """Invented losses fall in proportion to iterations, and policy losses are higher."""
    results = losses_results(0.0)
    found = {claim.key: each for claim, each in findings.loss_statistics(results).items()}
    iterations = results.runs_where("othello-5x5")[0].planned.settings.iterations
    fall = (iterations - 1) / iterations
    assert found["policy-loss-falls-othello-5x5"].value == pytest.approx(fall)
    assert found["both-losses-fall-othello-5x5"].value == pytest.approx(fall / 3)
    assert found["policy-loss-falls-gobang-5x5"].value == pytest.approx(fall)
    assert found["value-loss-falls-with-policy-gobang-5x5"].value == pytest.approx(fall / 3)
    assert found["value-loss-lowest-gobang-5x5"].value == pytest.approx(0.21 - 0.3, abs=0.05)
    assert found["product-losses-like-sum"].value == 0.0
    assert found["combinations-reach-lowest-loss"].value == 0.0


def test_curves_of_both_sizes_are_compared():
    """In the invented results, policy losses fall by f, and value losses by f / 3."""
    results = losses_results(0.0)

    def fall(part, share):
        iterations = results.runs_where(part)[0].planned.settings.iterations
        return round(share * (iterations - 1)) / iterations

    points = [(game, share) for game in GAME_TITLES for share in (0.5, 1.0)]
    gaps = [fall(f"{game}-6x6", share) - fall(f"{game}-5x5", share) for game, share in points]
    largest = curve_claims.largest_decrease_difference(results)
    assert largest.value == pytest.approx(np.abs(gaps).max())

    def swapped(run):
        if not run.planned.part.endswith("6x6"):
            return run
        losses = {"policy": "value", "value": "policy", "sum": "sum", "product": "product"}
        records = [
            record.model_copy(
                update={"loss": {name: record.loss[other] for name, other in losses.items()}}
            )
            for record in run.records_of(LearnRecord)
        ]
        return replace(run, records=records)

    other = replace(results, runs=[swapped(run) for run in results.runs])
    found = curve_claims.largest_decrease_difference(other)
    policy = [fall(f"{game}-6x6", at) / 3 - fall(f"{game}-5x5", at) for game, at in points]
    value = [fall(f"{game}-6x6", at) - fall(f"{game}-5x5", at) / 3 for game, at in points]
    assert found.value == pytest.approx(np.abs([*policy, *value]).max())
    assert found.value > curve_claims.LARGER_BOARDS_CLAIM.threshold


def test_claims_name_figures_of_the_report():
    document = analysis.loss_report(losses_results(0.0, seed_count=1))
    figures = {claim.figure for claim in findings.loss_statistics(losses_results(0.0))}
    assert figures <= {each.name for each in document.pictures}


def test_candidates_training_elo_can_fall():
    full = losses_results(0.0)
    (run, *_) = full.runs_where("connect_four-5x5", loss="sum")
    gates = [
        gate.model_copy(update={"candidate_elo": -10.0 * gate.iteration, "accepted": False})
        for gate in run.records_of(GateRecord)
    ]
    worse = replace(run, records=gates)
    assert study.candidate_elos(worse) == [-10.0 * gate.iteration for gate in gates]
    quarter = len(gates) // 4
    assert study.training_elo_change(worse) == pytest.approx(-10.0 * (len(gates) - quarter))
    late = len(gates) - 2 * quarter
    assert study.late_training_elo_change(worse) == pytest.approx(-10.0 * late)


def test_falls_and_margins_of_losses():
    (run, *_) = losses_results(0.0, "mini", 1).runs_where("othello-5x5", loss="policy")
    records = run.records_of(LearnRecord)
    last = len(records) - 1
    changed = [
        record.model_copy(
            update={"loss": {"policy": 2.0, "value": n / last, "sum": 2 + n / last, "product": 0.5}}
        )
        for n, record in enumerate(records)
    ]
    shown = replace(run, records=changed)
    late = [study.late_loss_decrease("value", share, shown) for share in (0.0, 1.0, 0.5)]
    assert late == pytest.approx([-1.0, 0.0, round(last / 2) / last - 1])
    assert study.minimised_loss_margin(shown) == pytest.approx(0.5 - 2.0)


def run_with_losses(values, elos=(), **other):
    """Return a run with the given value losses, policy losses of 1 and candidates' Elo."""
    (run, *_) = losses_results(0.0, "mini", 1).runs_where("othello-5x5", loss="value")
    learned = [
        LearnRecord(
            iteration=n, wall_seconds=0.0, examples_seen=1, window=1,
            loss={"policy": 1.0, "value": value, "sum": 1.0 + value, "product": value, **other},
        )
        for n, value in enumerate(values, start=1)
    ]  # fmt: skip
    gates = [
        GateRecord(iteration=n, wall_seconds=0.0, accepted=False, elo=0.0, candidate_elo=elo)
        for n, elo in enumerate(elos, start=1)
    ]
    return replace(run, records=[*learned, *gates])


def test_shape_of_the_value_loss():
    early, late = map(run_with_losses, ([1.0, 0.2, 0.2, 0.2, 0.1], [1.0, 0.9, 0.9, 0.9, 0.1]))
    assert study.loss_decrease("value", early, 0.25) == pytest.approx(0.8)
    assert study.value_loss_decrease_lead(early) == pytest.approx(0.8)
    assert study.value_loss_early_decrease_excess(early) == pytest.approx(0.7)
    assert study.value_loss_early_decrease_excess(late) == pytest.approx(-0.7)
    assert study.value_loss_hump(run_with_losses([0.2, 0.4, 0.4, 0.4, 0.2])) == pytest.approx(0.2)
    assert study.value_loss_hump(run_with_losses([0.5, 0.4, 0.3, 0.2, 0.1])) == pytest.approx(0.0)


def test_loss_and_training_elo_are_correlated_over_iterations():
    assert study.loss_elo_correlation(run_with_losses([3, 2, 1], [1, 2, 3])) == pytest.approx(-1)
    assert study.loss_elo_correlation(run_with_losses([3, 2, 1], [3, 2, 1])) == pytest.approx(1)
    # Ranks 3 2 1 and, without the second gate, 1 3: no Elo means that the iteration is omitted.
    gap = run_with_losses([3, 2, 1], [1, None, 3])
    assert study.loss_elo_correlation(gap) == pytest.approx(-1)


def test_final_losses_are_compared_with_published_numbers():
    """Invented policy losses end at 0.7 and value losses at 0.3; the most distant number is 1.6."""
    found = curve_claims.difference_from_published(losses_results(0.0))
    assert found.value == pytest.approx(1.6 - 0.7)


def test_first_value_loss_is_compared_with_both_other_games():
    def measure(planned):
        loss = {"gobang-5x5": 0.5, "othello-5x5": 2.0}.get(planned.part, 1.0)
        return {**alike(planned), "loss": loss}

    design = design_of(LossFunctionsStudy, "mini")
    results = made_up_results("mini", design, measure, noise)
    assert curve_claims.first_value_loss_in_gobang(results).value == pytest.approx(0.3 * (0.5 - 1))


def test_strength_is_correlated_with_loss_over_all_runs_of_a_board():
    """A run's Elo is a decreasing function of its loss."""

    def elo(planned):
        return -noise(planned, 100.0)

    def measure(planned):
        return {**alike(planned), "loss": 10.0 - elo(planned) / 100}

    design = design_of(LossFunctionsStudy, "mini")
    found = findings.loss_statistics(made_up_results("mini", design, measure, elo))
    assert found[curve_claims.LOSS_IS_NOT_STRENGTH_CLAIM].value == pytest.approx(-1)
    assert words(found)["small-loss-is-not-strength"] != "holds"


def test_weakest_combination_decides_the_learning_claim():
    results = losses_results(0.0)
    found = weakest(results)
    means = [
        np.mean([
            results.tournaments[part].final_rating(run).elo + 300
            for run in results.runs_where(part, loss=target)
        ])
        for part in results.design.part_names for target in LOSS_SYMBOLS
    ]  # fmt: skip
    assert found.value == pytest.approx(min(means))


def test_error_of_random_is_included():
    """Runs of equal strength in one tournament, with exact and inexact ratings of Random."""
    design = design_of(LossFunctionsStudy, "paper").restricted_to_parts(["gobang-5x5"])
    made_up = partial(made_up_results, "paper", design, alike, noise)
    exact, rough = made_up(error=1.0), made_up(error=200.0)
    assert weakest(exact).p_value(0.0) < 0.01
    assert weakest(rough).p_value(0.0) > 0.1
    assert weakest(rough).value == weakest(exact).value


def test_unfinished_grid_does_not_affect_other_claims():
    full = losses_results(300.0, "mini", 3)
    runs = [run for run in full.runs if not str(run.factors["loss"]).startswith(LAMBDA)]
    played = {key: each for key, each in full.tournaments.items() if not key.endswith(LAMBDA)}
    part = Results("mini", full.design, runs, played)
    assert part.unfinished_message()
    assert weakest(part) == weakest(full)
    assert not isinstance(bias(part), MissingEstimate)


def test_random_training_elo_is_uncorrelated():
    found = bias(losses_results(0.0))
    assert abs(found.value) < 0.5
    assert found.interval.low < found.value < found.interval.high


def test_grid_weights_are_ordered_from_value_to_policy():
    document = analysis.loss_report(losses_results(0.0, "mini", 3))
    table = next(each for each in document.tables if each.name == "lambda-elo")
    weights = list(dict.fromkeys(row[0] for row in table.rows))
    assert weights == [f"{LAMBDA} = {weight}" for weight in ("0", "0.25", "0.5", "0.75", "1")]


def test_incomplete_studies_report_missing_data():
    full = losses_results(0.0, "mini", 3)
    part = Results("mini", full.design, full.runs[:-5], {})
    analysis.loss_report(part)
    found = findings.loss_statistics(part)
    of_losses = {
        findings.PRODUCT_LIKE_SUM_CLAIM,
        findings.VALUE_TRAINING_ELO_CLAIM,
        findings.VALUE_ACCURACY_CLAIM,
        curve_claims.LARGER_BOARDS_CLAIM,
        curve_claims.GOBANG_LOW_VALUE_LOSS_CLAIM,
        curve_claims.FINAL_LOSSES_CLAIM,
        curve_claims.LOSS_ELO_TREND_CLAIM,
        *curve_claims.BOARD_TREND_CLAIMS.values(),
        *(each.claim for each in curve_claims.CURVE_CLAIMS),
        curve_claims.COMBINED_LOSS_CLAIM,
    }
    missing = {claim for claim, each in found.items() if isinstance(each, MissingEstimate)}
    assert found.keys() - of_losses <= missing
    assert all(found[claim].reason for claim in missing)


@pytest.mark.parametrize(("loss", "word"), [("sum", "does not hold"), ("value", "holds")])
def test_on_a_single_board_the_sum_is_best_or_not(loss, word):
    design = design_of(LossFunctionsStudy, "mini").restricted_to_parts(["gobang-6x6"])

    def elo(planned):
        return noise(planned) + 300.0 * (planned.factors["loss"] == loss)

    results = made_up_results("mini", design, alike, elo)
    assert analysis.loss_report(results).blocks
    assert words(findings.loss_statistics(results))["sum-seldom-best"] == word


def test_removed_runs_are_reported_as_missing_data():
    """Run folders can be deleted to save space, while ratings are kept."""
    full = losses_results(0.0, "mini", 3)
    none = replace(full, runs=[])
    analysis.loss_report(none)
    assert set(words(findings.loss_statistics(none)).values()) == {"no data"}
    gone = full.runs[0].factors["loss"]
    some = replace(full, runs=[run for run in full.runs if run.factors.get("loss") != gone])
    analysis.loss_report(some)
    assert "no data" in words(findings.loss_statistics(some)).values()
