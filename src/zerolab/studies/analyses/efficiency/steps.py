"""How accurate a run was after each iteration, and what it had cost until then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.ratings.score import Z95
from zerolab.store.run_folder import RunFolder
from zerolab.studies.results import TrainedRun
from zerolab.training.costs.accounting import run_costs

_TERA = 1e12
_LAST_SHARE = 0.2  # of the cost, over which accuracies at a cost are averaged


class Step(NamedTuple):
    """The state of a run after an iteration."""

    cost: float
    """Of self-play so far, in TFLOP."""
    strong: float
    """Strong accuracy of the search, from 0 to 1."""
    error: float
    """Its standard error: that of the positions."""


def steps(run: TrainedRun) -> list[Step]:
    """Return all measured iterations of a run, in order."""
    found = []
    for each in run_costs(RunFolder.open(run.path)):
        if each.accuracy is not None:
            width = each.accuracy.search_strong_high - each.accuracy.search_strong_low
            strong = each.accuracy.search_strong
            found.append(Step(each.selfplay_flops / _TERA, strong, width / (2 * Z95)))
    return found


def accuracy_at(run: Sequence[Step], cost: float) -> float:
    """Return the accuracy that a run has reached at a cost.

    The mean over the last fifth of the cost, with straight lines between iterations, because one
    measurement says more about its iteration than about the method.
    """
    at = np.linspace((1 - _LAST_SHARE) * cost, cost, 21)
    return float(np.interp(at, [each.cost for each in run], [each.strong for each in run]).mean())


def cost_to_reach(run: Sequence[Step], strong: float) -> float | None:
    """Return the cost after the first iteration with at least that accuracy; None for none."""
    return next((each.cost for each in run if each.strong >= strong), None)


def peak(run: Sequence[Step]) -> float:
    """Return the highest accuracy of a run."""
    return max(each.strong for each in run)
