"""Statistics of the claims about accuracy against cost.

The runs of all variants together show how much runs of a variant differ, see `block_model`. The
small network is left out, because networks of its size may differ more or less than others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from zerolab.papers.connect_four.costs import (
    AccuracyPoint,
    accuracy_at_cost,
    accuracy_points,
    final_accuracy,
    measured_move_times,
    peak_accuracy,
)
from zerolab.papers.connect_four.findings import (
    ABLATIONS,
    ENDS,
    EXTENDED_CLAIM,
    EXTENSIONS_CLAIM,
    FEATURES_CLAIM,
    GROWING_CLAIM,
    GROWING_EARLY_CLAIM,
    LEAGUE_CLAIM,
    PEAKS,
    SERVICE_CLAIM,
    SQUEEZE_EARLY_CLAIM,
    TREE_CLAIMS,
    WEIGHT_CLAIM,
)
from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_RESULTS,
    LIGHT_MERGING,
    SMALL,
    TRAINING,
    VARIANTS,
)
from zerolab.report.claims import Claim
from zerolab.report.table import Cell
from zerolab.studies.block_model import fit_blocks
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate

PointsBySeed = Mapping[Cell, Sequence[AccuracyPoint]]
"""Accuracy points of the finished runs of a variant, by seed."""
PointsByVariant = Mapping[str, PointsBySeed]
"""Accuracy points of finished runs, by variant and seed."""

_Measure = Callable[[Sequence[AccuracyPoint]], float | None]
"""Function from the points of a run to an accuracy, or None if the run is too short for it."""

_EARLY_SHARE = 0.25
"""Share of the common cost at which networks are compared early in training."""

_COMPARED: Mapping[Claim, tuple[str, str, float]] = {
    EXTENDED_CLAIM: (EXTENDED, BASELINE, 1.0),
    SERVICE_CLAIM: ("service", EXTENDED, 1.0),
    GROWING_CLAIM: ("growing", EXTENDED, 1.0),
    GROWING_EARLY_CLAIM: ("growing", EXTENDED, _EARLY_SHARE),
    FEATURES_CLAIM: (FEATURES, EXTENDED, 1.0),
    LEAGUE_CLAIM: (LEAGUE_BY_RESULTS, EXTENDED, 1.0),
    SQUEEZE_EARLY_CLAIM: (EXTENDED, "no-squeeze-excite", _EARLY_SHARE),
    **{claim: (EXTENDED, name, 1.0) for name, claim in ABLATIONS.items()},
    **{claim: (name, "service", 1.0) for name, claim in TREE_CLAIMS.items()},
}
"""Pair of variants that each claim compares, and the share of their common cost to use."""

_EXTENSIONS = ("service", FEATURES, LEAGUE_BY_RESULTS)
"""One variant of each of the three extensions of [Clausen2021, section 4]."""


def measured_accuracy_points(results: Results) -> dict[str, PointsBySeed]:
    """Return the accuracy points of all finished runs, or nothing before moves are timed."""
    times = measured_move_times(results)
    if times is None:
        return {}
    return {
        name: {run.factors["seed"]: accuracy_points(run, times) for run in runs}
        for name in VARIANTS
        if (runs := results.runs_where(TRAINING, variant=name))
    }


def training_statistics(
    results: Results, runs: PointsByVariant
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about training, or the reason why it is missing."""
    if unfinished_message := results.unfinished_message(TRAINING):
        claims = (*_COMPARED, *PEAKS, *ENDS, EXTENSIONS_CLAIM, WEIGHT_CLAIM)
        return dict.fromkeys(claims, MissingEstimate(unfinished_message))
    return {
        **{
            claim: difference_at_equal_cost(runs, one, other, share)
            for claim, (one, other, share) in _COMPARED.items()
        },
        **{claim: _difference(runs, *pair, peak_accuracy) for claim, pair in PEAKS.items()},
        **{claim: _difference(runs, *pair, final_accuracy) for claim, pair in ENDS.items()},
        EXTENSIONS_CLAIM: _extreme(
            estimate_largest, runs, [(name, EXTENDED) for name in _EXTENSIONS]
        ),
        WEIGHT_CLAIM: _extreme(
            estimate_smallest, runs, [(EXTENDED, name) for name in LIGHT_MERGING]
        ),
    }


def _extreme(
    estimate: Callable[[Sequence[StudentEstimate]], ClaimEstimate],
    runs: PointsByVariant,
    pairs: Sequence[tuple[str, str]],
) -> ClaimEstimate | MissingEstimate:
    """Return the largest or smallest difference at equal cost of several pairs of variants."""
    differences = []
    for pair in pairs:
        difference = difference_at_equal_cost(runs, *pair)
        if isinstance(difference, MissingEstimate):
            return difference
        differences.append(difference)
    return estimate(differences)


def difference_at_equal_cost(
    runs: PointsByVariant, one: str, other: str, share: float = 1.0
) -> StudentEstimate | MissingEstimate:
    """Return the accuracy of variant `one` minus that of `other` at equal cost.

    The cost is `share` times the total cost of the cheapest run of either.
    """
    pair = [points for name in (one, other) for points in runs.get(name, {}).values()]
    cost = share * min((points[-1].cost for points in pair), default=0.0)
    return _difference(runs, one, other, partial(_accuracy_within_run, cost=cost))


def _accuracy_within_run(points: Sequence[AccuracyPoint], cost: float) -> float | None:
    return accuracy_at_cost(points, cost) if cost <= points[-1].cost else None


def _difference(
    runs: PointsByVariant, one: str, other: str, measure: _Measure
) -> StudentEstimate | MissingEstimate:
    """Return the mean difference between two variants, in a model of all variants."""
    for name in (one, other):
        if name not in runs:
            return MissingEstimate(f"{VARIANTS[name].title} is not studied at this scale")
    values: dict[str, dict[Cell, float]] = {}
    for name, by_seed in runs.items():
        measured = {seed: measure(points) for seed, points in by_seed.items()}
        known = {seed: value for seed, value in measured.items() if value is not None}
        if name != SMALL and len(known) == len(measured):
            values[name] = known
    if not {one, other} <= values.keys():
        return MissingEstimate("the first measurement comes too late in runs of this scale")
    return fit_blocks(values).contrast({one: 1.0, other: -1.0})
