"""How accurate a run was after each iteration, and what it had cost until then.

One measurement says more about its iteration than about the method, and the more often a run is
measured, the higher its highest one. So accuracies are compared after smoothing, at as many points
of every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.store.run_folder import RunFolder
from zerolab.studies.results import TrainedRun
from zerolab.training.costs.accounting import run_costs
from zerolab.training.costs.reference import MoveTimes

_LAST_SHARE = 0.2  # of the cost, over which accuracies at a cost are averaged
_POINTS = 50  # of a run at which its smoothed accuracy is looked at


class Step(NamedTuple):
    """The state of a run after an iteration."""

    cost: float
    """Of self-play so far, in hours of a core of the reference machine."""
    strong: float
    """Strong accuracy of the search, from 0 to 1."""


def steps(run: TrainedRun, times: MoveTimes) -> list[Step]:
    """Return all measured iterations of a run, in order."""
    return [
        Step(each.reference_hours, each.strong)
        for each in run_costs(RunFolder.open(run.path), times)
        if each.strong is not None and each.reference_hours is not None
    ]


def accuracy_at(run: Sequence[Step], cost: float) -> float | None:
    """Return the accuracy that a run has reached at a cost, None where it was measured later.

    The mean over the last fifth of the cost, with straight lines between iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < run[0].cost:
        return None
    at = np.linspace(first, cost, 21)
    return float(np.interp(at, [each.cost for each in run], [each.strong for each in run]).mean())


def cost_to_reach(run: Sequence[Step], strong: float) -> float | None:
    """Return the least cost at which a run has reached an accuracy; None where it never has."""
    return next((each.cost for each in _smoothed(run) if each.strong >= strong), None)


def peak(run: Sequence[Step]) -> float | None:
    """Return the highest accuracy that a run has reached; None where it was measured too rarely."""
    return max((each.strong for each in _smoothed(run)), default=None)


def _smoothed(run: Sequence[Step]) -> list[Step]:
    costs = np.linspace(0, run[-1].cost, _POINTS + 1)[1:].tolist()
    reached = ((cost, accuracy_at(run, cost)) for cost in costs)
    return [Step(cost, strong) for cost, strong in reached if strong is not None]
