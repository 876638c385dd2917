"""What runs have done, counted, and the time that it is worth.

Measured times are noisy, as runs share a machine. In a fit, noise in a regressor pulls its
coefficient towards 0 and the others away from where they belong; counts have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

from zerolab.studies.results import TrainedRun
from zerolab.training.records import LearnRecord, SelfPlayRecord


class Prices(NamedTuple):
    """Seconds of one unit of work."""

    simulation: float
    sample: float


class Work(NamedTuple):
    """What a run has done in all its iterations."""

    simulations: int
    """Simulations of all searches of self-play."""
    samples: int
    """Examples learned, repetitions included."""

    def seconds(self, prices: Prices) -> float:
        """Return how long it would last if every unit took as long as any other."""
        return self.simulations * prices.simulation + self.samples * prices.sample


def work(run: TrainedRun) -> Work:
    """Return what a run has done; the games of gates are not counted."""
    return Work(
        sum(record.simulations for record in run.of(SelfPlayRecord)),
        sum(record.samples for record in run.of(LearnRecord)),
    )


def prices(runs: Sequence[TrainedRun]) -> Prices:
    """Return the seconds of all runs' self-play and learning over what they did in them."""
    done = [work(run) for run in runs]
    return Prices(
        _ratio([run.seconds["selfplay"] for run in runs], [each.simulations for each in done]),
        _ratio([run.seconds["learn"] for run in runs], [each.samples for each in done]),
    )


def _ratio(seconds: Sequence[float], counts: Sequence[int]) -> float:
    return sum(seconds) / max(1, sum(counts))


def disagreement(runs: Sequence[TrainedRun], prices: Prices) -> float:
    """Return the standard deviation of log2 of measured time over that of counted work."""
    every = [math.log2(run.total_seconds / work(run).seconds(prices)) for run in runs]
    return stdev(every) if len(every) > 1 else 0.0
