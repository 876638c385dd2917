"""Reports on losses, warm starts and defects find effects that were put into made-up runs."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_runs import made_up_results

from zerolab.studies.analyses import defects, losses, warm_starts
from zerolab.studies.analyses.losses import LAMBDA
from zerolab.studies.claims import Missing, judge
from zerolab.studies.defects import Defects
from zerolab.studies.engine.tasks import best_after
from zerolab.studies.loss_functions import LossFunctions
from zerolab.studies.report.provenance import Provenance
from zerolab.studies.results import Results
from zerolab.studies.warm_start import WarmStart
from zerolab.training.records import GateRecord


@pytest.fixture(autouse=True)
def without_folders(monkeypatch):
    """Made-up runs are in no folder whose networks could have digests."""
    nothing = Provenance(0, [], {}, [], "", 0.0)
    for module in (losses, warm_starts, defects):
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


def test_ranks_by_hand():
    assert losses._ranks([(1, 10), (2, 20), (3, 30)]) == pytest.approx(1)
    assert losses._ranks([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
    assert losses._ranks([(1, 2), (2, 1), (3, 9), (4, 5)]) == pytest.approx(0.6)
    assert losses._ranks([(1, 5), (2, 5)]) == 0


def test_training_elo_that_says_nothing_is_uncorrelated():
    correlation = losses._correlation(losses_results(0.0))
    assert abs(correlation.value) < 0.35
    assert correlation.low < correlation.value < correlation.high


def test_published_elos_add_up_to_zero():
    """The mean of all 33 players is 0: eight runs of each loss, and Random."""
    for means in losses.PUBLISHED.values():
        assert abs(8 * sum(means[:4]) + means[4]) / 33 <= 5


def test_every_weight_of_the_grid_is_drawn_from_value_to_policy():
    document = losses.document(losses_results(0.0, "mini"))
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
    lead = warm_starts._lead(warm_results({"wro": 100.0, "wrora": 400.0}))
    assert lead.value == pytest.approx(300, abs=40)
    assert lead.low < 300 < lead.high


def test_gains_by_iteration_come_from_their_own_tournament():
    document = warm_starts.document(warm_results({"wrora": 400.0}, "mini"))
    table = next(each for each in document.tables if each.name == "gain-by-iteration")
    assert [(row[0], row[1]) for row in table.rows] == [
        (game, after) for game in ("Gobang", "Connect Four", "Othello") for after in (3, 6, 10)
    ]
    for row in table.rows:
        assert row[2].value == pytest.approx(400, abs=80)


def test_the_network_after_an_iteration_is_the_last_one_accepted(monkeypatch):
    records = [
        GateRecord(iteration=number, wall_seconds=0, accepted=accepted, elo=0)
        for number, accepted in enumerate([False, True, False, True], start=1)
    ]
    monkeypatch.setattr("zerolab.studies.engine.tasks.read_records", lambda run: records)
    assert [best_after(None, iteration) for iteration in range(5)] == [0, 0, 2, 2, 4]


def defect_results(effect, scale="small"):
    """Return results in which a defect adds some Elo to the loss that it should favour."""
    favoured = {defects.MIRROR: "value", defects.WINNER: "policy"}

    def elo(planned):
        gain = planned.factors["loss"] == favoured.get(planned.part)
        return noise(planned) + (
            effect if gain and planned.factors.get("defect") == defects.DEFECTIVE else 0.0
        )

    def measure(planned):
        wrong = planned.factors.get("defect") == defects.DEFECTIVE
        return {**alike(planned), "loss": 0.1 if wrong else 1.0}

    return made_up_results(scale, Defects().design(scale), measure, elo)


def test_what_a_defect_favours_is_found():
    found = words(defects._found(defect_results(300.0)))
    assert found["mirrored-policy-favours-value"] == "holds"
    assert found["absolute-winner-favours-policy"] == "holds"
    assert found["absolute-winner-loss"] == "holds"
    assert found["labels-are-no-ceiling"] == "no data"
    found = words(defects._found(defect_results(0.0)))
    assert found["mirrored-policy-favours-value"] == "undecided at this scale"


def test_an_interaction_is_a_difference_of_differences():
    results = defect_results(300.0)

    def mean(defect, loss):
        runs = results.where(defects.MIRROR, defect=defect, loss=loss)
        return np.mean([results.tournaments[defects.MIRROR].rating(run).elo for run in runs])

    by_hand = (
        mean("defective", "value") - mean("defective", "sum")
        - mean("right", "value") + mean("right", "sum")
    )  # fmt: skip
    assert defects._favour(results, defects.MIRROR, "value").value == pytest.approx(by_hand)


def test_runs_without_defects_are_those_of_the_study_of_losses():
    for scale in ("mini", "small", "paper"):
        shared = LossFunctions().design(scale).distinct_runs.keys()
        for run in Defects().design(scale).runs:
            is_right = run.factors.get("defect", "right") == "right"
            if is_right and run.factors.get("rate", "0.005") == "0.005":
                assert run.key in shared
            elif not is_right:
                assert run.key not in shared


def test_all_networks_of_a_closed_tournament_are_those_of_the_last_run():
    design = Defects().design("mini")
    closed = next(each for each in design.tournaments if each.name == defects.CLOSED)
    for name, run in closed.entrants.items():
        assert name.startswith(str(run.factors["loss"]))
        assert run.factors["seed"] == 3


def test_reports_of_incomplete_studies_say_what_is_missing():
    full = losses_results(0.0, "mini")
    part = Results("mini", full.design, full.runs[:-5], {})
    losses.document(part)
    found = losses._found(part)
    assert all(isinstance(each, Missing) and each.note for each in found.values())
