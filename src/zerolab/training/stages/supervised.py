"""Supervised learning: what the network says about positions that it has not learnt from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerolab.evaluation.estimates import Estimate, proportion
from zerolab.evaluation.grading import grade
from zerolab.evaluation.positions import Positions
from zerolab.evaluation.prediction import predict
from zerolab.training.context import TrainingContext
from zerolab.training.records import Record, SupervisedRecord
from zerolab.training.stages.interface import Stage
from zerolab.training.supervised.labels import outcomes


class Supervised(Stage):
    """Makes the network just learnt the best one, and measures it on positions for validation."""

    name = "supervised"

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        context.update(best=context.progress.iteration)
        solved = context.solved_split
        assert solved is not None  # otherwise there is no such stage
        return [measure_part(context, "validation", solved.validation)]


def measure_part(context: TrainingContext, name: str, positions: Positions) -> SupervisedRecord:
    """Measure the best network on a part of the solved positions."""
    seconds = context.begin(name, len(positions), "positions")
    heads = context.settings.network.heads
    knows_draws = any("draws" in head.answers for head in heads)
    said = predict(context.evaluator(context.progress.best), positions, knows_draws)
    grades = grade(positions, said.actions)
    labels, exact = outcomes(positions, context.defects), np.sign(positions.best)
    right = proportion(said.results == labels, positions.games)
    measured = {
        "strong": proportion(grades.strong, positions.games),
        "weak": proportion(grades.weak, positions.games),
        "label": right,
        "result": proportion(said.results == exact, positions.games),
    }
    fields = {
        "iteration": context.iteration,
        "wall_seconds": seconds(),
        "part": name,
        "positions": len(positions),
        "policy_error": float(said.policy_errors.mean()),
        "value_error": float(np.square(said.values - exact).mean()),
    }
    for measure, estimate in measured.items():
        fields |= _interval(measure, estimate)
    return SupervisedRecord.model_validate(fields)


def _interval(name: str, estimate: Estimate | None) -> dict[str, float]:
    assert estimate is not None  # there are positions
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
