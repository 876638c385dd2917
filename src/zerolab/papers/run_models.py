"""Mixed models of a study's runs, and comparisons between the levels of a factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zerolab.studies.block_model import GamesModel, fit_games
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Level
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate


def fit_runs(
    results: Results,
    parts: Sequence[str],
    factor: str,
    levels: Sequence[Level],
    measure: Callable[[TrainedRun], float],
) -> GamesModel | MissingEstimate:
    """Fit a measure of the runs of several parts, with seeds as random blocks.

    `levels` are the levels of `factor` to compare; all of them contribute to the estimate of the
    variance.
    """
    values: dict[str, dict[Any, dict[Any, float]]] = {
        part: {
            level: {run.seed: measure(run) for run in results.runs_where(part, **{factor: level})}
            for level in levels
        }
        for part in parts
    }
    for part, by_level in values.items():
        if part not in results.design.parts or not all(by_level.values()):
            return MissingEstimate(results.unfinished_message(part) or f"no runs of {part}")
    return fit_games(values)


def contrast(
    model: GamesModel | MissingEstimate,
    weights: Mapping[Any, float],
    parts: Sequence[str] = (),
) -> StudentEstimate | MissingEstimate:
    """Return the mean of a contrast over `parts`, by default all, or why it is missing."""
    return model if isinstance(model, MissingEstimate) else model.contrast(weights, parts)


def smallest_lead(
    model: GamesModel | MissingEstimate,
    level: Level,
    rivals: Sequence[Level],
    parts: Sequence[str] = (),
) -> ClaimEstimate | MissingEstimate:
    """Return the mean lead of a level over its closest rival in `parts`, by default all.

    The closest rival is only known after the fact, so the estimate is the smallest of all leads.
    """
    if isinstance(model, MissingEstimate):
        return model
    leads = (model.contrast({level: 1.0, rival: -1.0}, parts) for rival in rivals)
    return estimate_smallest([*leads])
