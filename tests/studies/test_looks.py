"""Repeated looks at the claims: levels, simulated studies with known truth, and seeds."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from zerolab.core.errors import UserError
from zerolab.report.claims import Claim
from zerolab.studies.claims import Look, judge_claims
from zerolab.studies.design import Design
from zerolab.studies.looks import (
    TakenLook,
    alpha_spent,
    format_seeds,
    level_at_last_look,
    look_sizes,
    nominal_levels,
    parse_seeds,
)
from zerolab.studies.results import Results, verdict_section
from zerolab.studies.statistics import estimate_mean

THIRDS = (1 / 3, 2 / 3, 1.0)
SEEDS = 12
SMALLEST = 10.0


@pytest.mark.parametrize(
    "boundaries",
    # Spending function of O'Brien and Fleming's type at equal shares, as computed by ldbounds.
    [
        [2.9626, 1.9686],
        [3.7103, 2.5114, 1.9930],
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310],
    ],
)
def test_boundaries_are_the_published_ones(boundaries):
    fractions = tuple((i + 1) / len(boundaries) for i in range(len(boundaries)))
    found = [-norm.ppf(level / 2) for level in nominal_levels(0.05, fractions)]
    assert found == pytest.approx(boundaries, abs=1e-3)


def test_single_look_has_the_full_level():
    assert nominal_levels(0.05, (1.0,)) == pytest.approx((0.05,))


def test_earlier_levels_do_not_depend_on_later_looks():
    assert nominal_levels(0.05, THIRDS)[:2] == nominal_levels(0.05, THIRDS[:2])


def test_looks_at_merged_ledgers_subtract_what_the_ledgers_spent():
    half, all_seeds = list(range(6)), list(range(12))
    first = TakenLook(half, 12, [])
    merged = level_at_last_look(0.05, [first, TakenLook(all_seeds, 12, [0.5, 0.5])])
    assert merged + 2 * alpha_spent(0.05, 0.5) == pytest.approx(0.05)
    assert 0.04 < merged < nominal_levels(0.05, (0.5, 1.0))[1]
    assert level_at_last_look(0.05, [first, TakenLook(all_seeds, 12, [1.0, 0.5])]) == 0.0


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_looks_after_merged_ledgers_get_the_rest_of_the_level(share):
    """In total, two looks at `share`, the merged look and the last one spend the whole level."""
    merged = TakenLook(list(range(8)), 12, [share, share])
    taken = [merged, TakenLook(list(range(12)), 12, [])]
    levels = [level_at_last_look(0.05, taken[:1]), level_at_last_look(0.05, taken)]
    assert min(levels) > 0.0
    assert sum(levels) + 2 * alpha_spent(0.05, share) == pytest.approx(0.05)


def test_levels_that_merged_ledgers_spent_stay_spent():
    """Two looks at two thirds spend more than one at two thirds does."""
    taken = [TakenLook(list(range(8)), 12, [2 / 3, 2 / 3]), TakenLook(list(range(12)), 12, [])]
    assert level_at_last_look(0.05, taken[:1]) == 0.0
    rest = level_at_last_look(0.05, taken)
    assert rest + 2 * alpha_spent(0.05, 2 / 3) == pytest.approx(0.05)


def test_decisions_keep_their_p_values():
    """A decided claim whose p-value rises later does not hide the others."""
    taken = (TakenLook(list(range(6)), 12, []), TakenLook(list(range(12)), 12, []))
    clear, opposite = np.arange(100.0, 106.0), np.arange(-106.0, -99.0)
    verdicts = judge_claims({claim(0): estimate_mean(clear), claim(1): None}, Look(taken[:1], 6))
    assert verdicts[0].word == "holds"
    later = {
        claim(0): estimate_mean([*clear, *opposite]),
        claim(1): estimate_mean([*clear, *clear]),
    }
    kept, second = judge_claims(later, Look(taken, 12), verdicts)
    assert (kept.word, kept.adjusted_p_value) == ("holds", verdicts[0].adjusted_p_value)
    assert kept.note == "decided at an earlier look"
    assert (second.word, second.note) == ("holds", "")
    assert second.adjusted_p_value < 1e-6


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_looks_keep_the_level(level):
    random = np.random.default_rng(0)
    steps = random.normal(size=(200_000, 3)) / np.sqrt(3)
    sums = steps.cumsum(axis=1) / np.sqrt(THIRDS)
    p_values = 2 * norm.sf(np.abs(sums))
    rejected = (p_values < nominal_levels(level, THIRDS)).any(axis=1).mean()
    assert rejected == pytest.approx(level, rel=0.06)


@pytest.mark.parametrize("fractions", [(), (0.5, 0.5), (0.0, 1.0), (1.0, 0.5)])
def test_invalid_fractions_are_rejected(fractions):
    with pytest.raises(ValueError, match="ascending"):
        nominal_levels(0.05, fractions)


def claim(number):
    return Claim(
        f"claim-{number}", "A is better.", "[Wang2020b]", "Elo", 0.0, "above", SMALLEST
    )  # fmt: skip


def judged_at_looks(samples):
    """Return the verdicts at each look, for samples of claims by seed."""
    found, verdicts = [], []
    sizes = look_sizes(samples.shape[1])
    for number, size in enumerate(sizes, start=1):
        taken = [TakenLook(list(range(each)), SEEDS, []) for each in sizes[:number]]
        look = Look(tuple(taken), size)
        statistics = {claim(i): estimate_mean(sample[:size]) for i, sample in enumerate(samples)}
        verdicts = judge_claims(statistics, look, verdicts)
        found.append([verdict.word for verdict in verdicts])
    return found


@pytest.mark.parametrize(
    ("true_effect", "wrong_words"),
    [
        (0.0, {"holds", "does not hold"}),
        (SMALLEST, {"equal", "does not hold"}),
        (-SMALLEST, {"equal", "holds"}),
    ],
)
def test_wrong_verdicts_are_rare_over_all_looks(true_effect, wrong_words):
    """At most 5 % of families have a wrong verdict at any look, plus three standard deviations."""
    random = np.random.default_rng(2)
    wrong, families = 0, 300
    for _ in range(families):
        looks = judged_at_looks(random.normal(true_effect, 12.0, (4, SEEDS)))
        assert all(
            later == word
            for one, other in pairwise(looks)
            for word, later in zip(one, other, strict=True) if word != "undecided"
        )  # fmt: skip
        wrong += bool(wrong_words & set(looks[-1]))
    assert wrong / families <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / families)


def test_looks_cost_little_power_and_save_seeds():
    """An effect that a single look finds with a power of 80 % is found with at least 76 %.

    Twice this effect ends most studies early.
    """
    random = np.random.default_rng(3)
    deviation = SMALLEST * math.sqrt(SEEDS) / 3.1  # 80 % in a t-test with 11 degrees of freedom
    once, at_looks, early, studies = 0, 0, 0, 1000
    for _ in range(studies):
        noise = random.normal(0.0, deviation, (1, SEEDS))
        (verdict,) = judge_claims({claim(0): estimate_mean(noise[0] + SMALLEST)})
        once += verdict.word == "holds"
        at_looks += judged_at_looks(noise + SMALLEST)[-1] == ["holds"]
        early += judged_at_looks(noise + 2 * SMALLEST)[1] == ["holds"]
    assert once / studies == pytest.approx(0.8, abs=0.04)
    assert at_looks / studies >= 0.76
    assert early / studies > 0.5


def test_looks_are_at_thirds_of_the_seeds():
    assert [look_sizes(count) for count in (0, 1, 2, 3, 8, 12)] == [
        [0], [1], [1, 2], [1, 2, 3], [3, 6, 8], [4, 8, 12],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("100", [100]), ("100-103", [100, 101, 102, 103]), ("112, 100-101", [100, 101, 112])],
)
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds
    assert parse_seeds(format_seeds(seeds)) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "numbers and ranges"),
        ("8", "from 100 to 999"),
        ("100-1000", "from 100 to 999"),
        ("103-100", "ends before it begins"),
        ("100,100", "repeated"),
        ("100;101", "numbers and ranges"),
        ("-100", "numbers and ranges"),
    ],
)
def test_wrong_seeds_are_explained(text, message):
    with pytest.raises(UserError, match=message):
        parse_seeds(text)


def test_reports_of_early_looks_say_so():
    def paragraphs(seeds):
        results = Results("mini", Design([]), [], {}, looks=[TakenLook(seeds, 3, [])])
        return [block.text for block in verdict_section(results, []) if hasattr(block, "text")]

    note, heading = paragraphs([100, 101])
    assert "after 2 of 3 planned seeds" in note
    assert paragraphs([100, 101, 102]) == [heading]
