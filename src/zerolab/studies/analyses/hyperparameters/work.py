"""What runs have done, counted, and the time that it is worth.

Measured times are noisy, as runs share a machine, and belong to that machine. In a fit, noise in a
regressor pulls its coefficient towards 0 and the others away from where they belong; counts have
none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

import numpy as np

from zerolab.studies.results import TrainedRun
from zerolab.training.records import LearnRecord, SelfPlayRecord


class Prices(NamedTuple):
    """Seconds of one unit of work."""

    simulation: float
    sample: float
    iteration: float
    """What an iteration takes however little is done in it, its gate included."""


class Work(NamedTuple):
    """What a run has done in all its iterations."""

    simulations: int
    """Simulations of all searches of self-play."""
    samples: int
    """Examples learned, repetitions included."""
    iterations: int

    def seconds(self, prices: Prices) -> float:
        """Return how long it would last if every unit took as long as any other."""
        return sum(count * price for count, price in zip(self, prices, strict=True))


def work(run: TrainedRun) -> Work:
    """Return what a run has done; the games of gates are not counted."""
    return Work(
        sum(record.simulations for record in run.of(SelfPlayRecord)),
        sum(record.samples for record in run.of(LearnRecord)),
        len(run.of(SelfPlayRecord)),
    )


def prices(runs: Sequence[TrainedRun]) -> Prices:
    """Return the prices, none below 0, at which the work of runs comes nearest to their times.

    Self-play and learning each have a price per unit and one per iteration, fitted by least squares
    of relative errors, so that short runs count as much as long ones. Without runs all are 0.
    """
    if not runs:
        return Prices(0.0, 0.0, 0.0)
    done = [work(run) for run in runs]
    iterations = [each.iterations for each in done]
    simulation, selfplay = _fit([each.simulations for each in done], iterations,
                                [run.seconds["selfplay"] for run in runs])  # fmt: skip
    sample, learning = _fit([each.samples for each in done], iterations,
                            [run.seconds["learn"] for run in runs])  # fmt: skip
    gates = sum(run.total_seconds - run.seconds["selfplay"] - run.seconds["learn"] for run in runs)
    return Prices(simulation, sample, selfplay + learning + max(0.0, gates) / sum(iterations))


def _fit(
    units: Sequence[int], iterations: Sequence[int], seconds: Sequence[float]
) -> tuple[float, float]:
    """Return the price of a unit and of an iteration."""
    from scipy.optimize import nnls  # noqa: PLC0415  slow to import

    counts = np.array([units, iterations], np.float64).T
    scale = counts.max(axis=0, initial=1.0)
    times = np.maximum(seconds, 1e-9)  # of a stage that was skipped
    (unit, iteration), _ = nnls(counts / scale / times[:, None], np.ones(len(times)))
    return float(unit / scale[0]), float(iteration / scale[1])


def disagreement(runs: Sequence[TrainedRun], prices: Prices) -> float:
    """Return the standard deviation of log2 of measured time over that of counted work."""
    every = [math.log2(run.total_seconds / work(run).seconds(prices)) for run in runs]
    return stdev(every) if len(every) > 1 else 0.0
