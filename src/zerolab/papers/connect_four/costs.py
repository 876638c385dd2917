"""Cost of self-play on a reference machine, accuracy at a given cost, and the claims about it.

[Clausen2021] measures training cost in hours on one graphics card, as the time per move multiplied
by the number of moves. Here, a reference machine times moves with untrained networks in random
games, on one core and under the same load for all networks. Runs can be trained on other machines.

The accuracy of one iteration is noisy, and the maximum of noisy numbers grows with their number.
Accuracies are therefore smoothed and evaluated at the same number of points in every run.

The variation between runs of a variant is estimated from the runs of all variants (`block_model`),
except the small network, whose variation may be different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.config import validate
from zerolab.core.processes import pinned_to_one_core
from zerolab.papers.connect_four import findings
from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_RESULTS,
    MERGING_WEIGHT_VARIANTS,
    MOVE_TIMING_FUNCTION,
    SELF_PLAY_PART,
    SMALL,
    TIMED_PLIES,
    VARIANTS,
)
from zerolab.report.claims import Claim
from zerolab.report.table import Cell
from zerolab.studies.block_model import fit_block_model
from zerolab.studies.claims import MissingEstimate, estimate_unless_missing
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import (
    estimate_largest,
    estimate_ranked,
    estimate_smallest,
)
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, estimate_mean
from zerolab.training.costs import iteration_costs
from zerolab.training.move_times import (
    MeasuredMoveTimes,
    MeasurementSubject,
    MoveTimes,
    measure_move_times,
)
from zerolab.training.train_settings import TrainSettings

_LAST_SHARE = 0.2  # share of the cost over which accuracy is averaged
_TERA = 1e12
_POINTS = 50  # smoothed accuracies per run


class AccuracyPoint(NamedTuple):
    """Point on the accuracy curve of a run: cost and accuracy after an iteration."""

    core_hours: float
    """Cost of all self-play so far, in core hours on the reference machine."""
    strong_accuracy: float
    """Share of solved positions in which search chooses a best move, from 0 to 1."""
    operations: float = 0.0
    """Floating-point operations of the network in all self-play so far, in units of 10^12."""
    moves: int = 0
    """Number of searched moves in all self-play so far."""


def accuracy_points(run: TrainedRun, times: MoveTimes) -> list[AccuracyPoint]:
    """Return the points of all measured iterations of a run, in order."""
    return [
        AccuracyPoint(cost.reference_hours, strong, cost.selfplay_flops / _TERA, cost.moves)
        for cost in iteration_costs(run.planned.settings, run.records, times)
        if (strong := cost.search_strong_accuracy) is not None and cost.reference_hours is not None
    ]


def accuracy_at_cost(points: Sequence[AccuracyPoint], cost: float) -> float | None:
    """Return a run's accuracy at a cost in core hours, or None if its measurements start too late.

    The accuracy is averaged over the last fifth of the cost, with linear interpolation between
    iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < points[0].core_hours:
        return None
    costs = np.linspace(first, cost, 21)
    accuracies = np.interp(
        costs, [point.core_hours for point in points], [point.strong_accuracy for point in points]
    )
    return float(accuracies.mean())


def cost_to_reach(points: Sequence[AccuracyPoint], strong_accuracy: float) -> float | None:
    """Return the core hours at which a run reaches a smoothed accuracy, or None if it never does.

    `strong_accuracy` ranges from 0 to 1.
    """
    reached = (each for each in _smoothed(points) if each.strong_accuracy >= strong_accuracy)
    return next((each.core_hours for each in reached), None)


def peak_accuracy(points: Sequence[AccuracyPoint]) -> float | None:
    """Return the highest smoothed accuracy of a run, or None if its measurements start too late."""
    return max((point.strong_accuracy for point in _smoothed(points)), default=None)


def final_accuracy(points: Sequence[AccuracyPoint]) -> float | None:
    """Return the accuracy at the end of a run, or None if its measurements start too late."""
    return accuracy_at_cost(points, points[-1].core_hours)


def _smoothed(points: Sequence[AccuracyPoint], count: int = _POINTS) -> list[AccuracyPoint]:
    costs = np.linspace(0, points[-1].core_hours, count + 1)[1:].tolist()
    accuracies = ((cost, accuracy_at_cost(points, cost)) for cost in costs)
    return [AccuracyPoint(cost, each) for cost, each in accuracies if each is not None]


def measure(*, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Time the moves of networks on one core.

    `networks` maps a key to the settings of a run (`settings`) and an iteration (`iteration`).
    Returns the fields of `MoveTime`, except `kind`, under the names ``KEY.FIELD``.
    """
    subjects = [
        MeasurementSubject.untrained(
            validate(TrainSettings, network["settings"]), network["iteration"]
        )
        for network in networks.values()
    ]
    with pinned_to_one_core():
        moves = measure_move_times(subjects, TIMED_PLIES)
    return {
        f"{key}.{name}": float(value)
        for key, move in zip(networks, moves, strict=True)
        for name, value in move.model_dump(exclude={"kind"}).items()
    }


def measured_move_times(results: Results) -> MeasuredMoveTimes | None:
    """Return the measured move times, or None if they have not been measured."""
    computed = (
        results.computation_results.get(planned.title)
        for planned in results.design.computations
        if planned.function_path == MOVE_TIMING_FUNCTION
    )
    numbers = next(computed, None)
    return None if numbers is None else MeasuredMoveTimes(numbers)


PointsBySeed = Mapping[Cell, Sequence[AccuracyPoint]]
"""Accuracy points of the finished runs of a variant, by seed."""
PointsByVariant = Mapping[str, PointsBySeed]
"""Accuracy points of finished runs, by variant and seed."""

_Measure = Callable[[Sequence[AccuracyPoint]], float | None]
"""Function from the points of a run to an accuracy, or to None if the run is too short."""

_BELOW_PEAK = 0.01  # distance from the peak at which smoothed accuracies still rise
_EARLY_SHARE = 0.25
"""Share of the common cost at which networks are compared early in training."""

_COMPARED: Mapping[Claim, tuple[str, str, float]] = {
    findings.EXTENDED_CHEAPER_CLAIM: (EXTENDED, BASELINE, 1.0),
    findings.GROWING_NETWORK_EARLY_CLAIM: ("growing", EXTENDED, _EARLY_SHARE),
    findings.SQUEEZE_EXCITE_EARLY_CLAIM: (EXTENDED, "no-squeeze-excite", _EARLY_SHARE),
    findings.BIG_TREE_EARLY_CLAIM: ("big-tree", "service", _EARLY_SHARE),
    **{
        claim: (EXTENDED, name, 1.0)
        for name, claim in findings.ABLATION_CLAIMS.items()
        if name not in ("no-cycle", "no-reply")
    },
    **{claim: (name, "service", 1.0) for name, claim in findings.GAME_TREE_CLAIMS.items()},
}
"""Pair of variants that each claim compares, and the share of their common cost to use."""

_AVERAGED: Mapping[Claim, tuple[str, str]] = {
    findings.SERVICE_CHEAPER_CLAIM: ("service", EXTENDED),
    findings.SERVICE_BEATS_BASELINE_CLAIM: ("service", BASELINE),
    findings.ABLATION_CLAIMS["no-cycle"]: (EXTENDED, "no-cycle"),
    findings.GROWING_NETWORK_CHEAPER_CLAIM: ("growing", EXTENDED),
    findings.LEAGUE_NO_BETTER_CLAIM: (LEAGUE_BY_RESULTS, EXTENDED),
    findings.FREE_FEATURES_NO_HELP_CLAIM: (FEATURES, EXTENDED),
}
"""Pair of variants whose curves each claim compares."""

_EXTENSIONS = ("service", FEATURES, LEAGUE_BY_RESULTS)
"""One variant for each of the three extensions in [Clausen2021, section 4]."""


def measured_accuracy_points(results: Results) -> dict[str, PointsBySeed]:
    """Return the accuracy points of all finished runs; empty if no moves have been timed."""
    times = measured_move_times(results)
    if times is None:
        return {}
    return {
        name: {run.factors["seed"]: accuracy_points(run, times) for run in runs}
        for name in VARIANTS
        if (runs := results.runs_where(SELF_PLAY_PART, variant=name))
    }


def training_statistics(
    results: Results, runs: PointsByVariant
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about training, or the reason why it is missing."""
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        others = (
            *findings.PEAK_ACCURACY_CLAIMS, *findings.FINAL_ACCURACY_CLAIMS,
            findings.FEATURES_DO_NOT_PAY_CLAIM, findings.SMALL_NETWORK_COST_CLAIM,
            findings.EXTENSIONS_SAVE_EFFORT_CLAIM, findings.EXTENSIONS_GAIN_LITTLE_CLAIM,
            findings.MERGING_WEIGHT_CLAIM, findings.ABLATION_CLAIMS["no-reply"],
        )  # fmt: skip
        return dict.fromkeys((*_COMPARED, *_AVERAGED, *others), MissingEstimate(unfinished_message))
    counted = _with_cost_of_small_networks(runs)
    savings = [log2_cost_ratio(counted, name, EXTENDED) for name in _EXTENSIONS]
    second_largest = partial(estimate_ranked, rank=2)
    return {
        **{
            claim: difference_at_equal_cost(runs, one, other, share)
            for claim, (one, other, share) in _COMPARED.items()
        },
        **{claim: difference_along_curves(runs, *pair) for claim, pair in _AVERAGED.items()},
        findings.FEATURES_DO_NOT_PAY_CLAIM: difference_along_curves(counted, FEATURES, EXTENDED),
        **{
            claim: difference_at_equal_moves(runs, *pair, peak_accuracy)
            for claim, pair in findings.PEAK_ACCURACY_CLAIMS.items()
        },
        **{
            claim: difference_at_equal_moves(runs, *pair, final_accuracy)
            for claim, pair in findings.FINAL_ACCURACY_CLAIMS.items()
        },
        findings.SMALL_NETWORK_COST_CLAIM: _loss_by_cost(runs, counted),
        findings.ABLATION_CLAIMS["no-reply"]: estimate_unless_missing(
            estimate_largest,
            [
                difference_along_curves(runs, EXTENDED, "no-reply", (part / 4, (part + 1) / 4))
                for part in range(4)
            ],
        ),
        findings.EXTENSIONS_SAVE_EFFORT_CLAIM: estimate_unless_missing(estimate_largest, savings),
        findings.EXTENSIONS_GAIN_LITTLE_CLAIM: estimate_unless_missing(second_largest, savings),
        findings.MERGING_WEIGHT_CLAIM: estimate_unless_missing(
            estimate_smallest,
            [difference_at_equal_cost(runs, EXTENDED, name) for name in MERGING_WEIGHT_VARIANTS],
        ),
    }


def difference_at_equal_cost(
    runs: PointsByVariant, one: str, other: str, share: float = 1.0
) -> StudentEstimate | MissingEstimate:
    """Return the accuracy of variant `one` minus that of `other` at equal cost.

    The cost is `share` times the total cost of the cheapest run of either variant.
    """
    pair = [points for name in (one, other) for points in runs.get(name, {}).values()]
    cost = share * min((points[-1].core_hours for points in pair), default=0.0)
    return _difference(runs, one, other, partial(_accuracy_within_run, cost=cost))


def _accuracy_within_run(points: Sequence[AccuracyPoint], cost: float) -> float | None:
    return accuracy_at_cost(points, cost) if cost <= points[-1].core_hours else None


def difference_at_equal_moves(
    runs: PointsByVariant, one: str, other: str, measure: _Measure
) -> StudentEstimate | MissingEstimate:
    """Return a measure of variant `one` minus that of `other`, over the moves all runs reach."""
    pair = (points for name in (one, other) for points in runs.get(name, {}).values())
    moves = min((each[-1].moves for each in pair), default=0)
    return _difference(runs, one, other, lambda points: measure(_first_moves(points, moves)))


def _first_moves(points: Sequence[AccuracyPoint], moves: int) -> list[AccuracyPoint]:
    """Return the points within the first `moves` moves of a run; the last one is interpolated."""
    numbers = [point.moves for point in points]
    columns = zip(*points, strict=True)
    hours, strong, operations, _ = (float(np.interp(moves, numbers, each)) for each in columns)
    before = [point for point in points if point.moves < moves]
    return [*before, AccuracyPoint(hours, strong, operations, moves)]


def difference_along_curves(
    runs: PointsByVariant, one: str, other: str, part: tuple[float, float] = (0.0, 1.0)
) -> StudentEstimate | MissingEstimate:
    """Return the accuracy of variant `one` minus that of `other`, averaged over equal costs.

    The costs range from the latest first measurement to the lowest total cost of the compared runs.
    `part` selects a part of this range by its ends, as fractions from 0 to 1.
    """
    pair = [points for name in (one, other) for points in runs.get(name, {}).values()]
    first, last = _common_costs(pair)
    begin, end = (first * (1.0 - share) + last * share for share in part)  # exact at 0 and 1
    return _difference(runs, one, other, partial(_mean_accuracy, first=begin, last=end))


def _common_costs(runs: Sequence[Sequence[AccuracyPoint]]) -> tuple[float, float]:
    """Return the ends of the range of costs that all runs cover; both are 0 without runs."""
    first = max((points[0].core_hours for points in runs), default=0.0)
    return first, min((points[-1].core_hours for points in runs), default=0.0)


def log2_cost_ratio(
    runs: PointsByVariant, one: str, other: str
) -> StudentEstimate | MissingEstimate:
    """Return log2 of the cost of variant `other` divided by that of `one`, at equal accuracy.

    This accuracy is `_BELOW_PEAK` less than the highest smoothed accuracy that all runs of both
    variants reach. Runs are paired by seed, because costs vary much more between runs of some
    variants than between runs of others.
    """
    pair = [points for name in (one, other) for points in runs.get(name, {}).values()]
    peaks = [peak for points in pair if (peak := peak_accuracy(points)) is not None]
    level = min(peaks, default=0.0) - _BELOW_PEAK
    saved, baseline = (
        {seed: saving for seed, points in runs.get(name, {}).items()
         if (saving := _log_saving(points, level)) is not None}
        for name in (one, other)
    )  # fmt: skip
    if not (seeds := saved.keys() & baseline.keys()):
        return MissingEstimate(f"{VARIANTS[one].title} is not studied at this scale")
    return estimate_mean([saved[seed] - baseline[seed] for seed in seeds])


def _log_saving(points: Sequence[AccuracyPoint], level: float) -> float | None:
    """Return minus log2 of the interpolated cost to reach a smoothed accuracy, or None."""
    smoothed = _smoothed(points, 4 * _POINTS)
    reached = [at for at, point in enumerate(smoothed) if point.strong_accuracy >= level]
    if not reached:
        return None
    steps = smoothed[max(0, reached[0] - 1) : reached[0] + 1]
    accuracies = [point.strong_accuracy for point in steps]
    return -math.log2(float(np.interp(level, accuracies, [point.core_hours for point in steps])))


def _mean_accuracy(points: Sequence[AccuracyPoint], first: float, last: float) -> float | None:
    """Return the mean accuracy between two costs, or None if a run does not span them."""
    if not points[0].core_hours <= first < last <= points[-1].core_hours:
        return None
    measured = [point.core_hours for point in points]
    costs = [first, *(cost for cost in measured if first < cost < last), last]
    accuracies = np.interp(costs, measured, [point.strong_accuracy for point in points])
    return float(np.trapezoid(accuracies, costs)) / (last - first)


def _with_cost_of_small_networks(runs: PointsByVariant) -> PointsByVariant:
    """Return the points with the cost of each small network added to the run that uses it.

    Runs without the points of their small network are left out.
    """
    added = {seed: points[-1].core_hours for seed, points in runs.get(SMALL, {}).items() if points}
    counted = {
        seed: [point._replace(core_hours=point.core_hours + added[seed]) for point in points]
        for seed, points in runs.get(FEATURES, {}).items()
        if seed in added
    }
    others = {name: by_seed for name, by_seed in runs.items() if name != FEATURES}
    return {**others, FEATURES: counted} if counted else others


def _loss_by_cost(
    runs: PointsByVariant, counted: PointsByVariant
) -> StudentEstimate | MissingEstimate:
    """Return the accuracy with free features minus that with the small network's cost counted."""
    free, paid = (each.get(FEATURES, {}) for each in (runs, counted))
    first, last = _common_costs([*free.values(), *paid.values()])
    pairs = [
        [_mean_accuracy(each[seed], first, last) for each in (free, paid)]
        for seed in free if SMALL in runs and seed in runs[SMALL]
    ]  # fmt: skip
    lost = [one - other for one, other in pairs if one is not None and other is not None]
    return estimate_mean(lost) if lost else MissingEstimate("the ranges of costs do not overlap")


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
    return fit_block_model(values).contrast({one: 1.0, other: -1.0})
