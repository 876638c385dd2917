"""Accuracy: how often the best network and its search choose right on solved positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import AccuracyReport, accuracy_report
from zerolab.evaluation.choices import network_choices, player_choices
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.rules.interface import Game
from zerolab.training.context import TrainingContext
from zerolab.training.records import AccuracyRecord, Record
from zerolab.training.settings import AccuracySettings
from zerolab.training.stages.interface import Stage


class Accuracy(Stage):
    """Measures the best network, in every few iterations.

    The same random numbers are drawn each time, so that measurements differ by the network alone.
    """

    name = "accuracy"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`: in every `accuracy.every`-th iteration."""
        return (
            context.solved is not None and context.iteration % context.settings.accuracy.every == 0
        )

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        positions, best = context.solved, context.progress.best
        assert positions is not None  # otherwise it would not be due
        seconds = context.begin("accuracy", len(positions), "positions")
        choices = network_choices(context.evaluator(best), positions)
        alone = accuracy_report("network", positions, choices)
        choices = player_choices(
            context.network_agent(best),
            positions,
            context.settings.seed,
            context.reporter.progress,
        )
        search = accuracy_report("search", positions, choices)
        fields = {
            "iteration": context.iteration,
            "wall_seconds": seconds(),
            "network": best,
            "positions": len(positions),
            **_fields(alone),
            **_fields(search),
        }
        return [AccuracyRecord.model_validate(fields)]


def solved_positions(
    settings: AccuracySettings, game: Game, locate: Callable[[str], Path] = Path
) -> Positions | None:
    """Return the positions to measure on, None where nothing is to be measured.

    `locate` says where the file is, see `RunFolder.positions_path`. Raises UserError for a file
    that cannot be used.
    """
    if not settings.every:
        return None
    positions, _ = read_positions(locate(settings.positions), game)
    if not len(positions):
        raise UserError(f"{settings.positions} has no positions: nothing can be measured")
    return positions


def _fields(report: AccuracyReport) -> dict[str, float]:
    fields: dict[str, float] = {}
    for measure in ("strong", "weak"):
        estimate = getattr(report.all, measure)
        key = f"{report.name}_{measure}"
        fields |= {key: estimate.mean, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
    error = report.value and report.value.squared_error
    return fields | ({f"{report.name}_value_error": error.mean} if error else {})
