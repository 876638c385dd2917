"""Accuracy versus cost on hand-computed numbers, and the design of the efficiency study."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_runs import design_of

from zerolab.core.config import validate
from zerolab.papers.connect_four import analysis, costs, findings
from zerolab.papers.connect_four.costs import (
    AccuracyPoint,
    accuracy_at_cost,
    cost_to_reach,
    peak_accuracy,
)
from zerolab.papers.connect_four.study import (
    MAIN_VARIANTS,
    Connect4EfficiencyStudy,
    Connect4ExtensionsStudy,
    Connect4SupervisedStudy,
    timed_move_kinds,
)
from zerolab.papers.connect_four.variants import (
    EXTENDED,
    POLICY_FEATURES,
    SMALL,
    VARIANTS,
    WITHOUT_FEATURES,
)
from zerolab.report.document import Picture
from zerolab.report.table import Table
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.results import Results
from zerolab.studies.study import SCALES
from zerolab.training.move_times import MeasuredMoveTimes, move_kind
from zerolab.training.train_settings import TrainSettings

RUN = [AccuracyPoint(cost, strong) for cost, strong in ((10.0, 0.5), (20.0, 0.7), (40.0, 0.6))]


def test_accuracy_at_a_cost_is_the_mean_of_its_last_fifth():
    assert accuracy_at_cost(RUN, 20.0) == pytest.approx((0.62 + 0.7) / 2)
    assert accuracy_at_cost(RUN, 40.0) == pytest.approx((0.64 + 0.6) / 2)
    assert accuracy_at_cost(RUN, 12.0) is None  # the last fifth begins before the first measurement


def test_peak_and_cost_to_reach_use_smoothed_accuracies():
    assert cost_to_reach(RUN, 0.5) == pytest.approx(12.8)  # the first usable multiple of 40 / 50
    assert cost_to_reach(RUN, 0.6) == pytest.approx(16.8)  # 0.5 + 0.02 * (0.9 * 16.8 - 10) > 0.6
    assert cost_to_reach(RUN, 0.7) is None
    assert 0.6 < peak_accuracy(RUN) < 0.7
    assert peak_accuracy(RUN[:1]) is None


def test_frequent_measurements_do_not_raise_the_peak():
    random = np.random.default_rng(1)

    def highest(measured):
        found = []
        for _ in range(400):
            strong = 0.5 + 0.02 * random.standard_normal(measured)
            run = [AccuracyPoint(float(at + 1) / measured, each) for at, each in enumerate(strong)]
            found.append(peak_accuracy(run))
        return np.mean(found)

    assert abs(highest(24) - highest(12)) < 0.004  # 0.007 without smoothing


# Piecewise linear accuracies by cost, before seed noise. The growing network leads for the first
# quarter, and the moves of the baseline cost twice as much.
MADE_UP = {
    "extended": ((0.1, 0.50), (10.0, 0.90)),
    "baseline": ((0.1, 0.45), (10.0, 0.80), (20.0, 0.95)),
    "growing": ((0.1, 0.60), (10.0, 0.82)),
    "league": ((0.1, 0.50), (10.0, 0.87)),
    "features": ((0.1, 0.60), (2.1, 0.80), (10.0, 0.88)),
    "small": ((0.1, 0.30), (2.0, 0.40)),
    "no-merging": ((0.1, 0.50), (10.0, 0.88)),
    "merging-0.2": ((0.1, 0.50), (10.0, 0.86)),
    "merging-0.5": ((0.1, 0.50), (10.0, 0.89)),
}


def at(variant, cost):
    """Return the mean accuracy over the last fifth of `cost`, which is that at 0.9 `cost`."""
    (first, low), (last, high) = MADE_UP[variant][:2]
    return low + (high - low) * (0.9 * cost - first) / (last - first)


@pytest.fixture
def made_up(monkeypatch):
    """Finished runs with these accuracies and three seeds, and their design."""

    def accuracy_points(run, times):
        noise, curve = 0.1 * (run.seed - FIRST_SEED), MADE_UP[run.factors["variant"]]
        return [
            AccuracyPoint(cost, strong - noise, moves=round(1000 * cost / curve[-1][0]))
            for cost, strong in curve
        ]

    monkeypatch.setattr(costs, "accuracy_points", accuracy_points)
    for module in (costs, analysis):
        monkeypatch.setattr(module, "measured_move_times", lambda results: MeasuredMoveTimes({}))
    planned = [
        run
        for run in design_of(Connect4EfficiencyStudy, "mini").runs
        if run.part == "training" and run.factors["variant"] in MADE_UP
    ]
    return [TrainedRun(run, []) for run in planned], Design(planned)


def test_claims_compare_variants_at_equal_cost_and_at_their_ends(made_up):
    every, design = made_up
    results = Results("mini", design, every, {})
    found = costs.training_statistics(results, costs.measured_accuracy_points(results))
    ends = {
        claim.key: claim
        for claim in (*findings.PEAK_ACCURACY_CLAIMS, *findings.FINAL_ACCURACY_CLAIMS)
    }
    expected = {
        findings.EXTENDED_CHEAPER_CLAIM: at("extended", 10) - at("baseline", 10),
        # Straight curves differ by their distance in the middle.
        findings.GROWING_NETWORK_CHEAPER_CLAIM: (0.60 + 0.82) / 2 - (0.50 + 0.90) / 2,
        findings.FREE_FEATURES_NO_HELP_CLAIM: (2.0 * 0.70 + 7.9 * 0.84) / 9.9 - (0.50 + 0.90) / 2,
        # The small network costs 2: the curves overlap from 2.1 to 10, with a bend at 4.1.
        findings.FEATURES_DO_NOT_PAY_CLAIM: (
            (2.0 * 0.70 + 5.9 * (0.80 + 0.08 * 5.9 / 7.9 / 2)) / 7.9 - (0.50 + 0.40 * 5.95 / 9.9)
        ),
        findings.GROWING_NETWORK_EARLY_CLAIM: at("growing", 2.5) - at("extended", 2.5),
        findings.LEAGUE_NO_BETTER_CLAIM: (0.50 + 0.87) / 2 - (0.50 + 0.90) / 2,
        findings.ABLATION_CLAIMS["no-merging"]: at("extended", 10) - at("no-merging", 10),
        # The baseline's last fifth, 16 to 20, is on its second line.
        ends["extended-ends-higher"]: at("extended", 10) - (0.80 + 0.15 * 0.8),
        ends["growing-peaks-lower"]: at("growing", 10) - at("extended", 10),
        ends["league-peaks-lower"]: at("league", 10) - at("extended", 10),
    }
    for claim, value in expected.items():
        assert found[claim].value == pytest.approx(value, abs=1e-9), claim.key
    # The smaller lead of two weights counts.
    lead = at("extended", 10) - at("merging-0.5", 10)
    assert found[findings.MERGING_WEIGHT_CLAIM].value == pytest.approx(lead, abs=1e-9)
    assert isinstance(found[findings.SERVICE_CHEAPER_CLAIM], MissingEstimate)
    unfinished = costs.training_statistics(Results("mini", design, every[1:], {}), {})
    assert all(isinstance(each, MissingEstimate) for each in unfinished.values())


def test_curves_are_compared_up_to_their_common_end():
    """0.3 + (0.9 - 0.3) is more than 0.9 in floating-point numbers."""
    curves = {
        name: {seed: [AccuracyPoint(0.3, 0.5), AccuracyPoint(0.9, 0.5 + gain + 0.01 * seed)]
               for seed in range(3)}
        for name, gain in (("extended", 0.2), ("baseline", 0.1))
    }  # fmt: skip
    for part in ((0.0, 1.0), (0.75, 1.0)):
        estimate = costs.difference_along_curves(curves, "extended", "baseline", part)
        assert estimate.value == pytest.approx(0.1 * sum(part) / 2)


@pytest.mark.parametrize("measure", [costs.peak_accuracy, costs.final_accuracy])
def test_peaks_and_ends_are_compared_after_equally_many_moves(measure):
    """The longer run is better only after the end of the shorter one, which costs more."""

    def curve(cost_per_move, last, seed):
        strong = [0.5 + 0.001 * min(moves, 100) + 0.01 * (moves > 100) for moves in range(10, last)]
        return [
            AccuracyPoint(cost_per_move * moves, each + 0.01 * seed, moves=moves)
            for moves, each in enumerate(strong, 10)
        ]

    curves = {
        name: {seed: curve(cost_per_move, last, seed) for seed in range(3)}
        for name, cost_per_move, last in (("extended", 1.0, 201), ("league", 2.0, 101))
    }
    whole = [measure(each[0]) for each in curves.values()]
    assert whole[0] > whole[1] + 0.01
    estimate = costs.difference_at_equal_moves(curves, "extended", "league", measure)
    assert estimate.value == pytest.approx(0.0, abs=1e-3)


def test_study_of_extensions_has_new_seeds_and_only_its_own_claims(made_up):
    study, every = Connect4ExtensionsStudy(), Connect4EfficiencyStudy()
    assert not set(study.planned_seeds("mini")) & set(every.planned_seeds("mini"))
    design = study.planned_design("mini")
    assert {run.factors["variant"] for run in design.runs} == set(MAIN_VARIANTS)
    assert {run.factors["seed"] for run in design.runs} == set(study.planned_seeds("mini"))
    claimed = {verdict.claim for verdict in study.verdicts(Results("mini", design, [], {}))}
    others = {verdict.claim for verdict in every.verdicts(Results("mini", made_up[1], [], {}))}
    assert claimed < others
    assert {claim for claim in others if claim.is_primary} <= claimed
    titles = {VARIANTS[name].title for name in VARIANTS if name not in MAIN_VARIANTS}
    assert not any(title in claim.statistic for claim in claimed for title in titles)


def test_small_networks_cost_accuracy_and_variants_save_cost(made_up):
    """With the small network's cost of 2, the curve begins later and is lower."""
    every, design = made_up
    results = Results("mini", design, every, {})
    runs = costs.measured_accuracy_points(results)
    found = costs.training_statistics(results, runs)
    steep, flat = 0.2 / 2.0, 0.08 / 7.9
    # From 2.1 to 4.1 the curve with costs is on its steep part and the free one on the flat part.
    free = [0.80 + flat * (cost - 2.1) for cost in (2.1, 4.1, 10.0)]
    paid = [0.60, 0.60 + steep * 2.0, 0.80 + flat * (10.0 - 4.1)]
    lost = [one - other for one, other in zip(free, paid, strict=True)]
    expected = (2.0 * (lost[0] + lost[1]) + 5.9 * (lost[1] + lost[2])) / 2 / 7.9
    assert found[findings.SMALL_NETWORK_COST_CLAIM].value == pytest.approx(expected, abs=1e-9)
    assert isinstance(
        found[findings.EXTENSIONS_GAIN_LITTLE_CLAIM], MissingEstimate
    )  # without a service


def test_savings_are_ratios_of_costs_at_an_accuracy_that_all_runs_reach():
    def line(slope, last):
        return [AccuracyPoint(cost, slope * cost) for cost in np.linspace(0.01, last, 200).tolist()]

    slow = {seed: line(0.1 * (1.0 + 0.01 * seed), 10.0) for seed in range(3)}
    fast = {seed: line(0.2 * (1.0 + 0.01 * seed), 3.0) for seed in range(3)}
    found = costs.log2_cost_ratio({"service": fast, "extended": slow}, "service", "extended")
    # At 0.01 below 0.54, the lowest peak, smoothing shifts both costs by the same factor.
    assert found.value == pytest.approx(1.0, abs=1e-3)
    assert costs.log2_cost_ratio({"extended": slow}, "service", "extended") == MissingEstimate(
        "service is not studied at this scale"
    )


def test_a_lead_in_one_part_of_the_costs_is_found():
    """The lead is 0.1 in the second quarter of the costs, and 0 in the others."""
    costs_at = np.linspace(0.0, 8.0, 801).tolist()
    lead = {
        seed: [AccuracyPoint(cost, 0.5 + 0.1 * (2.0 < cost < 4.0)) for cost in costs_at]
        for seed in range(3)
    }
    level = {seed: [AccuracyPoint(cost, 0.5) for cost in costs_at] for seed in range(3)}
    runs = {"extended": lead, "no-reply": level}
    found = [
        costs.difference_along_curves(runs, "extended", "no-reply", (part / 4, (part + 1) / 4))
        for part in range(4)
    ]
    assert [each.value for each in found] == pytest.approx([0.0, 0.1, 0.0, 0.0], abs=1e-3)


def test_curves_that_do_not_overlap_are_not_compared():
    later = [point._replace(core_hours=point.core_hours + 30.0) for point in RUN]
    runs = {"extended": {0: RUN}, "features": {0: later}, "small": {0: RUN}}
    found = costs.difference_along_curves(runs, "features", "extended")
    assert isinstance(found, MissingEstimate)


def test_effects_of_seeds_are_removed_if_runs_are_missing(made_up):
    """Variants lack different seeds, and seeds differ a lot in accuracy."""
    every, design = made_up
    missing = {("extended", 102), ("no-merging", 100), ("baseline", 101)}
    done = [run for run in every if (run.factors["variant"], run.factors["seed"]) not in missing]
    results = Results("mini", design, done, {})
    runs = costs.measured_accuracy_points(results)
    assert list(runs["extended"]) == [100, 101]
    effect = costs.difference_at_equal_cost(runs, "extended", "no-merging")
    # The model counts a variance between seeds of 10^6 error variances as infinite.
    assert effect.value == pytest.approx(at("extended", 10) - at("no-merging", 10), abs=1e-7)
    shown = {type(block) for block in analysis.training_section(results, runs)}
    assert {Picture, Table} <= shown
    apart = {"extended": {0: RUN}, "baseline": {1: RUN}}
    unknown = costs.difference_at_equal_cost(apart, "extended", "baseline")
    assert unknown.p_value(1.0) == 1.0
    linked = {**apart, "growing": {0: RUN, 1: RUN}}
    assert costs.difference_at_equal_cost(linked, "extended", "baseline").value == 0.0


def test_networks_are_measured_once():
    design = design_of(Connect4EfficiencyStudy, "mini")
    (planned,) = design.computations
    kinds = {
        key: move_kind(validate(TrainSettings, each["settings"]), each["iteration"])
        for key, each in planned.arguments["networks"].items()
    }
    runs = [run.settings for run in design.runs if run.part == planned.part]
    needed = [move_kind(each, at) for each in runs for at in range(each.iterations)]
    assert all(kind in kinds.values() for kind in needed)
    assert {kind.network["filters"] for kind in kinds.values()} == {4, 8, 16}
    numbers = {
        f"{key}.{name}": value
        for number, key in enumerate(kinds)
        for name, value in {
            "milliseconds": 2.0 + number, "low": 1.0, "high": 90.0, "rounds": 6.0, "moves": 9.0,
            "simulations_per_move": 32.0, "parallel_games": 128.0,
        }.items()
    }  # fmt: skip
    times = MeasuredMoveTimes(numbers)
    found = [times.find(kind).milliseconds for kind in kinds.values()]
    assert found == [2.0 + number for number in range(len(kinds))]
    assert MeasuredMoveTimes({}).find(needed[0]) is None


def test_operations_and_time_are_shown_side_by_side(monkeypatch):
    design = design_of(Connect4EfficiencyStudy, "mini", 1)
    kinds = timed_move_kinds(run for run in design.runs if run.part == "training")
    numbers = {
        f"{key}.{name}": value
        for key, timed in kinds.items()
        for name, value in {
            "milliseconds": 4.0 if "extended" in timed.variant_titles else 3.0, "low": 2.0,
            "high": 5.0, "rounds": 6.0, "moves": 9.0, "simulations_per_move": 32.0,
            "parallel_games": 128.0,
        }.items()
    }  # fmt: skip
    monkeypatch.setattr(analysis, "measured_move_times", lambda results: MeasuredMoveTimes(numbers))
    table = analysis.move_times_table(Results("mini", design, [], {}))
    rows = [dict(zip(table.column_titles, row, strict=True)) for row in table.rows]
    extended = next(row for row in rows if "extended" in row["variants"].split(", "))
    assert extended["time relative to extended"] == 1.0
    smallest = min(rows, key=lambda row: row["million operations per position"])
    assert smallest["operations relative to extended"] < 0.2
    assert tuple(smallest["time relative to extended"]) == (0.75, 0.4, 2.5)


@pytest.mark.parametrize("scale", SCALES)
def test_ablations_differ_in_one_setting(scale):
    runs = {
        run.factors["variant"]: run.settings
        for run in design_of(Connect4EfficiencyStudy, scale).runs
        if run.factors["seed"] == FIRST_SEED and run.part == "training"
    }
    whole = runs[EXTENDED].model_dump()
    for name, variant in VARIANTS.items():
        if variant.is_ablation and name in runs and name != "no-short-iterations":
            other = runs[name].model_dump()
            groups = [key for key in whole if whole[key] != other[key]]
            assert groups in (["learn"], ["network"], ["selfplay"]), name
            (group,) = groups
            differing = [key for key in whole[group] if whole[group][key] != other[group][key]]
            assert len(differing) == 1, name


@pytest.mark.parametrize("scale", SCALES)
def test_networks_with_features_differ_only_in_one_head(scale):
    """Their small networks are those of the efficiency study, and are trained only once."""
    design = design_of(Connect4SupervisedStudy, scale)
    with_features = [run for run in design.runs if run.factors.get("features") == POLICY_FEATURES]
    assert [run.factors["seed"] for run in with_features] == design.seeds
    by_label = {run.label: run for run in design.runs}
    for run in with_features:
        plain = by_label[run.label.replace(POLICY_FEATURES, WITHOUT_FEATURES)].settings
        *heads, head = run.settings.network.heads
        assert (head.heads, head.plies) == (("policy",), (0, 2))
        network = run.settings.network.model_copy(update={"heads": tuple(heads)})
        assert run.settings.model_copy(update={"network": network}) == plain
        assert run.feature_run.factors == {"variant": SMALL, "seed": run.factors["seed"]}
    if scale != "smoke":
        efficiency = design_of(Connect4EfficiencyStudy, scale)
        assert {run.feature_run.key for run in with_features} <= efficiency.distinct_runs.keys()


@pytest.mark.parametrize("scale", ["mini", "small", "paper"])
def test_longer_iterations_change_nothing_else_per_position(scale):
    short, long = (
        next(
            run.settings
            for run in design_of(Connect4EfficiencyStudy, scale).runs
            if run.factors.get("variant") == name
        )
        for name in (EXTENDED, "no-short-iterations")
    )
    ratio = long.selfplay.mode.plies / short.selfplay.mode.plies
    assert ratio == pytest.approx(5 / 3, rel=1e-3)
    ends = [
        (each.learn.window.begin, each.learn.window.end, each.learn.schedule.anneal_iterations)
        for each in (short, long)
    ]
    assert [5 * end / 3 for end in ends[1]] == list(ends[0])
    if scale != "paper":  # those runs stop once accuracy no longer improves
        assert long.iterations * 5 == short.iterations * 3
    same = {"window": {"begin": 0, "end": 0}, "schedule": {"anneal_iterations": 0}}
    parts = [each.learn.model_copy(update={
        part: getattr(each.learn, part).model_copy(update=changes)
        for part, changes in same.items()
    }) for each in (short, long)]  # fmt: skip
    assert parts[0] == parts[1]
    assert (short.network, short.search) == (long.network, long.search)


def test_training_and_evaluation_positions_have_different_seeds():
    positions = [
        dataset
        for study in (Connect4SupervisedStudy, Connect4EfficiencyStudy)
        for dataset in design_of(study, "mini").datasets
    ]
    assert {each.label: each.settings.seed for each in positions} == {
        "v1": 0,
        "v2": 0,
        "hard": 1,
        "easy": 1,
    }
    assert min(each.position_count for each in positions if each.label in ("v1", "v2")) >= 50_000
