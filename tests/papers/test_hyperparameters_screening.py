"""Report on the screening, for invented runs with known effects and interactions."""

from __future__ import annotations

import math
from unittest.mock import Mock

import numpy as np
import pytest
from made_up_runs import design_of, made_up_results, noise

from zerolab.papers.hyperparameters.findings import (
    EFFECT_CLAIMS,
    GATE_THRESHOLD_CLAIM,
    IMPORTANT_LOSS_CLAIM,
    IMPORTANT_TIME_CLAIM,
    LATE_LOSS_RISE_CLAIM,
    LOSS_SENSITIVITY_CLAIM,
    TIME_EFFECT_SIGNS,
    TIME_FRIENDLY_CLAIM,
    TIME_SENSITIVE_CLAIM,
)
from zerolab.papers.hyperparameters.runs import (
    VariedRun,
    differences_between_values,
    doubling_effects,
    final_loss,
    largest_lead,
    late_loss_change,
    late_loss_rise,
    log2_seconds,
    range_effects,
    screening_runs,
    smallest_lead_of_effects,
)
from zerolab.papers.hyperparameters.study import (
    HYPERPARAMETERS,
    HyperparameterScreeningStudy,
    scaled_values,
)
from zerolab.papers.hyperparameters.sweep import screening_report, screening_verdicts
from zerolab.report.claims import ClaimTable
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.results import Results
from zerolab.studies.statistics import StudentEstimate

EXPONENTS = {symbol: each.published_exponent for symbol, each in HYPERPARAMETERS.items()}
LOSS_CHANGES = {"E": -0.5, "T'": 0.3, "m": -0.4, "c": 0.3, "rs": 0.6, "ep": -0.5, "bs": -0.3,
                "lr": 0.4}  # fmt: skip
"""Change of the loss from the smallest to the largest value, in the published directions."""

pytestmark = pytest.mark.usefixtures("no_folders")


def levels(planned):
    """Return -1 or 1 for every hyper-parameter."""
    return {
        symbol: 1 if planned.factors[symbol] == scaled_values("mini", symbol)[2] else -1
        for symbol in HYPERPARAMETERS
    }


def measured(planned):
    """Return times with the published exponents, and losses; both with interactions."""
    level = levels(planned)
    log_time = sum(
        exponent * math.log2(planned.factors[symbol])
        for symbol, exponent in EXPONENTS.items()
        if symbol in TIME_EFFECT_SIGNS
    )
    log_time += 0.5 * level["E"] * level["ep"] + noise(planned, 0.05, "time")
    loss = 3.0 + sum(change / 2 * level[symbol] for symbol, change in LOSS_CHANGES.items())
    loss += 0.2 * level["lr"] * level["bs"] + noise(planned, 0.05, "loss")
    seconds = {"selfplay": 2.0**log_time, "learn": 0.0, "gate": 0.0}
    return {"seconds": seconds, "loss": loss, "fall": 0.2}


def strength(planned):
    return 100.0 * levels(planned)["m"] + noise(planned, 10.0) + 300.0 * planned.factors["seed"]


@pytest.fixture(scope="module")
def results():
    design = design_of(HyperparameterScreeningStudy, "mini")
    return made_up_results("mini", design, measured, strength, error=5.0)


def of_first_seed(results):
    design = design_of(HyperparameterScreeningStudy, "mini", 1)
    return Results("mini", design, results.runs_where(seed=FIRST_SEED), {})


def test_runs_are_mirrored_pairs(results):
    """Settings are those of the levels, and the two runs of a pair have no level in common."""
    assert len(results.runs) == 96
    runs = screening_runs(results)
    for pair in range(24):
        one, other = [
            run.trained_run.planned
            for run in runs
            if run.block == pair and run.trained_run.seed == FIRST_SEED
        ]
        assert levels(one) == {symbol: -level for symbol, level in levels(other).items()}
        settings = one.settings
        assert settings.iterations == one.factors["I"]
        assert settings.selfplay.temperature_plies == one.factors["T'"] - 1
        assert settings.learn.window.iterations == one.factors["rs"]
        assert settings.network.dropout == one.factors["d"]


def test_effects_are_free_of_interactions(results):
    runs = screening_runs(results)
    exponents = doubling_effects(runs, log2_seconds)
    for symbol, exponent in EXPONENTS.items():
        expected = exponent if symbol in TIME_EFFECT_SIGNS else 0.0
        error = exponents[symbol].standard_error
        assert exponents[symbol].value == pytest.approx(expected, abs=4 * error), symbol
        # The change over the range, of two means of 48 runs, has an error of 0.05 sqrt(2 / 48).
        low, _, high = scaled_values("mini", symbol)
        assert error * math.log2(high / low) == pytest.approx(0.05 * math.sqrt(2 / 48), rel=0.3)
    # 96 runs, less 12 effects, 24 pairs and 1 further seed.
    assert exponents["I"].degrees_of_freedom == 59
    losses = range_effects("mini", runs, final_loss)
    assert losses["rs"].value == pytest.approx(0.6, abs=0.05)
    elos = range_effects("mini", runs, results.tournaments["screening"].elo_above_agent)
    assert elos["m"].value == pytest.approx(200.0, abs=10.0)


@pytest.mark.parametrize("seeds", [1, 2])
def test_published_effects_decide_every_claim(results, seeds):
    part = results if seeds == 2 else of_first_seed(results)
    part = Results("mini", part.design, part.runs, results.tournaments)
    words = {each.claim: each.word for each in screening_verdicts(part)}
    # One seed shows no spread between seeds.
    assert words.pop(LOSS_SENSITIVITY_CLAIM) == ("holds" if seeds == 2 else "no data")
    assert set(words) == set(EFFECT_CLAIMS)
    # The invented losses always fall and do not depend on I or u. Published times depend on rs more
    # than on ep.
    assert words.pop(GATE_THRESHOLD_CLAIM) == "equal"
    not_so = (LATE_LOSS_RISE_CLAIM, IMPORTANT_TIME_CLAIM, IMPORTANT_LOSS_CLAIM)
    assert {words.pop(claim) for claim in not_so} == {"does not hold"}
    assert set(words.values()) == {"holds"}


def test_late_losses_rise_and_fall():
    """Of 12 iterations, the losses after 8, 10, 11 and 12 count; shorter runs do not."""

    def run(iterations, late):
        losses = [9.0] * 7 + [3.0, 5.0, *late]
        last = [{"policy": 0.75 * loss, "value": 0.25 * loss} for loss in losses]
        return VariedRun(Mock(last_epoch_losses=last), {"I": iterations}, 0)

    runs = [run(12, [2.0, 3.0, 2.5]), run(12, [2.0, 3.2, 2.9]), run(8, [0.0, 0.0, 0.0])]
    rise, fall = late_loss_rise("mini", runs).estimates
    assert (rise.value, fall.value) == pytest.approx((1.1, 0.4))
    assert late_loss_rise("mini", runs).value == pytest.approx(0.4)
    assert late_loss_change("mini", runs).value == pytest.approx(2.7 - 3.0)


def test_two_values_are_compared_by_the_fit(results):
    """The screening has no defaults, so the largest difference is the size of the effect."""
    runs = screening_runs(results)
    effect = range_effects("mini", runs, final_loss)["lr"]
    (least,), default, (most,) = (
        differences_between_values("mini", runs, final_loss, "lr", index) for index in range(3)
    )
    assert (least.value, default, most.value) == (-effect.value, [], effect.value)
    assert largest_lead("mini", runs, final_loss, "lr", None).value == effect.value
    assert largest_lead("mini", runs, final_loss, "lr", 0).value == -effect.value


def test_leading_effects_are_compared_with_the_size_of_the_others():
    effects = {
        name: StudentEstimate(value, error, 30)
        for name, value, error in (("a", -3.0, 0.3), ("b", -2.0, 0.4), ("c", 1.5, 0.3))
    }
    found = smallest_lead_of_effects(effects, ["a", "b"], -1.0)
    assert [each.value for each in found.estimates] == pytest.approx([1.5, 4.5, 0.5, 3.5])
    assert found.value == pytest.approx(0.5)
    assert found.estimates[2].standard_error == pytest.approx(0.5)


def test_opposite_effects_are_found(results):
    """Only d changes the times, which contradicts the second claim."""

    def even(planned):
        spent = 2.0 ** (0.5 * levels(planned)["d"] + noise(planned, 0.02, "time"))
        return {"seconds": {"selfplay": spent, "learn": 0.0, "gate": 0.0}, "loss": 1.0}

    made_up = made_up_results("mini", results.design, even, strength)
    words = {each.claim: each.word for each in screening_verdicts(made_up)}
    assert (words[TIME_SENSITIVE_CLAIM], words[TIME_FRIENDLY_CLAIM]) == ("equal", "does not hold")


def test_report_is_complete(results):
    document = screening_report(results)
    assert {each.name for each in document.pictures} == {"training-time", "training-loss", "elo"}
    tables = {each.name: each.records() for each in document.tables}
    assert len(tables["runs"]) == 96
    effects = {row["parameter"].partition(",")[0]: row for row in tables["effects"]}
    assert list(effects) == list(HYPERPARAMETERS)
    assert effects["m"]["p, Elo"] < 0.001 < effects["I"]["p, Elo"]
    # log2 of 87.7 / 17.4 hours over log2 of 100 / 10 games.
    assert effects["E"]["published exponent"] == pytest.approx(0.7024, abs=1e-4)
    first = results.runs[0]
    assert tables["runs"][0]["Elo above Random"] == pytest.approx(strength(first.planned) + 300)


@pytest.mark.parametrize("kept", [0, 1, 60])
def test_partial_results_are_reported(results, kept):
    part = Results("mini", results.design, results.runs[:kept], {})
    document = screening_report(part)
    (claims,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert {each.word for each in claims.verdicts} == {"no data"}
    assert f"{96 - kept} of 96 runs are not finished" in claims.verdicts[0].note
    assert bool(document.pictures) == bool(kept)
    if kept == 1:
        effects = range_effects("mini", screening_runs(part), log2_seconds)
        assert np.isinf([each.interval.high for each in effects.values()]).all()
