"""Verdicts on claims, for estimates with known p-values."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import NamedTuple

import pytest

from zerolab.report.claims import Claim
from zerolab.report.interval import Interval
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.studies.statistics import mean_of


class KnownEstimate(NamedTuple):
    value: float
    p: float

    @property
    def interval(self):
        return Interval(self.value, 0.0, 1.0)

    def p_value(self, threshold):
        return self.p


def claim(key="better", threshold=0.0, direction="above"):
    return Claim(
        key, "A is better than B.", "[Wang2020b], Fig. 5.1", "Elo of A less that of B", threshold,
        direction,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "p", "direction", "word"),
    [
        (1.0, 0.01, "above", "holds"),
        (-1.0, 0.01, "above", "does not hold"),
        (1.0, 0.01, "below", "does not hold"),
        (-1.0, 0.01, "below", "holds"),
        (1.0, 0.05, "above", "undecided"),
        (-1.0, 0.3, "above", "undecided"),
        (0.0, 0.01, "above", "undecided"),
    ],
)
def test_verdict_depends_on_value_p_and_direction(value, p, direction, word):
    (verdict,) = judge_claims({claim(direction=direction): KnownEstimate(value, p)})
    assert verdict.word == word
    assert (verdict.p, verdict.adjusted, verdict.note) == (p, p, "")


def test_p_values_are_adjusted_for_all_claims():
    """The smallest p-value is multiplied by the number of claims, even without data."""
    two = {claim("a"): KnownEstimate(1.0, 0.02), claim("b"): KnownEstimate(1.0, 0.04)}
    assert [verdict.word for verdict in judge_claims(two)] == ["holds", "holds"]
    three = {**two, claim("c"): KnownEstimate(1.0, 0.5)}
    assert [verdict.adjusted for verdict in judge_claims(three)] == pytest.approx([0.06, 0.08, 0.5])
    assert {verdict.word for verdict in judge_claims(three)} == {"undecided"}
    missing = {
        **two,
        claim("c"): None,
        claim("d"): MissingEstimate("3 of 32 runs are not finished"),
    }
    verdicts = judge_claims(missing)
    assert [verdict.adjusted for verdict in verdicts[:2]] == pytest.approx([0.08, 0.12])
    assert [verdict.word for verdict in verdicts[2:]] == ["no data", "no data"]
    assert [verdict.note for verdict in verdicts[2:]] == [
        "nothing was measured", "3 of 32 runs are not finished",
    ]  # fmt: skip
    assert verdicts[3].estimate is verdicts[3].p is verdicts[3].adjusted is None


def test_single_run_is_undecided():
    (verdict,) = judge_claims({claim(): mean_of([1000.0])})
    assert verdict.word == "undecided"
    data = verdict.as_dict()
    assert (data["value"], data["low"], data["high"], data["p"]) == (1000.0, None, None, 1.0)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_verdicts_of_sample_means():
    runs = [12.0, 15.0, 9.0, 14.0, 11.0]
    assert judge_claims({claim(threshold=5.0): mean_of(runs)})[0].word == "holds"
    assert judge_claims({claim(threshold=20.0): mean_of(runs)})[0].word == "does not hold"
    assert judge_claims({claim(threshold=11.0): mean_of(runs)})[0].word == "undecided"
    assert judge_claims({}) == []


def test_claims_are_frozen_and_have_unique_keys():
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim().threshold = 3.0
    with pytest.raises(ValueError, match="share a key"):
        judge_claims({claim(threshold=1.0): None, claim(threshold=2.0): None})


def test_missing_claims_have_no_numbers():
    data = judge_claims({claim(): MissingEstimate("no run is finished")})[0].as_dict()
    assert data["verdict"] == "no data"
    assert data["note"] == "no run is finished"
    assert [data[name] for name in ("value", "low", "high", "p", "adjusted_p")] == [None] * 5
    assert math.isfinite(data["threshold"])
