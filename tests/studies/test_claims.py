"""Verdicts on claims, for estimates with known p-values and for simulated studies."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import NamedTuple

import numpy as np
import pytest

from zerolab.report.claims import Claim
from zerolab.report.table import Interval
from zerolab.studies.claims import (
    Look,
    MissingEstimate,
    decision_p_values,
    detectable_effect,
    judge_claims,
    power,
)
from zerolab.studies.looks import TakenLook
from zerolab.studies.statistics import BinomialEstimate, StudentEstimate, estimate_mean

FAR = 1000.0  # a smallest effect that makes no statistic equal to a threshold


class KnownEstimate(NamedTuple):
    """Estimate with a given p-value at threshold 0, and 1 elsewhere."""

    value: float
    p: float

    @property
    def interval(self):
        return Interval(self.value, 0.0, 1.0)

    def p_value(self, threshold):
        return self.p if threshold == 0.0 else 1.0


def claim(key="better", threshold=0.0, direction="above", smallest=FAR, gatekeeper=""):
    return Claim(
        key, "A is better than B.", "[Wang2020b], Fig. 5.1", "Elo of A less that of B", threshold,
        direction, smallest, gatekeeper,
    )  # fmt: skip


def words(statistics):
    return {verdict.claim.key: verdict.word for verdict in judge_claims(statistics)}


@pytest.mark.parametrize(
    ("value", "p", "direction", "word"),
    [
        (1.0, 0.01, "above", "holds"),
        (-1.0, 0.01, "above", "does not hold"),
        (1.0, 0.01, "below", "does not hold"),
        (-1.0, 0.01, "below", "holds"),
        (1.0, 0.05, "above", "undecided"),
        (-1.0, 0.3, "above", "undecided"),
    ],
)
def test_verdict_depends_on_value_p_and_direction(value, p, direction, word):
    (verdict,) = judge_claims({claim(direction=direction): KnownEstimate(value, p)})
    assert verdict.word == word
    assert (verdict.p_value, verdict.adjusted_p_value, verdict.note) == (p, p, "")


@pytest.mark.parametrize(
    ("value", "direction", "word"),
    [
        (2.0, "above", "equal"),
        (-2.0, "below", "equal"),
        (2.0, "equal to", "holds"),
        (20.0, "equal to", "does not hold"),
        (-20.0, "equal to", "does not hold"),
        (8.5, "equal to", "undecided"),
        (11.5, "equal to", "undecided"),
        (-2.0, "not below", "holds"),
        (-20.0, "not below", "does not hold"),
        (-9.0, "not below", "undecided"),
        (2.0, "not above", "holds"),
        (20.0, "not above", "does not hold"),
        (20.0, "above", "holds"),
        (20.0, "below", "does not hold"),
    ],
)
def test_differences_smaller_than_the_effect_of_interest_are_equal(value, direction, word):
    """The standard error is 1.5 and the smallest effect of interest is 10."""
    estimate = StudentEstimate(value, 1.5, 50.0)
    assert words({claim(direction=direction, smallest=10.0): estimate}) == {"better": word}


def test_small_but_certain_effects_hold():
    """Relations come before equality."""
    assert words({claim(smallest=10.0): StudentEstimate(5.0, 1.0, 50.0)}) == {"better": "holds"}


def test_p_values_are_adjusted_for_all_claims():
    """The smallest p-value is multiplied by the number of claims, even without data."""
    two = {claim("a"): KnownEstimate(1.0, 0.02), claim("b"): KnownEstimate(1.0, 0.04)}
    assert set(words(two).values()) == {"holds"}
    three = {**two, claim("c"): KnownEstimate(1.0, 0.5)}
    assert [verdict.adjusted_p_value for verdict in judge_claims(three)] == pytest.approx(
        [0.06, 0.08, 0.5]
    )
    assert set(words(three).values()) == {"undecided"}
    missing = {
        **two, claim("c"): None, claim("d"): MissingEstimate("3 of 32 runs are not finished")
    }  # fmt: skip
    verdicts = judge_claims(missing)
    assert [verdict.adjusted_p_value for verdict in verdicts[:2]] == pytest.approx([0.08, 0.12])
    assert [verdict.word for verdict in verdicts[2:]] == ["no data", "no data"]
    assert [verdict.note for verdict in verdicts[2:]] == [
        "nothing was measured", "3 of 32 runs are not finished",
    ]  # fmt: skip
    assert verdicts[3].estimate is verdicts[3].p_value is verdicts[3].adjusted_p_value is None


def test_secondary_claims_wait_for_their_primary_claim():
    """They form a separate family, so the primary claims do not weaken them."""
    secondary = {
        claim("game 1", gatekeeper="pooled"): KnownEstimate(1.0, 0.02),
        claim("game 2", gatekeeper="pooled"): KnownEstimate(-1.0, 0.03),
    }
    other = {claim("other"): KnownEstimate(1.0, 0.9)}
    certain = {claim("pooled"): KnownEstimate(1.0, 0.001), **other, **secondary}
    assert words(certain) == {
        "pooled": "holds", "other": "undecided", "game 1": "holds", "game 2": "does not hold",
    }  # fmt: skip
    uncertain = {claim("pooled"): KnownEstimate(1.0, 0.2), **other, **secondary}
    assert set(words(uncertain).values()) == {"undecided"}
    assert judge_claims(uncertain)[2].note.startswith("not tested")


def test_power_and_needed_seeds_agree_with_simulation():
    """Of 20 seeds with an error of 10 per seed; 2.8 standard errors have a power of 80 %."""
    random = np.random.default_rng(0)
    samples = 8.0 + random.normal(0.0, 10.0, (4000, 20))
    found = np.mean([estimate_mean(sample).p_value(0.0) < 0.05 for sample in samples[:1500]])
    exact = StudentEstimate(0.0, 10.0 / math.sqrt(20), 19.0)
    assert power(exact, claim(smallest=8.0), 0.05) == pytest.approx(found, abs=0.035)
    look = Look(seed_count=20, core_hours=10.0)
    (verdict,) = judge_claims({claim(smallest=2.0): exact}, look)
    assert verdict.needed_seeds == pytest.approx((2.802 * 10.0 / 2.0) ** 2, abs=3.0)
    assert verdict.needed_hours == pytest.approx((verdict.needed_seeds - 20) / 2)
    (decided,) = judge_claims({claim(): StudentEstimate(50.0, 1.0, 19.0)}, look)
    assert (decided.needed_seeds, decided.needed_hours) == (None, None)


@pytest.mark.parametrize("seeds", [3, 12])
@pytest.mark.parametrize("smallest", [7.0, 2.0])
def test_needed_seeds_are_the_fewest_with_a_power_of_80_percent(seeds, smallest):
    """More seeds also make the standard error more certain."""
    stated = claim(smallest=smallest)
    now = StudentEstimate(smallest / 2.0, 10.0 / math.sqrt(seeds), seeds - 1)
    (verdict,) = judge_claims({stated: now}, Look(seed_count=seeds))
    before, after = (
        power(StudentEstimate(0.0, 10.0 / math.sqrt(count), count - 1), stated, 0.05)
        for count in (verdict.needed_seeds - 1, verdict.needed_seeds)
    )
    assert before < 0.8 <= after


def test_share_of_the_trials_of_one_computation_needs_no_seeds():
    """More seeds add no trials."""
    look = Look(seed_count=12)
    (verdict,) = judge_claims({claim(threshold=0.9): BinomialEstimate(734, 800)}, look)
    assert (verdict.word, verdict.needed_seeds) == ("undecided", None)


@pytest.mark.parametrize("seeds", [4, 8])
def test_power_at_a_look_is_that_at_its_level(seeds):
    looks = tuple(TakenLook(list(range(count)), 12, []) for count in range(4, seeds + 1, 4))
    look, random = Look(looks, seeds), np.random.default_rng(4)
    stated = claim(smallest=20.0)
    level = look.level_at_this_look(0.05)
    samples = map(estimate_mean, random.normal(20.0, 10.0, (3000, seeds)))
    found = np.mean([decision_p_values(stated, each).get("holds", 1.0) < level for each in samples])
    exact = StudentEstimate(0.0, 10.0 / math.sqrt(seeds), seeds - 1)
    (verdict,) = judge_claims({stated: exact}, look)
    assert verdict.power == pytest.approx(found, abs=0.05)


def test_tiny_level_of_an_early_look_has_no_detectable_effect():
    """At 4 of 900 seeds, the level is about 1e-247."""
    look = Look((TakenLook([0, 1, 2, 3], 900, []),), 4)
    (verdict,) = judge_claims({claim(): StudentEstimate(5.0, 2.5, 3.0)}, look)
    assert (verdict.power, verdict.detectable_effect) == (0.0, None)


def test_spent_level_leaves_no_power():
    look = Look((TakenLook([0, 1], 2, [1.0, 1.0]),), 2)
    (verdict,) = judge_claims({claim(): StudentEstimate(5.0, 0.1, 5.0)}, look)
    assert (verdict.word, verdict.power, verdict.detectable_effect) == ("undecided", 0.0, None)


@pytest.mark.parametrize("runs", [4, 20])
@pytest.mark.parametrize(
    ("direction", "true_effect", "word"),
    [("above", 15.0, "holds"), ("below", -15.0, "holds"), ("not above", 0.0, "holds"),
     ("not below", 0.0, "holds"), ("equal to", 0.0, "holds")],
)  # fmt: skip
def test_power_is_the_rate_of_correct_decisions(direction, true_effect, word, runs):
    """The smallest effect of interest is 15, and runs differ with a standard deviation of 10."""
    stated, random = claim(direction=direction, smallest=15.0), np.random.default_rng(2)
    exact = StudentEstimate(0.0, 10.0 / math.sqrt(runs), runs - 1)
    samples = map(estimate_mean, random.normal(true_effect, 10.0, (3000, runs)))
    found = np.mean([decision_p_values(stated, each).get(word, 1.0) < 0.05 for each in samples])
    assert power(exact, stated, 0.05) == pytest.approx(found, abs=0.05)


@pytest.mark.parametrize("direction", ["above", "not below", "equal to"])
@pytest.mark.parametrize(
    "estimate", [StudentEstimate(3.0, 2.0, 5.0), BinomialEstimate(90, 100)], ids=["runs", "shares"]
)
def test_detectable_effect_has_a_power_of_80_percent(estimate, direction):
    stated = claim(threshold=0.5, direction=direction)
    effect = detectable_effect(estimate, stated, 0.01)
    assert power(estimate, claim(threshold=0.5, direction=direction, smallest=effect), 0.01) == (
        pytest.approx(0.8, abs=1e-6)
    )


def test_power_of_shares_is_that_near_the_threshold():
    """A share of 0.998 has a small error, but one of 0.55 has a larger error."""
    few, many = BinomialEstimate(499, 500), BinomialEstimate(270, 500)
    stated = claim(threshold=0.5, smallest=0.05)
    random = np.random.default_rng(3)
    found = np.mean([
        BinomialEstimate(int(wins), 500).p_value(0.5) < 0.05
        for wins in random.binomial(500, 0.55, 1500)
    ])  # fmt: skip
    assert power(few, stated, 0.05) == power(many, stated, 0.05) == pytest.approx(found, abs=0.04)
    assert power(BinomialEstimate(0, 0), stated, 0.05) is None


def test_small_p_values_without_a_verdict_are_explained():
    two = {claim("a"): KnownEstimate(1.0, 0.03), claim("b"): KnownEstimate(1.0, 0.5)}
    notes = [(each.word, each.note) for each in judge_claims(two)]
    assert notes == [("undecided", "not significant after correction"), ("undecided", "")]


@pytest.mark.parametrize("true_effect", [0.0, 10.0, -10.0])
def test_wrong_verdicts_are_rare_in_simulated_studies(true_effect):
    """At most 5 % of families have any wrong verdict; the margin is three standard deviations.

    A family has six claims with equal true effects: none, or the smallest effect of interest.
    """
    random = np.random.default_rng(1)
    wrong, families = 0, 400
    for _ in range(families):
        samples = random.normal(true_effect, 12.0, (6, 10))
        statistics = {
            claim(str(i), smallest=10.0): estimate_mean(sample) for i, sample in enumerate(samples)
        }
        false = {0.0: {"holds", "does not hold"}, 10.0: {"equal", "does not hold"},
                 -10.0: {"equal", "holds"}}[true_effect]  # fmt: skip
        wrong += bool(false & set(words(statistics).values()))
    assert wrong / families <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / families)


def test_single_run_is_undecided():
    (verdict,) = judge_claims({claim(): estimate_mean([1000.0])})
    assert verdict.word == "undecided"
    data = verdict.as_dict()
    assert (data["value"], data["low"], data["high"], data["p"]) == (1000.0, None, None, 1.0)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_verdicts_of_sample_means():
    runs = [12.0, 15.0, 9.0, 14.0, 11.0]
    assert judge_claims({claim(threshold=5.0): estimate_mean(runs)})[0].word == "holds"
    assert judge_claims({claim(threshold=20.0): estimate_mean(runs)})[0].word == "does not hold"
    assert (
        judge_claims({claim(threshold=11.0, smallest=1.0): estimate_mean(runs)})[0].word
        == "undecided"
    )
    assert judge_claims({}) == []


def test_claims_are_frozen_and_have_unique_keys_and_known_openers():
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim().threshold = 3.0
    with pytest.raises(ValueError, match="share a key"):
        judge_claims({claim(threshold=1.0): None, claim(threshold=2.0): None})
    with pytest.raises(ValueError, match="unknown claims"):
        judge_claims({claim(gatekeeper="pooled"): None})
    with pytest.raises(ValueError, match="positive number"):
        claim(smallest=0.0)


def test_missing_claims_have_no_numbers():
    data = judge_claims({claim(): MissingEstimate("no run is finished")})[0].as_dict()
    assert data["verdict"] == "no data"
    assert data["note"] == "no run is finished"
    assert [data[name] for name in ("value", "low", "high", "p", "adjusted_p")] == [None] * 5
    assert math.isfinite(data["threshold"])
