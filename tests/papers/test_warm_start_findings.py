"""Findings on warm starts, for invented runs with known effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import alike, design_of, made_up_results, noise, words

from zerolab.papers.elo import fit_elo_model
from zerolab.papers.warm_start import analysis, findings
from zerolab.papers.warm_start.study import GAMES, VARIANTS, WarmStartStudy
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.training.records import GateRecord
from zerolab.training.reporting import best_network_after

pytestmark = pytest.mark.usefixtures("no_folders")


def warm_results(gains, scale="small", seed_count=None, more=0.0):
    """Return results in which variants gain Elo over the baseline, and `more` outside Othello."""

    def elo(planned):
        gain = gains.get(planned.factors["variant"], 0.0)
        more_gain = more if gain and planned.part != "othello" else 0.0
        return noise(planned, what="strength") + gain + more_gain

    def measure(planned):
        accuracy = 0.5 + gains.get(planned.factors["variant"], 0.0) / 1e4
        return {**alike(planned), "accuracy": accuracy + noise(planned, 1e-3)}

    return made_up_results(scale, design_of(WarmStartStudy, scale, seed_count), measure, elo)


def test_gains_of_warm_starts_are_found():
    gains = {"rollout": 150.0, "rave": 100.0, "rora": 250.0, "wro": 300.0, "wrora": 500.0}
    found = words(findings.warm_start_statistics(warm_results(gains, more=200.0)))
    denied = {
        "single-enhancement-gains-little", "rollout-othello", "rora-no-gain-over-rollout-gobang",
        "wrora-no-gain-over-wro-connect-four", "rora-no-gain-over-its-parts-othello",
        "rave-no-gain-othello", "best-variant-depends-on-game", "gain-of-150-gobang",
        "warm-starts-alike-gobang",
    }  # fmt: skip
    assert {key for key, word in found.items() if word == "does not hold"} == denied
    assert found.pop("network-value-depends-on-game") in ("equal", "undecided")
    assert found.pop("rave-varies-gobang") == "undecided"
    assert {word for key, word in found.items() if key not in denied} == {"holds"}


PUBLISHED = {
    "gobang": {"rollout": 150.0, "rave": 60.0, "rora": 150.0, "wro": 150.0, "wrora": 150.0},
    "connect_four": {"rollout": 50.0, "rave": 50.0, "rora": 110.0, "wro": 240.0, "wrora": 180.0},
    "othello": {"rora": 50.0, "wro": 60.0, "wrora": 200.0},
}
"""Gains over the baseline that resemble those in the text."""


def results_of(gains_by_game, size=3.0):
    """Return results with given gains, and a noise of `size` between runs."""

    def elo(planned):
        gain = gains_by_game[planned.part].get(planned.factors["variant"], 0.0)
        return noise(planned, size, "strength") + gain

    return made_up_results("small", design_of(WarmStartStudy, "small"), alike, elo)


def test_published_pattern_is_found():
    found = words(findings.warm_start_statistics(results_of(PUBLISHED)))
    assert {key: word for key, word in found.items() if word != "holds"} == {
        "wrora-best": "does not hold",
        "wrora-best-gobang": "equal",
        "wrora-best-connect-four": "does not hold",
        "rave-othello": "equal",
        "rora-no-gain-over-its-parts-othello": "does not hold",
        "wrora-gains-accuracy": "equal",
        "rave-varies-gobang": "undecided",
    }


def test_one_exception_changes_claims_about_all_and_most_cases():
    """WRoRa loses in one game, only two warm starts gain in Othello, and RAVE is one of them."""
    gains = {
        **PUBLISHED,
        "gobang": {**PUBLISHED["gobang"], "wrora": -100.0},
        "othello": {"rave": 100.0, "wrora": 200.0},
    }
    found = words(findings.warm_start_statistics(results_of(gains)))
    expected = {
        "wrora-gains-in-every-game": "does not hold",
        "warm-start-can-gain-in-every-game": "holds",
        "combination-gains-in-every-game": "holds",
        "most-warm-starts-othello": "equal",
        "rave-no-gain-othello": "does not hold",
        "single-enhancement-gains-little": "does not hold",
        "warm-starts-alike-gobang": "does not hold",
        "gain-of-150-gobang": "does not hold",
    }
    assert {key: found[key] for key in expected} == expected


def test_opposite_effects_are_found():
    gains = {"wro": 500.0, "rollout": -200.0, "rave": -200.0, "rora": -200.0, "wrora": 0.0}
    found = words(findings.warm_start_statistics(warm_results(gains)))
    assert found["gain-depends-on-game"] in ("equal", "undecided")
    assert found["single-enhancement-gains-little"] == "holds"
    assert found["wrora-gains-accuracy"] == "equal"
    assert found["wrora-best"] == "does not hold"
    assert found["wrora-gains"] == "equal"
    assert found["rollout-gobang"] == found["rollout-othello"] == "does not hold"
    assert found["wro-othello"] == found["wrora-no-gain-over-wro-connect-four"] == "holds"


def test_claims_on_games_wait_for_the_pooled_claim():
    design = design_of(WarmStartStudy, "mini")
    results = made_up_results("mini", design, alike, lambda planned: noise(planned, 200.0))
    found = judge_claims(findings.warm_start_statistics(results))
    by_key = {verdict.claim.key: verdict for verdict in found}
    assert by_key["wrora-best"].word == "undecided"
    assert "not tested" in by_key["wrora-best-gobang"].note
    primary = [verdict for verdict in found if verdict.claim.is_primary]
    assert len(primary) == 3


def test_lead_is_over_the_best_other_variant():
    results = warm_results({"wro": 100.0, "wrora": 400.0})
    model = fit_elo_model(results, GAMES, "variant", VARIANTS)
    lead = findings.lead_over_closest_rival(model, findings.WRORA, findings.WRORA_RIVALS)

    def mean(variant):
        return np.mean([
            results.tournaments[game].final_rating(run).elo
            for game in GAMES for run in results.runs_where(game, variant=variant)
        ])  # fmt: skip

    assert lead.value == pytest.approx(mean("wrora") - mean("wro"))
    assert lead.interval.low < lead.value < lead.interval.high


def test_adaptive_end_is_compared_in_the_tournament_of_ends():
    results = warm_results({"wrora-adaptive": 300.0}, "mini", 3)
    document = analysis.warm_start_report(results)
    tables = {table.name: table for table in document.tables}
    assert {row[1] for row in tables["elo-by-variant"].rows} == {
        "Baseline", "Rollout", "RAVE", "RoRa", "WRo", "WRoRa", "Random"
    }  # fmt: skip
    gains = [row for row in tables["gain-tests"].rows if row[1] == "WRoRa, adaptive"]
    assert [row[0] for row in gains] == ["Gobang", "Connect Four", "Othello"]
    assert all(row[2].value == pytest.approx(300, abs=80) for row in gains)
    ends = list(dict.fromkeys(row[0] for row in tables["switch-elo"].rows))
    assert ends == [*(f"I' = {end}" for end in (2, 5, 20)), "adaptive"]


def test_lengths_are_compared_within_seeds():
    """Only three of four seeds have runs with I' = 20, which are weak."""
    results = warm_results({"wrora-until-20": -600.0}, "mini", 4)
    document = analysis.warm_start_report(results)
    table = next(each for each in document.tables if each.name == "switch-elo")
    rows = {(end, game): (pairs, gain) for end, game, pairs, gain in table.rows}
    tournament = results.tournaments["gobang-switch"]
    elos = {
        variant: {
            run.seed: tournament.final_rating(run).elo
            for run in results.runs_where("gobang", variant=variant)
        }
        for variant in ("baseline", "wrora-until-20")
    }
    expected = [elo - elos["baseline"][seed] for seed, elo in elos["wrora-until-20"].items()]
    pairs, gain = rows["I' = 20", "Gobang"]
    assert (pairs, gain.value) == (3, pytest.approx(np.mean(expected)))
    assert gain.value == pytest.approx(-600, abs=60)
    assert rows["I' = 2", "Gobang"][1].value == pytest.approx(0, abs=60)


def test_networks_with_several_names_are_counted():
    """Runs of one seed share their network until a candidate is accepted."""
    results = warm_results({}, "mini", 3)
    assert analysis._repeated_networks(results).startswith("0 of the 72 players")
    runs = [
        replace(run, records=[
            record.model_copy(update={"accepted": False})
            if isinstance(record, GateRecord) and record.iteration > 3 else record
            for record in run.records
        ])
        for run in results.runs
    ]  # fmt: skip
    few = replace(results, runs=runs)
    assert analysis._repeated_networks(few).startswith("36 of the 72 players")


def test_pairs_have_equal_seeds_if_a_run_is_missing():
    full = warm_results({"wrora": 200.0}, "mini", 3)
    first = full.runs_where("gobang", variant="baseline")[0]
    part = replace(full, runs=[run for run in full.runs if run is not first])
    gains = analysis._paired_gains(part, "gobang", "wrora", "")
    assert len(gains.values) == len(gains.standard_errors) == 2
    analysis.warm_start_report(part)


def test_gains_by_iteration_use_their_own_tournament():
    document = analysis.warm_start_report(warm_results({"wrora": 400.0}, "mini", 3))
    table = next(each for each in document.tables if each.name == "gain-by-iteration")
    assert [(row[0], row[1]) for row in table.rows] == [
        (game, after) for game in ("Gobang", "Connect Four", "Othello") for after in (2, 5, 15, 40)
    ]
    for row in table.rows:
        assert row[2].value == pytest.approx(400, abs=80)


def test_gains_do_not_depend_on_the_level_of_a_seed():
    """A seed's tournament can lie anywhere on the scale; only differences within it count."""

    def elo(planned):
        return 1000.0 * planned.settings.seed + noise(planned)

    results = made_up_results("mini", design_of(WarmStartStudy, "mini", 3), alike, elo)
    tables = {table.name: table for table in analysis.warm_start_report(results).tables}
    gains = [*tables["gain-by-iteration"].rows, *tables["gain-tests"].rows]
    assert len(gains) > 20
    assert all(row[2].high - row[2].low < 400 for row in gains)


def test_network_after_an_iteration_is_the_last_accepted_one():
    records = [
        GateRecord(iteration=number, wall_seconds=0, accepted=accepted, elo=0)
        for number, accepted in enumerate([False, True, False, True], start=1)
    ]
    assert [best_network_after(records, iteration) for iteration in range(5)] == [0, 0, 2, 2, 4]


def test_removed_runs_are_reported_as_missing_data():
    """Run folders can be deleted to save space, while ratings are kept."""
    full = warm_results({}, "mini", 3)
    none = replace(full, runs=[])
    analysis.warm_start_report(none)
    assert set(words(findings.warm_start_statistics(none)).values()) == {"no data"}
    gone = full.runs[0].factors["variant"]
    some = replace(full, runs=[run for run in full.runs if run.factors.get("variant") != gone])
    analysis.warm_start_report(some)
    assert "no data" in words(findings.warm_start_statistics(some)).values()


def test_accuracies_are_shown_by_game_and_variant():
    document = analysis.warm_start_report(warm_results({"wrora": 400.0}, "mini", 3))
    table = next(each for each in document.tables if each.name == "solved-accuracy")
    rows = {(row[0], row[1]): row for row in table.rows}
    assert rows["Gobang", "WRoRa"][2] == 3
    assert rows["Gobang", "WRoRa"][3].value == pytest.approx(0.54, abs=3e-3)
    assert rows["Othello", "Baseline"][4].value == pytest.approx(0.6, abs=3e-3)
    assert {key[1] for key in rows} >= {"Baseline", "WRoRa", "WRoRa, adaptive"}
    assert "accuracy" in {picture.name for picture in document.pictures}


def test_unmeasured_networks_are_named():
    results = warm_results({}, "mini", 2)
    measured = [run for run in results.runs if run.planned.part != "gobang"]
    runs = [*measured, *(replace(run, measurements={}) for run in results.runs_where("gobang"))]
    found = findings.warm_start_statistics(replace(results, runs=runs))
    note = MissingEstimate("networks not measured on solved positions: gobang")
    assert found[findings.WRORA_ACCURACY_CLAIM] == note
