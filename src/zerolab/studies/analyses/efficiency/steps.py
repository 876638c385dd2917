"""How accurate a run was after each iteration, and what it had cost until then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.studies.engine.estimate import forward_flops
from zerolab.studies.results import TrainedRun
from zerolab.training.records import AccuracyRecord, SelfPlayRecord, best_after

_TERA = 1e12
_LAST_SHARE = 0.2  # of the cost, over which accuracies at a cost are averaged


class Step(NamedTuple):
    """The state of a run after an iteration."""

    cost: float
    """Of self-play so far, in TFLOP: evaluations times the operations of one."""
    strong: float
    """Strong accuracy of the search, from 0 to 1."""
    error: float
    """Its standard error: that of the positions."""
    moves: int
    """Played so far."""


def steps(run: TrainedRun) -> list[Step]:
    """Return all measured iterations of a run, in order."""
    settings = run.planned.settings
    cost, moves = 0.0, 0
    found = []
    measured = {record.iteration: record for record in run.of(AccuracyRecord)}
    for played in run.of(SelfPlayRecord):
        player = best_after(run.records, played.iteration - 1)
        cost += played.evaluated * forward_flops(settings, player) / _TERA
        moves += played.positions if played.plies is None else played.plies
        if played.iteration in measured:
            record = measured[played.iteration]
            error = (record.search_strong_high - record.search_strong_low) / (2 * 1.96)
            found.append(Step(cost, record.search_strong, error, moves))
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
