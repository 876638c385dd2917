"""Findings on loss functions, for invented runs with known effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_results, noise, words

from zerolab.papers.loss_functions import analysis, findings
from zerolab.papers.loss_functions.study import LAMBDA, TARGETS, LossFunctionsStudy
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.results import Results

pytestmark = pytest.mark.usefixtures("no_folders")


def losses_results(advantage, scale="small"):
    """Return results in which the value loss adds `advantage` Elo."""

    def elo(planned):
        return noise(planned) + (advantage if planned.factors["loss"] == "value" else 0.0)

    return made_up_results(scale, design_of(LossFunctionsStudy, scale), alike, elo)


def test_value_claims_follow_the_elo_of_value_and_sum():
    for advantage, word in ((300.0, "holds"), (-200.0, "does not hold")):
        found = words(findings.loss_statistics(losses_results(advantage)))
        assert {found[claim.key] for claim in findings.VALUE_CLAIMS.values()} == {word}
        assert found["policy-gobang-6x6"] == "undecided"
        assert found["all-learn"] == "holds"


def test_weakest_combination_decides_the_learning_claim():
    results = losses_results(0.0)
    weakest = findings.weakest_elo(results)
    means = [
        np.mean([
            results.tournaments[part].final_rating(run).elo + 300
            for run in results.runs_where(part, loss=target)
        ])
        for part in results.design.parts for target in TARGETS
    ]  # fmt: skip
    assert weakest.value == pytest.approx(min(means))


def test_error_of_random_is_included():
    """Runs of equal strength, with exact and inexact ratings of Random."""
    design = design_of(LossFunctionsStudy, "small")
    exact = made_up_results("small", design, alike, noise)
    rough = made_up_results("small", design, alike, noise, error=200.0)
    assert findings.weakest_elo(exact).p_value(0.0) < 0.01
    assert findings.weakest_elo(rough).p_value(0.0) > 0.1
    assert findings.weakest_elo(rough).value == findings.weakest_elo(exact).value


def test_unfinished_grid_does_not_affect_other_claims():
    full = losses_results(300.0, "mini")
    runs = [run for run in full.runs if not str(run.factors["loss"]).startswith(LAMBDA)]
    played = {key: each for key, each in full.tournaments.items() if not key.endswith(LAMBDA)}
    part = Results("mini", full.design, runs, played)
    assert part.unfinished_message()
    assert findings.weakest_elo(part) == findings.weakest_elo(full)
    assert not isinstance(findings.training_elo_correlation(part), MissingEstimate)


def test_published_elo_is_relative_to_random():
    sample = analysis._above_random(
        losses_results(0.0), "othello-5x5", "sum", findings.PUBLISHED["othello-5x5"]
    )
    assert sample.published == -15 + 735
    assert np.mean(sample.values) == pytest.approx(300, abs=40)


def test_random_training_elo_is_uncorrelated():
    found = findings.training_elo_correlation(losses_results(0.0))
    assert abs(found.value) < 0.5
    assert found.interval.low < found.value < found.interval.high


def test_published_elos_add_up_to_zero():
    """The mean of all 33 players is 0: eight runs of each loss, and Random."""
    for means in findings.PUBLISHED.values():
        assert abs(8 * sum(means[:4]) + means[4]) / 33 <= 5


def test_grid_weights_are_ordered_from_value_to_policy():
    document = analysis.loss_report(losses_results(0.0, "mini"))
    table = next(each for each in document.tables if each.name == "lambda-elo")
    weights = list(dict.fromkeys(row[0] for row in table.rows))
    assert weights == [f"{LAMBDA} = {weight}" for weight in ("0", "0.25", "0.5", "0.75", "1")]


def test_incomplete_studies_report_missing_data():
    full = losses_results(0.0, "mini")
    part = Results("mini", full.design, full.runs[:-5], {})
    analysis.loss_report(part)
    found = findings.loss_statistics(part)
    assert all(isinstance(each, MissingEstimate) and each.note for each in found.values())


def test_removed_runs_are_reported_as_missing_data():
    """Run folders can be deleted to save space, while ratings are kept."""
    full = losses_results(0.0, "mini")
    none = replace(full, runs=[])
    analysis.loss_report(none)
    assert set(words(findings.loss_statistics(none)).values()) == {"no data"}
    gone = full.runs[0].factors["loss"]
    some = replace(full, runs=[run for run in full.runs if run.factors.get("loss") != gone])
    analysis.loss_report(some)
    assert "no data" in words(findings.loss_statistics(some)).values()
