"""Gains in accuracy, time and Elo from transfer, by seed.

Comparisons pair runs with the same seed. Such runs have the same source network, if any, and the
same initial heads, unless the networks are mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.transfer.study import (
    FINE_TUNED,
    FROZEN,
    MAPPED,
    RANDOM_FROZEN,
    SCRATCH,
    network_player_name,
)
from zerolab.ratings.ratings import Rating
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design, FactorLevel
from zerolab.studies.finished_work import TRAINING_TIME_STAGES, TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import StudentEstimate, estimate_mean
from zerolab.training.records import AccuracyRecord

METHOD_TITLES: Mapping[str, str] = {
    SCRATCH: "from scratch",
    FINE_TUNED: "fine-tuned trunk",
    FROZEN: "frozen trunk",
    MAPPED: "mapped",
    RANDOM_FROZEN: "random frozen trunk",
}
"""Titles of transfer methods, by level of the ``way`` factor."""

AVERAGED_ITERATION_SHARE = 0.25
"""Share of the iterations averaged by `early_mean` and by `late_mean`."""
THRESHOLD_ITERATION_SHARE = 0.5
"""Share of the iterations after which the accuracy of runs from scratch becomes the threshold."""

ValueBySeed = Mapping[FactorLevel, float]
"""Value of a measure, by seed."""
AccuracyCurve = Sequence[float]
"""Accuracy after each iteration."""
CurveMeasure = Callable[[AccuracyCurve], float]


class BoardPair(NamedTuple):
    """Source and target board, identified by part."""

    source: str
    target: str

    @property
    def is_near(self) -> bool:
        """True if both are boards of the same game."""
        return _game(self.source) == _game(self.target)

    @property
    def title(self) -> str:
        """Titles of both boards, such as ``Gobang 5x5 to Gobang 6x6``."""
        return f"{board_title(self.source)} to {board_title(self.target)}"


def board_title(part: str) -> str:
    """Return the title of a board, such as ``Gobang 5x5``."""
    return f"{GAME_TITLES[_game(part)]} {part.rpartition('-')[2]}"


def _game(part: str) -> str:
    return part.rpartition("-")[0]


def planned_board_pairs(design: Design) -> list[BoardPair]:
    """Return the pairs of boards of a design, with targets in the order of its parts."""
    distinct = dict.fromkeys(
        BoardPair(str(run.factors["source"]), run.part)
        for run in design.runs
        if "source" in run.factors
    )
    return sorted(distinct, key=lambda pair: design.part_names.index(pair.target))


def near_and_far_pairs(
    board_pairs: Iterable[BoardPair],
) -> dict[str, tuple[list[BoardPair], list[BoardPair]]]:
    """Return the near and the far pairs of each target that has both kinds."""
    by_target: dict[str, tuple[list[BoardPair], list[BoardPair]]] = {}
    for pair in board_pairs:
        near, far = by_target.setdefault(pair.target, ([], []))
        (near if pair.is_near else far).append(pair)
    return {target: kinds for target, kinds in by_target.items() if all(kinds)}


def runs_by_seed(results: Results, pair: BoardPair, method: str) -> dict[FactorLevel, TrainedRun]:
    """Return the finished runs of a pair with one transfer method, by seed.

    For methods without a source, these are the runs on the target board.
    """
    source = {} if method in (SCRATCH, RANDOM_FROZEN) else {"source": pair.source}
    runs = results.runs_where(pair.target, way=method, **source)
    return {run.factors["seed"]: run for run in runs}


def policy_accuracy_curve(run: TrainedRun) -> list[float]:
    """Return the strong accuracy of the policy after each iteration.

    Search would obscure differences between networks, even with few simulations.
    """
    return [record.network_strong for record in run.records_of(AccuracyRecord)]


def search_accuracy_curve(run: TrainedRun) -> list[float]:
    """Return the strong accuracy of search after each iteration."""
    return [record.search_strong for record in run.records_of(AccuracyRecord)]


def early_mean(curve: AccuracyCurve) -> float:
    """Return the mean over the first quarter of a curve."""
    return float(np.mean(curve[: _quarter(curve)]))


def late_mean(curve: AccuracyCurve) -> float:
    """Return the mean over the last quarter of a curve."""
    return float(np.mean(curve[-_quarter(curve) :]))


def curve_mean(curve: AccuracyCurve) -> float:
    """Return the mean of a curve.

    The difference between the means of two curves is the area between the curves per iteration.
    """
    return float(np.mean(curve))


def _quarter(curve: AccuracyCurve) -> int:
    return max(1, round(AVERAGED_ITERATION_SHARE * len(curve)))


def accuracy_gains(
    results: Results, pair: BoardPair, method: str, measure: CurveMeasure, baseline: str = SCRATCH
) -> dict[FactorLevel, float]:
    """Return the accuracy of a method relative to the `baseline` method, by seed.

    `measure` summarises the accuracy curve of a run.
    """
    runs, baseline_runs = (runs_by_seed(results, pair, level) for level in (method, baseline))
    return {
        seed: measure(policy_accuracy_curve(run))
        - measure(policy_accuracy_curve(baseline_runs[seed]))
        for seed, run in runs.items()
        if seed in baseline_runs
    }


def threshold_accuracy(results: Results, target: str) -> float | None:
    """Return the mean accuracy of runs from scratch after half of their iterations.

    Returns None if no run from scratch is finished.
    """
    curves = [policy_accuracy_curve(run) for run in results.runs_where(target, way=SCRATCH)]
    share = THRESHOLD_ITERATION_SHARE
    accuracies = [curve[max(1, round(share * len(curve))) - 1] for curve in curves]
    return float(np.mean(accuracies)) if accuracies else None


def iterations_to_reach(curve: AccuracyCurve, accuracy: float) -> float | None:
    """Return the iterations needed to reach an accuracy, or None if the curve never reaches it.

    The curve is interpolated linearly between iterations. The result is at least 1.
    """
    if curve[0] >= accuracy:
        return 1.0
    for index in range(1, len(curve)):
        before, after = curve[index - 1], curve[index]
        if after >= accuracy:
            return index + (accuracy - before) / (after - before)
    return None


def seconds_until(run: TrainedRun, iterations: float) -> float:
    """Return the training time in seconds up to an iteration, without accuracy measurements.

    A fractional iteration is interpolated linearly.
    """
    count = run.planned.settings.iterations
    seconds = [0.0] * count
    for record in run.records:
        if record.stage in TRAINING_TIME_STAGES and record.iteration <= count:
            seconds[record.iteration - 1] += run.record_seconds(record)
    return float(np.interp(iterations, range(count + 1), [0.0, *accumulate(seconds)]))


def iterations_saved(results: Results, pair: BoardPair, method: str) -> dict[FactorLevel, float]:
    """Return the iterations saved in reaching `threshold_accuracy`, by seed.

    For runs that never reach this accuracy, all iterations are counted, which favours them.
    """
    accuracy = threshold_accuracy(results, pair.target)
    if accuracy is None:
        return {}

    def iterations_used(curve: AccuracyCurve) -> float:
        iterations = iterations_to_reach(curve, accuracy)
        return float(len(curve)) if iterations is None else iterations

    return {
        seed: -extra
        for seed, extra in accuracy_gains(results, pair, method, iterations_used).items()
    }


def tournament_rating(results: Results, run: TrainedRun, iteration: int) -> Rating | None:
    """Return the tournament rating of a run's network after an iteration, or None if unknown."""
    tournament = results.tournaments.get(run.planned.part)
    return (
        tournament.rating_by_player.get(network_player_name(run.planned, iteration))
        if tournament
        else None
    )


def elo_gains(
    results: Results, pair: BoardPair, method: str, iteration: int, baseline: str = SCRATCH
) -> dict[FactorLevel, float]:
    """Return the Elo of a method relative to `baseline` after an iteration, by seed."""
    runs, baseline_runs = (runs_by_seed(results, pair, level) for level in (method, baseline))
    gained: dict[FactorLevel, float] = {}
    for seed in (seed for seed in runs if seed in baseline_runs):
        one, other = (
            tournament_rating(results, by_seed[seed], iteration)
            for by_seed in (runs, baseline_runs)
        )
        if one is not None and other is not None:
            gained[seed] = one.elo - other.elo
    return gained


def tournament_iterations(results: Results, target: str) -> list[int]:
    """Return the iterations whose networks play a board's tournament, in ascending order."""
    planned = next(plan for plan in results.design.tournaments if plan.group_name == target)
    return sorted(set(planned.iteration_by_player.values()))


def mean_over_board_pairs(by_pair: Sequence[ValueBySeed]) -> StudentEstimate | MissingEstimate:
    """Return the mean over pairs with a confidence interval over seeds.

    Seeds are independent. Pairs are not, because several pairs share a source or a baseline. Seeds
    that are missing from any pair are ignored.
    """
    seeds = set.intersection(*(set(by_seed) for by_seed in by_pair)) if by_pair else set()
    if not seeds:
        return MissingEstimate("no seed is finished for all pairs")
    ordered = sorted(seeds, key=str)
    return estimate_mean(
        [float(np.mean([by_seed[seed] for by_seed in by_pair])) for seed in ordered]
    )
