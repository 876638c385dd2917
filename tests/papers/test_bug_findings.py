"""Findings on published bugs, for invented runs with known effects."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from made_up_runs import alike, design_of, made_up_results, noise, words

from zerolab.papers.loss_functions.study import LossFunctionsStudy
from zerolab.papers.published_bugs import analysis, win_labels
from zerolab.papers.published_bugs.study import (
    ABSOLUTE_WINNER_PART,
    DEFECTIVE,
    MIRRORED_POLICY_PART,
    SHARED_NETWORK_TOURNAMENT,
    TOURNAMENT_CLOSURE_PART,
    PublishedBugsStudy,
)

pytestmark = pytest.mark.usefixtures("no_folders")


@cache
def bug_results(effect, scale="small"):
    """Return results in which each bug adds Elo to the loss it is claimed to favour."""
    favoured = {MIRRORED_POLICY_PART: "value", ABSOLUTE_WINNER_PART: "policy"}

    def elo(planned):
        gain = planned.factors["loss"] == favoured.get(planned.part)
        return noise(planned) + (
            effect if gain and planned.factors.get("code") == DEFECTIVE else 0.0
        )

    def measure(planned):
        wrong = planned.factors.get("code") == DEFECTIVE
        return {**alike(planned), "loss": 0.1 if wrong else 1.0}

    return made_up_results(scale, design_of(PublishedBugsStudy, scale), measure, elo)


def test_favoured_losses_are_found():
    found = words(analysis.bug_statistics(bug_results(300.0)))
    assert found["mirrored-policy-favours-value"] == "holds"
    assert found["absolute-winner-favours-policy"] == "holds"
    assert found["absolute-winner-loss"] == "holds"
    assert found["labels-are-no-ceiling"] == "no data"
    assert "optimizer-costs-strength" not in found
    found = words(analysis.bug_statistics(bug_results(0.0)))
    assert found["mirrored-policy-favours-value"] in ("undecided", "equal")


def test_interaction_is_a_difference_of_differences():
    results = bug_results(300.0)

    def mean(code, loss):
        runs = results.runs_where(MIRRORED_POLICY_PART, code=code, loss=loss)
        return np.mean(
            [results.tournaments[MIRRORED_POLICY_PART].final_rating(run).elo for run in runs]
        )

    by_hand = (
        mean("defective", "value") - mean("defective", "sum")
        - mean("right", "value") + mean("right", "sum")
    )  # fmt: skip
    assert analysis.bug_loss_interaction(
        results, MIRRORED_POLICY_PART, "value"
    ).value == pytest.approx(by_hand)


def test_names_of_one_network_vary_less_than_runs():
    def elo(planned):
        return noise(planned)

    design = design_of(PublishedBugsStudy, "small")
    results = made_up_results("small", design, alike, elo, error=5.0)
    closed = results.tournaments[f"{TOURNAMENT_CLOSURE_PART}-{SHARED_NETWORK_TOURNAMENT}"]
    rng = np.random.default_rng(4)
    for name, rating in closed.rating_by_player.items():
        closed.rating_by_player[name] = rating._replace(
            interval=rating.interval._replace(value=rating.elo + rng.normal(0, 5.0))
        )
    hidden = analysis.shared_network_spread_ratio(results)
    assert hidden.value == pytest.approx(5 / 20, abs=0.15)
    assert words(analysis.bug_statistics(results))["closure-hides-spread"] == "holds"
    table = next(
        each for each in analysis.bug_report(results).tables
        if each.name == f"{TOURNAMENT_CLOSURE_PART}-elo"
    )  # fmt: skip
    assert {row[2] for row in table.rows if row[1] == analysis.SHARED} == {1}
    assert {row[2] for row in table.rows if row[1] == analysis.OWN} == {6}


def test_share_of_true_labels_is_computed_from_positions():
    """One seed is enough, and results of earlier versions are rejected."""
    full = bug_results(0.0)
    shares = {"on_labels": 0.7, "on_outcomes": 0.6, "ceiling": 0.8, "held_out": 400.0}
    trials = {f"{name}_trials": 250.0 for name in ("on_labels", "on_outcomes", "ceiling")}
    counts = {"distinct": 300.0, "true_labels": 240.0, "true_labels_trials": 200.0}
    found = {**shares, **trials, **counts}
    labels = [f"{each.part}: {each.label}" for each in full.design.computations]
    assert labels
    with_counts = replace(full, computation_results=dict.fromkeys(labels, found))
    ceiling = analysis.true_label_share(with_counts)
    assert (ceiling.value, ceiling.trials) == pytest.approx((0.8, 200))
    assert words(analysis.bug_statistics(with_counts))["labels-are-no-ceiling"] == "holds"
    stale = replace(full, computation_results={label: {"ceiling": 0.8} for label in labels})
    analysis.bug_report(stale)
    assert "earlier version" in analysis.true_label_share(stale).reason


def test_distinct_positions_are_counted_once():
    planes = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    outcomes, given = np.array([1, -1, 1], np.int8), np.array([1, 0, 1], np.int8)
    positions = win_labels._LabelledPositions(planes, outcomes, given, np.arange(3))
    found = win_labels._distinct_counts(positions)
    assert found == {"distinct": 2.0, "true_labels": 1.0, "true_labels_trials": 2.0}


def test_positions_of_a_game_are_not_independent():
    """Ten positions from each of 60 games whose labels are all true or all false."""
    planes = torch.eye(600)
    outcomes = np.ones(600, np.int8)
    games = np.arange(600) // 10
    given = np.where(games % 3, 1, 0).astype(np.int8)
    positions = win_labels._LabelledPositions(planes, outcomes, given, games)
    trials = win_labels._distinct_counts(positions)["true_labels_trials"]
    assert trials == pytest.approx(60, rel=0.15)


def test_runs_without_bugs_are_shared_with_the_loss_study():
    for scale in ("mini", "small", "paper"):
        shared = design_of(LossFunctionsStudy, scale).distinct_runs.keys()
        count = LossFunctionsStudy().seed_count(scale)
        for run in design_of(PublishedBugsStudy, scale, count).runs:
            is_right = run.factors.get("code", "right") == "right"
            if is_right and run.factors.get("rate", "0.005") == "0.005":
                assert run.key in shared
            elif not is_right:
                assert run.key not in shared


def test_closed_tournament_has_networks_of_the_last_run():
    design = design_of(PublishedBugsStudy, "mini", 3)
    closed = next(each for each in design.tournaments if each.name == SHARED_NETWORK_TOURNAMENT)
    for name, run in closed.run_by_player.items():
        assert name.startswith(str(run.factors["loss"]))
        assert run.factors["seed"] == max(design.seeds)


def test_removed_runs_are_reported_as_missing_data():
    """Run folders can be deleted to save space, while ratings are kept."""
    full = bug_results(0.0, "mini")
    none = replace(full, runs=[])
    analysis.bug_report(none)
    assert set(words(analysis.bug_statistics(none)).values()) == {"no data"}
    gone = full.runs[0].factors["loss"]
    some = replace(full, runs=[run for run in full.runs if run.factors.get("loss") != gone])
    analysis.bug_report(some)
    assert "no data" in words(analysis.bug_statistics(some)).values()
