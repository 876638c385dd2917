"""Report on supervised learning [Clausen2021, Table 1]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from zerolab.papers.connect_four.findings import (
    FEATURES_SMALL_GAIN_CLAIM,
    LATE_POSITIONS_EASIER_CLAIM,
    NETWORK_DEPTH_CLAIMS,
    ONE_POSITION_PER_GAME_CLAIM,
    RANDOM_MOVES_HARDER_CLAIM,
    SUPERVISED_CLAIMS,
    SUPERVISED_FEATURES_CLAIM,
)
from zerolab.papers.connect_four.variants import (
    ALL_POSITIONS,
    EASY,
    ONE_PER_GAME,
    POLICY_FEATURES,
    SUPERVISED_PART,
    WITHOUT_FEATURES,
)
from zerolab.papers.solved_accuracy import difference_due_to_plies, measure_test_accuracy
from zerolab.report.claims import Claim
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval_plots import draw_grouped_runs
from zerolab.report.table import Cell, Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.block_model import PerGameModels, fit_per_game_models
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import contrast_of_means, estimate_smallest
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, estimate_mean, run_sample
from zerolab.studies.study import scale_caveats
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.records import HeldOutRecord

TABLE_1_DATASETS = (ALL_POSITIONS, ONE_PER_GAME)
"""Sets of Table 1."""
_SHOWN = (*TABLE_1_DATASETS, EASY)
RIGHT_LABELS, PUBLISHED_LABELS = "right", "published"
"""True outcomes, or [ClausenCode]'s labels: losses are draws if the first player is to move."""
OUTCOME_WEIGHT, FULL_OUTCOME_WEIGHT = 0.01, 1.0
"""Weights of the outcome in the loss: as in [Clausen2021, Eq. 3], and equal to the policy's."""
FEATURES_DATASET = ALL_POSITIONS
"""Set from which networks learn features. Its games have several positions each."""


class _PublishedAccuracy(NamedTuple):
    """Published accuracies on the test set."""

    move: float
    """Share of positions in which the chosen move is a best move."""
    win: float
    """Share of positions in which the predicted outcome matches the label (`PUBLISHED_LABELS`)."""


PUBLISHED_ACCURACY: Mapping[tuple[str, int], _PublishedAccuracy] = {
    ("v1", 5): _PublishedAccuracy(0.9163, 0.7747), ("v2", 5): _PublishedAccuracy(0.9244, 0.7923),
    ("v1", 10): _PublishedAccuracy(0.9237, 0.7787), ("v2", 10): _PublishedAccuracy(0.9300, 0.7967),
    ("v1", 20): _PublishedAccuracy(0.9268, 0.7823), ("v2", 20): _PublishedAccuracy(0.9349, 0.7993),
}  # fmt: skip
"""Published results with 128 filters and 800,000 training positions, by set and blocks."""

PUBLISHED_FEATURE_ACCURACY: Mapping[str, _PublishedAccuracy] = {
    WITHOUT_FEATURES: _PublishedAccuracy(0.926, 0.7894),
    POLICY_FEATURES: _PublishedAccuracy(0.9289, 0.7909),
}
"""Published means of 5 runs, with standard deviations of about 0.001 [ClausenCode]."""


def supervised_report(results: Results) -> Document:
    """Return the report on all finished runs."""
    subject = "the accuracy that larger networks or more positions would reach"
    seeds = results.planned_levels("seed")
    return Document(
        "Networks that learn from solved positions of Connect Four",
        scale_caveats(results.scale, len(seeds), subject, symmetries=False),
        [
            *verdict_section(results, results.judge(supervised_statistics)),
            *supervised_section(results),
        ],
        provenance(results),
    )


def supervised_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about supervised learning, or why it is missing."""
    if unfinished_message := results.unfinished_message(SUPERVISED_PART):
        return dict.fromkeys(SUPERVISED_CLAIMS, MissingEstimate(unfinished_message))
    models = {measure: _fit_shares(results, measure) for measure in NETWORK_DEPTH_CLAIMS}
    counts = _block_counts(results)
    fewest, most = counts[0], counts[-1]
    compared = {
        "strong": [(deeper, count) for count, deeper in pairwise(counts)],
        "result": [(most, count) for count in counts[:-1]],
    }
    gain = models["strong"].contrast({POLICY_FEATURES: 1.0, fewest: -1.0}, [FEATURES_DATASET])
    return {
        **{
            claim: _compare_depths(models[measure], compared[measure])
            for measure, claim in NETWORK_DEPTH_CLAIMS.items()
        },
        SUPERVISED_FEATURES_CLAIM: gain,
        FEATURES_SMALL_GAIN_CLAIM: gain,
        ONE_POSITION_PER_GAME_CLAIM: estimate_smallest(
            [
                _difference_of_sets(results, ONE_PER_GAME, depth, measure)
                for depth in counts for measure in NETWORK_DEPTH_CLAIMS
            ]
        ),
        RANDOM_MOVES_HARDER_CLAIM: _difference_of_sets(results, EASY, fewest, "strong"),
        LATE_POSITIONS_EASIER_CLAIM: _lead_due_to_plies(results),
    }  # fmt: skip


def _difference_of_sets(results: Results, name: str, depth: int, measure: str) -> StudentEstimate:
    """Return a share for networks of a depth on a set, minus that on the set of all positions.

    The variance between runs is pooled over both sets and all depths.
    """
    groups = {
        (each, blocks): _shares(results, each, blocks, measure)
        for each in (ALL_POSITIONS, name) for blocks in _block_counts(results)
    }  # fmt: skip
    terms = [(1.0, groups[name, depth]), (-1.0, groups[ALL_POSITIONS, depth])]
    return contrast_of_means(terms, [*groups.values()])


def measure_accuracy_by_ply(run: FinishedRun) -> Mapping[str, Any]:
    """Return the accuracy by ply of the smallest networks on the sets of all positions."""
    factors = {"labels": RIGHT_LABELS, "weight": OUTCOME_WEIGHT, "features": WITHOUT_FEATURES}
    factors["blocks"] = min(each.factors.get("blocks", math.inf) for each in run.design.runs)
    own = run.planned.factors
    is_compared = own.get("set") in (ALL_POSITIONS, EASY) and factors.items() <= own.items()
    return {"by_ply": measure_test_accuracy(run)} if is_compared else {}


def _lead_due_to_plies(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the part of the lead of easy positions that is due to their plies, minus the rest."""
    fewest = _block_counts(results)[0]
    hard, easy = (
        {run.seed: run.measurements.get("by_ply") for run in _runs(results, name, fewest)}
        for name in (ALL_POSITIONS, EASY)
    )
    parts = [
        part
        for seed, each in hard.items()
        if each and (other := easy.get(seed))
        if (part := difference_due_to_plies(each, other)) is not None
    ]
    return estimate_mean(parts) if parts else MissingEstimate("no accuracy by ply was measured")


def _compare_depths(
    model: PerGameModels, pairs: Sequence[tuple[int, int]]
) -> ClaimEstimate | MissingEstimate:
    """Return the smallest lead of deeper over shallower networks in `pairs` of block counts."""
    if not pairs:
        return MissingEstimate("networks of only one depth are studied at this scale")
    return estimate_smallest([model.contrast({one: 1.0, other: -1.0}) for one, other in pairs])


def _block_counts(results: Results) -> list[int]:
    return [int(blocks) for blocks in results.planned_levels("blocks", SUPERVISED_PART)]


def _runs(
    results: Results,
    name: str,
    blocks: int,
    labels: str = RIGHT_LABELS,
    weight: float = OUTCOME_WEIGHT,
    features: str = WITHOUT_FEATURES,
) -> list[TrainedRun]:
    return results.runs_where(
        SUPERVISED_PART, set=name, blocks=blocks, labels=labels, weight=weight, features=features
    )


def _shares(
    results: Results,
    name: str,
    blocks: int,
    measure: str,
    labels: str = RIGHT_LABELS,
    weight: float = OUTCOME_WEIGHT,
    features: str = WITHOUT_FEATURES,
) -> list[float]:
    """Return each run's final value of `measure`, a share of the test set."""
    runs = _runs(results, name, blocks, labels, weight, features)
    return [_final_share(run, measure) for run in runs]


def _final_share(run: TrainedRun, measure: str) -> float:
    records = [record for record in run.records_of(HeldOutRecord) if record.part == "test"]
    share: float = getattr(records[-1], measure)
    return share


def _fit_shares(results: Results, measure: str) -> PerGameModels:
    """Fit a model per set to `measure`, for networks of each depth and with features."""
    by_network: dict[str, dict[int | str, list[TrainedRun]]] = {
        name: {depth: _runs(results, name, depth) for depth in _block_counts(results)}
        for name in TABLE_1_DATASETS
    }
    by_network[FEATURES_DATASET][POLICY_FEATURES] = _feature_runs(results, POLICY_FEATURES)
    return fit_per_game_models({
        name: {
            network: {run.seed: _final_share(run, measure) for run in runs}
            for network, runs in of_set.items()
        }
        for name, of_set in by_network.items()
    })  # fmt: skip


def _feature_runs(results: Results, features: str) -> list[TrainedRun]:
    """Return the runs of the smallest networks with the given `features`."""
    fewest = _block_counts(results)[0]
    return _runs(results, FEATURES_DATASET, fewest, features=features)


def supervised_section(results: Results) -> Iterator[Block]:
    """Yield the figures and tables on learning from solved positions."""
    if not results.runs_where(SUPERVISED_PART):
        return
    yield Heading("Learning from solved positions")
    yield Paragraph(
        "The positions come from games in which half of the plies are perfect and half random. Set"
        " v1 contains every position of each game, set v2 one position per game, and set easy every"
        " position of games in which a tenth of the plies are random. A tenth of the"
        " games forms the test set. In the published labels, losses count as draws if the first"
        " player is to move [ClausenCode], so the published accuracies are not an upper bound for"
        " correct labels. The outcome has a weight of 0.01 in the loss, as in [Clausen2021, Eq. 3];"
        " two columns show networks trained with a weight of 1."
    )
    yield _table(results)
    yield from _bars(results)
    yield from _features(results)
    yield from _validation(results)


def _table(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for depth in _block_counts(results):
        for name in _SHOWN:
            if not (runs := _runs(results, name, depth)):
                continue
            published = PUBLISHED_ACCURACY.get((name, depth))
            row: list[Cell] = [name, depth, len(runs)]
            row += [
                _cell(_shares(results, name, depth, "strong")),
                published.move if published else None,
                _cell(_shares(results, name, depth, "weak")),
                _cell(_shares(results, name, depth, "result")),
                _cell(_shares(results, name, depth, "label", PUBLISHED_LABELS)),
                published.win if published else None,
                *(
                    _cell(_shares(results, name, depth, measure, weight=FULL_OUTCOME_WEIGHT))
                    for measure in ("strong", "result")
                ),
            ]
            rows.append(row)
    return Table(
        "supervised",
        "Shares of the test set, with intervals over seeds (compare Table 1 of [Clausen2021])",
        [
            "set",
            "blocks",
            "runs",
            Column("best move", ".1%"),
            Column("published move", ".1%"),
            Column("result kept", ".1%"),
            Column("outcome predicted", ".1%"),
            Column("published label predicted", ".1%"),
            Column("published win", ".1%"),
            Column("best move, weight 1", ".1%"),
            Column("outcome predicted, weight 1", ".1%"),
        ],
        rows,
    )


def _cell(values: Sequence[float]) -> Cell:
    return estimate_mean(values).interval if values else None


def _bars(results: Results) -> Iterator[Block]:
    measures = {"strong": "best move", "result": "outcome predicted"}
    moves = {key: published.move for key, published in PUBLISHED_ACCURACY.items()}
    for measure, axis in measures.items():
        groups = {
            f"{depth} blocks": {
                name: run_sample(
                    _shares(results, name, depth, measure),
                    published=moves.get((name, depth)) if measure == "strong" else None,
                )
                for name in _SHOWN
            }
            for depth in _block_counts(results)
        }
        yield Picture(
            f"supervised-{measure}",
            draw_grouped_runs(groups, f"Test set: {axis}", f"share of positions, {axis}"),
            "Each dot is a run, and each line the mean with its 95 % interval over runs. "
            + (
                "Diamonds are published values."
                if measure == "strong"
                else "The networks are trained on correct labels."
            ),
        )


def _features(results: Results) -> Iterator[Block]:
    """Yield the comparison of networks with and without features of a small network."""
    yield Paragraph(
        "With policy features, a network with the fewest blocks also learns the policy-head"
        " features of a small self-play network, for the position and for the one two plies later."
        " This is the best of ten choices of heads and plies that [ClausenCode] compared, so its"
        " published gain of 0.29 points is that of the best of ten. [ClausenCode] does not say"
        " which set the published values are for. The last positions of a game have no later"
        " features."
    )
    runs = {features: _feature_runs(results, features) for features in PUBLISHED_FEATURE_ACCURACY}
    yield _features_table(runs)
    samples = {
        features: {
            FEATURES_DATASET: run_sample(
                [_final_share(run, "strong") for run in of_features],
                published=PUBLISHED_FEATURE_ACCURACY[features].move,
            )
        }
        for features, of_features in runs.items()
    }
    yield Picture(
        "supervised-features",
        draw_grouped_runs(
            samples,
            "Test set: best move, with and without features",
            "share of positions, best move",
        ),
        "Each dot is a run, and each line the mean with its 95 % interval over runs. All runs learn"
        " from the same positions, and those with the same seed start with the same trunk but"
        " different heads. Diamonds are published values; only their difference is comparable.",
    )


def _features_table(runs: Mapping[str, Sequence[TrainedRun]]) -> Table:
    """Return the table of runs by the features that they learn."""
    rows: list[list[Cell]] = []
    for features, of_features in runs.items():
        strong, weak, result = (
            _cell([_final_share(run, measure) for run in of_features])
            for measure in ("strong", "weak", "result")
        )
        published = PUBLISHED_FEATURE_ACCURACY[features].move
        rows.append([features, len(of_features), strong, published, weak, result])
    return Table(
        "features",
        f"Shares of the test set with features of a small network, set {FEATURES_DATASET}",
        [
            "targets",
            "runs",
            Column("best move", ".2%"),
            Column("published move", ".2%"),
            Column("result kept", ".2%"),
            Column("outcome predicted", ".2%"),
        ],
        rows,
    )


def _validation(results: Results) -> Iterator[Block]:
    panels: dict[str, dict[str, Curve]] = {}
    for name in TABLE_1_DATASETS:
        for depth in _block_counts(results):
            curves = [
                [
                    record.strong
                    for record in run.records_of(HeldOutRecord)
                    if record.part == "validation"
                ]
                for run in _runs(results, name, depth)
            ]
            if curves:
                points = list(range(1, 1 + max(map(len, curves))))
                panels.setdefault(name, {})[f"{depth} blocks"] = Curve(points, curves)
    if panels:
        yield Picture(
            "supervised-validation",
            draw_curves(panels, "Validation accuracy", "passes", "strong accuracy"),
            "Strong accuracy after each pass over the positions. The band is one standard deviation"
            " between runs.",
        )
