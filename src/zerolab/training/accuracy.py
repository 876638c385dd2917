"""Accuracy on a fixed set of solved positions, in the course of training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerolab.agents.interface import Agent
from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import AccuracyReport, accuracy_report
from zerolab.evaluation.choices import network_choices, player_choices
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.training.settings import EvaluateSettings


def solved_positions(settings: EvaluateSettings, game: Game) -> Positions | None:
    """Return the positions to measure on, None where nothing is to be measured.

    Raises UserError for a file that cannot be used, before any work is done.
    """
    if not settings.every:
        return None
    positions, _ = read_positions(Path(settings.positions), game)
    if not len(positions):
        raise UserError(f"{settings.positions} has no positions: nothing can be measured")
    return positions


def accuracy_metrics(
    positions: Positions,
    evaluator: Evaluator,
    agent: Agent,
    seed: int,
    report: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the accuracy of a network alone and of its search, as fields of a line of metrics.

    The same lots are drawn in every iteration, so that measurements differ by the network alone.
    """
    alone = accuracy_report("network", positions, network_choices(evaluator, positions))
    search = accuracy_report("search", positions, player_choices(agent, positions, seed, report))
    return {"positions": len(positions), **_fields(alone), **_fields(search)}


def _fields(report: AccuracyReport) -> dict[str, float]:
    fields: dict[str, float] = {}
    for measure in ("strong", "weak"):
        estimate = getattr(report.all, measure)
        key = f"{report.name}_{measure}"
        fields |= {key: estimate.mean, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
    error = report.value and report.value.squared_error
    return fields | ({f"{report.name}_value_error": error.mean} if error else {})
