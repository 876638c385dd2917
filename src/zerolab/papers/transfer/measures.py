"""Accuracy, time and Elo that a transfer gains, by seed.

Runs of equal seed are compared: they have the same source and, if they learn from scratch or start
from a trunk, the same first heads.
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
    player_name,
)
from zerolab.ratings.bayes import Rating
from zerolab.studies.claims import Missing
from zerolab.studies.design import Design, Level
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import StudentEstimate, mean_of
from zerolab.training.records import AccuracyRecord

WAY_TITLES: Mapping[str, str] = {
    SCRATCH: "from scratch",
    FINE_TUNED: "fine-tuned trunk",
    FROZEN: "frozen trunk",
    MAPPED: "mapped",
    RANDOM_FROZEN: "random frozen trunk",
}
"""By level of the factor ``way``."""

QUARTER = 0.25
"""Share of the iterations that counts as early, and as late."""
HALF = 0.5
"""Share of the iterations of runs from scratch after which their accuracy is the one to reach."""

BySeed = Mapping[Level, float]
Curve = Sequence[float]
Measure = Callable[[Curve], float]


class Pair(NamedTuple):
    """Two boards, by the names of their parts."""

    source: str
    target: str

    @property
    def is_near(self) -> bool:
        """True for two sizes of one game."""
        return _game(self.source) == _game(self.target)

    @property
    def title(self) -> str:
        """Both boards, such as ``Gobang 5x5 to Gobang 6x6``."""
        return f"{board_title(self.source)} to {board_title(self.target)}"


def board_title(part: str) -> str:
    """Return the title of a board, such as ``Gobang 5x5``."""
    return f"{GAME_TITLES[_game(part)]} {part.rpartition('-')[2]}"


def _game(part: str) -> str:
    return part.rpartition("-")[0]


def pairs(design: Design) -> list[Pair]:
    """Return the pairs of a design, by target, in the order of its parts."""
    found = dict.fromkeys(
        Pair(str(run.factors["source"]), run.part) for run in design.runs if "source" in run.factors
    )
    return sorted(found, key=lambda pair: design.parts.index(pair.target))


def targets_of_both_kinds(every: Iterable[Pair]) -> dict[str, tuple[list[Pair], list[Pair]]]:
    """Return the pairs of near and of far sources, of every target that has both kinds."""
    found: dict[str, tuple[list[Pair], list[Pair]]] = {}
    for pair in every:
        near, far = found.setdefault(pair.target, ([], []))
        (near if pair.is_near else far).append(pair)
    return {target: kinds for target, kinds in found.items() if all(kinds)}


def runs_of(results: Results, pair: Pair, way: str) -> dict[Level, TrainedRun]:
    """Return the finished runs of a way by seed; ways without a source belong to the target."""
    of_source = {} if way in (SCRATCH, RANDOM_FROZEN) else {"source": pair.source}
    found = results.where(pair.target, way=way, **of_source)
    return {run.factors["seed"]: run for run in found}


def accuracies(run: TrainedRun) -> list[float]:
    """Return the strong accuracy of the policy after every iteration.

    Without search, because a search of few simulations hides what a network has learned.
    """
    return [record.network_strong for record in run.of(AccuracyRecord)]


def search_accuracies(run: TrainedRun) -> list[float]:
    """Return the strong accuracy of the search after every iteration."""
    return [record.search_strong for record in run.of(AccuracyRecord)]


def early(curve: Curve) -> float:
    """Return the mean of the first quarter."""
    return float(np.mean(curve[: _quarter(curve)]))


def late(curve: Curve) -> float:
    """Return the mean of the last quarter."""
    return float(np.mean(curve[-_quarter(curve) :]))


def whole(curve: Curve) -> float:
    """Return the mean; its difference between two curves is the area between them per iteration."""
    return float(np.mean(curve))


def _quarter(curve: Curve) -> int:
    return max(1, round(QUARTER * len(curve)))


def gains(
    results: Results, pair: Pair, way: str, measure: Measure, base: str = SCRATCH
) -> dict[Level, float]:
    """Return the accuracy of runs of a way above that of another way, by seed."""
    ours, theirs = (runs_of(results, pair, each) for each in (way, base))
    return {
        seed: measure(accuracies(run)) - measure(accuracies(theirs[seed]))
        for seed, run in ours.items()
        if seed in theirs
    }


def level(results: Results, target: str) -> float | None:
    """Return the accuracy to reach: that of runs from scratch after half of their iterations.

    It is the mean over seeds; None if no run is finished.
    """
    curves = [accuracies(run) for run in results.where(target, way=SCRATCH)]
    return float(np.mean([_at_half(curve) for curve in curves])) if curves else None


def _at_half(curve: Curve) -> float:
    return curve[max(1, round(HALF * len(curve))) - 1]


def iterations_to(curve: Curve, wanted: float) -> float | None:
    """Return the iterations that a run takes to an accuracy; None if it never reaches it.

    The curve is linear between iterations. Nothing is measured before the first one.
    """
    if curve[0] >= wanted:
        return 1.0
    for place in range(1, len(curve)):
        before, after = curve[place - 1], curve[place]
        if after >= wanted:
            return place + (wanted - before) / (after - before)
    return None


def seconds_to(run: TrainedRun, iterations: float) -> float:
    """Return the seconds of training up to an iteration, which may be fractional."""
    count = run.planned.settings.iterations
    spent = [0.0] * count
    for record in run.records:
        if record.stage != "accuracy" and record.iteration <= count:
            spent[record.iteration - 1] += record.wall_seconds
    return float(np.interp(iterations, range(count + 1), [0.0, *accumulate(spent)]))


def saved(results: Results, pair: Pair, way: str) -> dict[Level, float]:
    """Return the iterations that runs save on the way to the level of `level`, by seed.

    Runs that never reach it count with all of their iterations, which favours them.
    """
    wanted = level(results, pair.target)
    if wanted is None:
        return {}

    def taken(curve: Curve) -> float:
        reached = iterations_to(curve, wanted)
        return float(len(curve)) if reached is None else reached

    return {seed: -more for seed, more in gains(results, pair, way, taken).items()}


def rating(results: Results, run: TrainedRun, iteration: int) -> Rating | None:
    """Return a rating in the tournament of the run's board; None before that is finished."""
    played = results.tournaments.get(run.planned.part)
    return played.by_name.get(player_name(run.planned, iteration)) if played else None


def elo_gains(
    results: Results, pair: Pair, way: str, iteration: int, base: str = SCRATCH
) -> dict[Level, float]:
    """Return the Elo of runs of a way above that of another after an iteration, by seed."""
    ours, theirs = (runs_of(results, pair, each) for each in (way, base))
    found: dict[Level, float] = {}
    for seed, run in ours.items():
        if seed in theirs:
            mine, other = (rating(results, each, iteration) for each in (run, theirs[seed]))
            if mine is not None and other is not None:
                found[seed] = mine.elo - other.elo
    return found


def stages(results: Results, target: str) -> list[int]:
    """Return the iterations after which networks play a board's tournament, in order."""
    planned = next(each for each in results.design.tournaments if each.key == target)
    return sorted(set(planned.after.values()))


def seed_means(by_pair: Sequence[BySeed]) -> StudentEstimate | Missing:
    """Return the mean over pairs, with an interval over seeds.

    A source and a baseline serve several pairs, so pairs are not independent; seeds are. Seeds
    missing from some pair are left out.
    """
    seeds = set.intersection(*(set(each) for each in by_pair)) if by_pair else set()
    if not seeds:
        return Missing("no seed of all pairs is finished")
    ordered = sorted(seeds, key=str)
    return mean_of([float(np.mean([each[seed] for each in by_pair])) for seed in ordered])
