"""Reports on losses, warm starts and defects find effects that were put into made-up runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up_runs import made_up_results

from zerolab.papers.elo import BothElos, elo_correlation, rank_correlation, training_elo_errors
from zerolab.papers.loss_functions import analysis as losses
from zerolab.papers.loss_functions.analysis import LAMBDA
from zerolab.papers.loss_functions.study import LossFunctions
from zerolab.papers.published_bugs import analysis, win_labels
from zerolab.papers.published_bugs.study import PublishedBugs
from zerolab.papers.warm_start import analysis as warm_starts
from zerolab.papers.warm_start.study import WarmStart
from zerolab.report.document import Provenance
from zerolab.report.interval import Z95
from zerolab.studies.claims import Missing, judge
from zerolab.studies.results import Results
from zerolab.training.records import GateRecord
from zerolab.training.reporting import best_after

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture(autouse=True)
def without_folders(monkeypatch):
    """Made-up runs are in no folder whose networks could have digests."""
    nothing = Provenance(0, [], {}, [], "", 0.0)
    for module in (losses, warm_starts, analysis):
        monkeypatch.setattr(module, "provenance", lambda results: nothing)


def noise(planned, size=20.0, what="elo"):
    return size * np.random.default_rng([*planned.key.encode(), *what.encode()]).normal()


def alike(planned):
    seconds = {"selfplay": 1.0, "learn": 1.0, "gate": 1.0}
    return {"seconds": seconds, "elo": 10 + noise(planned, 1.0, "training")}


def words(found):
    return {verdict.claim.key: verdict.word for verdict in judge(found)}


def losses_results(advantage, scale="small"):
    """Return results in which learning the value alone is worth `advantage` more Elo."""

    def elo(planned):
        return noise(planned) + (advantage if planned.factors["loss"] == "value" else 0.0)

    return made_up_results(scale, LossFunctions().design(scale), alike, elo)


def test_value_claims_follow_the_elo_of_value_and_sum():
    for advantage, word in ((300.0, "holds"), (-200.0, "does not hold")):
        found = words(losses._found(losses_results(advantage)))
        assert {found[claim.key] for claim in losses.VALUE_CLAIMS.values()} == {word}
        assert found["policy-gobang-6x6"] == "undecided at this scale"
        assert found["all-learn"] == "holds"


def test_the_weakest_combination_decides_whether_all_learn():
    results = losses_results(0.0)
    weakest = losses._weakest(results)
    means = [
        np.mean([
            results.tournaments[part].rating(run).elo + 300
            for run in results.where(part, loss=target)
        ])
        for part in results.design.parts for target in losses.TARGETS
    ]  # fmt: skip
    assert weakest.value == pytest.approx(min(means))


def test_the_error_of_random_counts_where_all_are_compared_with_it():
    """Twenty runs of one strength, and a Random measured badly."""
    design = LossFunctions().design("small")
    exact = made_up_results("small", design, alike, noise)
    rough = made_up_results("small", design, alike, noise, error=200.0)
    assert losses._weakest(exact).p_value(0.0) < 0.01
    assert losses._weakest(rough).p_value(0.0) > 0.1
    assert losses._weakest(rough).value == losses._weakest(exact).value


def test_a_grid_that_is_not_finished_leaves_claims_about_losses_alone():
    full = losses_results(300.0, "mini")
    runs = [run for run in full.runs if not str(run.factors["loss"]).startswith(LAMBDA)]
    played = {key: each for key, each in full.tournaments.items() if not key.endswith(LAMBDA)}
    part = Results("mini", full.design, runs, played)
    assert part.missing()
    assert losses._weakest(part) == losses._weakest(full)
    assert not isinstance(losses._correlation(part), Missing)


def test_published_elo_stands_above_the_published_random():
    sample = losses._above_random(
        losses_results(0.0), "othello-5x5", "sum", losses.PUBLISHED["othello-5x5"]
    )
    assert sample.published == -15 + 735
    assert np.mean(sample.values) == pytest.approx(300, abs=40)


def gate(number, accepted, error, elo=0.0):
    return GateRecord(
        iteration=number, wall_seconds=0, accepted=accepted, elo=elo, candidate_elo=elo,
        candidate_elo_low=elo - Z95 * error, candidate_elo_high=elo + Z95 * error,
    )  # fmt: skip


def test_errors_of_training_elo_add_up_over_accepted_candidates():
    full = losses_results(0.0, "mini")
    gates = [gate(1, True, 30.0), gate(2, False, 99.0), gate(3, True, 40.0)]
    no_games = GateRecord(iteration=4, wall_seconds=0, accepted=True, elo=0.0)
    run = replace(full.runs[0], records=[*gates, no_games])
    assert training_elo_errors(run) == pytest.approx([30.0, 30.0, 50.0, 50.0])


def exactly(*pairs):
    return [BothElos(training, 0.0, tournament, 0.0) for training, tournament in pairs]


def test_ranks_by_hand():
    assert rank_correlation(exactly((1, 10), (2, 20), (3, 30))) == pytest.approx(1)
    assert rank_correlation(exactly((1, 30), (2, 20), (3, 10))) == pytest.approx(-1)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
    assert rank_correlation(exactly((1, 2), (2, 1), (3, 9), (4, 5))) == pytest.approx(0.6)
    assert rank_correlation(exactly((1, 5), (2, 5))) == 0


def test_errors_of_measuring_hide_no_correlation():
    """True strengths are the same in both; errors as large halve what is left of it."""
    rng = np.random.default_rng(1)
    groups = []
    for _ in range(4):
        strengths = rng.normal(0, 100, 60)
        first, second = strengths + rng.normal(0, 100, 60), strengths + rng.normal(0, 10, 60)
        pairs = zip(first, second, strict=True)
        groups.append([BothElos(one, 100.0, other, 10.0) for one, other in pairs])
    seen = np.mean([rank_correlation(group) for group in groups])
    assert seen == pytest.approx(math.sqrt(0.5), abs=0.1)
    assert elo_correlation(groups).value == pytest.approx(1.0, abs=0.12)
    hidden = [[each._replace(training_error=1e6) for each in group] for group in groups]
    assert isinstance(elo_correlation(hidden), Missing)


def test_training_elo_that_says_nothing_is_uncorrelated():
    found = losses._correlation(losses_results(0.0))
    assert abs(found.value) < 0.5
    assert found.low < found.value < found.high


def test_published_elos_add_up_to_zero():
    """The mean of all 33 players is 0: eight runs of each loss, and Random."""
    for means in losses.PUBLISHED.values():
        assert abs(8 * sum(means[:4]) + means[4]) / 33 <= 5


def test_every_weight_of_the_grid_is_drawn_from_value_to_policy():
    document = losses.loss_report(losses_results(0.0, "mini"))
    table = next(each for each in document.tables if each.name == "lambda-elo")
    weights = list(dict.fromkeys(row[0] for row in table.rows))
    assert weights == [f"{LAMBDA} = {weight}" for weight in ("0", "0.25", "0.5", "0.75", "1")]


def warm_results(gains, scale="small"):
    """Return results in which variants are worth some Elo more than the baseline."""

    def elo(planned):
        return noise(planned) + gains.get(planned.factors["variant"], 0.0)

    return made_up_results(scale, WarmStart().design(scale), alike, elo)


def test_gains_of_warm_starts_are_found():
    gains = {"rollout": 150.0, "rave": 200.0, "rora": 250.0, "wro": 300.0, "wrora": 500.0}
    found = words(warm_starts._found(warm_results(gains)))
    assert found.pop("rollout-othello") == "does not hold"
    assert set(found.values()) == {"holds"}
    found = words(warm_starts._found(warm_results({"wro": 500.0, "rollout": -200.0})))
    assert found["wrora-best"] == "does not hold"
    assert found["rollout-gobang"] == "does not hold"
    assert found["rollout-othello"] == "holds"
    assert found["rave-gobang"] == "undecided at this scale"


def test_the_lead_is_over_the_best_other_variant():
    results = warm_results({"wro": 100.0, "wrora": 400.0})
    lead = warm_starts._lead(results)

    def mean(variant):
        return np.mean([
            results.tournaments[game].rating(run).elo
            for game in warm_starts.GAMES for run in results.where(game, variant=variant)
        ])  # fmt: skip

    assert lead.value == pytest.approx(mean("wrora") - mean("wro"))
    assert lead.low < lead.value < lead.high


def test_the_adaptive_end_is_compared_in_the_tournament_about_ends():
    results = warm_results({"wrora-adaptive": 300.0}, "mini")
    document = warm_starts.warm_start_report(results)
    tables = {table.name: table for table in document.tables}
    assert {row[1] for row in tables["elo-by-variant"].rows} == {
        "Baseline", "Rollout", "RAVE", "RoRa", "WRo", "WRoRa", "Random"
    }  # fmt: skip
    gains = [row for row in tables["gain-tests"].rows if row[1] == "WRoRa, adaptive"]
    assert [row[0] for row in gains] == ["Gobang", "Connect Four", "Othello"]
    assert all(row[2].value == pytest.approx(300, abs=80) for row in gains)
    ends = list(dict.fromkeys(row[0] for row in tables["switch-elo"].rows))
    assert ends == [*(f"I' = {end}" for end in (0, 1, 3, 5, 8)), "adaptive"]


def test_networks_under_several_names_are_counted():
    """Two runs a game without an accepted candidate share their untrained network, if of a seed."""
    results = warm_results({}, "mini")
    assert warm_starts._repeated(results).startswith("0 of the 54 players")
    runs = [
        replace(run, records=[
            record.model_copy(update={"accepted": False})
            if isinstance(record, GateRecord) and record.iteration > 3 else record
            for record in run.records
        ])
        for run in results.runs
    ]  # fmt: skip
    few = replace(results, runs=runs)
    assert warm_starts._repeated(few).startswith("36 of the 54 players")


def test_pairs_are_of_one_seed_where_a_run_is_gone():
    full = warm_results({"wrora": 200.0}, "mini")
    first = full.where("gobang", variant="baseline")[0]
    part = replace(full, runs=[run for run in full.runs if run is not first])
    line = warm_starts._pairs(part, "gobang", "wrora", "")
    assert len(line.runs) == len(line.errors) == 2
    warm_starts.warm_start_report(part)


def test_gains_by_iteration_come_from_their_own_tournament():
    document = warm_starts.warm_start_report(warm_results({"wrora": 400.0}, "mini"))
    table = next(each for each in document.tables if each.name == "gain-by-iteration")
    assert [(row[0], row[1]) for row in table.rows] == [
        (game, after) for game in ("Gobang", "Connect Four", "Othello") for after in (3, 6, 10)
    ]
    for row in table.rows:
        assert row[2].value == pytest.approx(400, abs=80)


def test_the_network_after_an_iteration_is_the_last_one_accepted():
    records = [
        GateRecord(iteration=number, wall_seconds=0, accepted=accepted, elo=0)
        for number, accepted in enumerate([False, True, False, True], start=1)
    ]
    assert [best_after(records, iteration) for iteration in range(5)] == [0, 0, 2, 2, 4]


def defect_results(effect, scale="small"):
    """Return results in which a defect adds some Elo to the loss that it should favour."""
    favoured = {analysis.MIRROR: "value", analysis.WINNER: "policy"}

    def elo(planned):
        gain = planned.factors["loss"] == favoured.get(planned.part)
        return noise(planned) + (
            effect if gain and planned.factors.get("defect") == analysis.DEFECTIVE else 0.0
        )

    def measure(planned):
        wrong = planned.factors.get("defect") == analysis.DEFECTIVE
        return {**alike(planned), "loss": 0.1 if wrong else 1.0}

    return made_up_results(scale, PublishedBugs().design(scale), measure, elo)


def test_what_a_defect_favours_is_found():
    found = words(analysis._found(defect_results(300.0)))
    assert found["mirrored-policy-favours-value"] == "holds"
    assert found["absolute-winner-favours-policy"] == "holds"
    assert found["absolute-winner-loss"] == "holds"
    assert found["labels-are-no-ceiling"] == "no data"
    assert "optimizer-costs-strength" not in found
    found = words(analysis._found(defect_results(0.0)))
    assert found["mirrored-policy-favours-value"] == "undecided at this scale"


def test_an_interaction_is_a_difference_of_differences():
    results = defect_results(300.0)

    def mean(defect, loss):
        runs = results.where(analysis.MIRROR, defect=defect, loss=loss)
        return np.mean([results.tournaments[analysis.MIRROR].rating(run).elo for run in runs])

    by_hand = (
        mean("defective", "value") - mean("defective", "sum")
        - mean("right", "value") + mean("right", "sum")
    )  # fmt: skip
    assert analysis._favour(results, analysis.MIRROR, "value").value == pytest.approx(by_hand)


def test_names_of_one_network_vary_less_than_runs():
    def elo(planned):
        return noise(planned)

    design = PublishedBugs().design("small")
    results = made_up_results("small", design, alike, elo, error=5.0)
    closed = results.tournaments[f"{analysis.CLOSURE}-{analysis.CLOSED}"]
    rng = np.random.default_rng(4)
    for name, rating in closed.by_name.items():
        closed.by_name[name] = rating._replace(elo=rating.elo + rng.normal(0, 5.0))
    hidden = analysis._hidden(results)
    assert hidden.value == pytest.approx(5 / 20, abs=0.15)
    assert words(analysis._found(results))["closure-hides-spread"] == "holds"
    table = next(
        each for each in analysis.bug_report(results).tables
        if each.name == f"{analysis.CLOSURE}-elo"
    )  # fmt: skip
    assert {row[2] for row in table.rows if row[1] == analysis.SHARED} == {1}
    assert {row[2] for row in table.rows if row[1] == analysis.OWN} == {6}


def test_the_share_of_true_labels_is_decided_by_positions():
    """One seed is enough, and what an earlier version computed is none."""
    full = defect_results(0.0)
    shares = {"on_labels": 0.7, "on_outcomes": 0.6, "ceiling": 0.8, "held_out": 400.0}
    found = {**shares, "distinct": 300.0, "true_labels": 240.0}
    labels = [f"{each.part}: {each.label}" for each in full.design.computations]
    assert labels
    with_counts = replace(full, computed=dict.fromkeys(labels, found))
    ceiling = analysis._ceiling(with_counts)
    assert (ceiling.successes, ceiling.trials) == (240, 300)
    assert words(analysis._found(with_counts))["labels-are-no-ceiling"] == "holds"
    stale = replace(full, computed={label: {"ceiling": 0.8} for label in labels})
    analysis.bug_report(stale)
    assert "earlier version" in analysis._ceiling(stale).note


def test_distinct_positions_are_counted_once():
    planes = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    outcomes, given = np.array([1, -1, 1], np.int8), np.array([1, 0, 1], np.int8)
    found = win_labels._distinct(win_labels._Data(planes, outcomes, given))
    assert found == {"distinct": 2.0, "true_labels": 1.0}


@pytest.mark.parametrize("study", ["losses", "warm", "defects"])
def test_runs_that_are_removed_after_their_tournament_are_no_error(study):
    """Folders of runs may be removed to save room; ratings stay."""
    full, module = {
        "losses": (losses_results(0.0, "mini"), losses),
        "warm": (warm_results({}, "mini"), warm_starts),
        "defects": (defect_results(0.0, "mini"), analysis),
    }[study]
    none = replace(full, runs=[])
    module.document(none)
    assert set(words(module._found(none)).values()) == {"no data"}
    factor = "variant" if study == "warm" else "loss"
    gone = full.runs[0].factors[factor]
    some = replace(full, runs=[run for run in full.runs if run.factors.get(factor) != gone])
    module.document(some)
    assert "no data" in words(module._found(some)).values()


def test_runs_without_defects_are_those_of_the_study_of_losses():
    for scale in ("mini", "small", "paper"):
        shared = LossFunctions().design(scale).distinct_runs.keys()
        for run in PublishedBugs().design(scale).runs:
            is_right = run.factors.get("defect", "right") == "right"
            if is_right and run.factors.get("rate", "0.005") == "0.005":
                assert run.key in shared
            elif not is_right:
                assert run.key not in shared


def test_all_networks_of_a_closed_tournament_are_those_of_the_last_run():
    design = PublishedBugs().design("mini")
    closed = next(each for each in design.tournaments if each.name == analysis.CLOSED)
    for name, run in closed.entrants.items():
        assert name.startswith(str(run.factors["loss"]))
        assert run.factors["seed"] == 3


def test_reports_of_incomplete_studies_say_what_is_missing():
    full = losses_results(0.0, "mini")
    part = Results("mini", full.design, full.runs[:-5], {})
    losses.loss_report(part)
    found = losses._found(part)
    assert all(isinstance(each, Missing) and each.note for each in found.values())
