"""Which combinations are on the front of Elo and time, and how sure that is.

A front has the best of many noisy points, so some of them are there by luck. The bootstrap gives
every combination other runs: its means plus residuals drawn from those of all runs, in Elo and in
log2(time) together. A residual is what is left of a run after its combination and its tournament,
error of measuring included. Where no combination has two runs, there are no residuals, and Elo is
drawn with its error of measuring alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.studies.analyses.hyperparameters.grid import Grid, mean_point
from zerolab.studies.analyses.hyperparameters.time_units import time_unit
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Column, DataTable
from zerolab.studies.statistics import Spread, pareto_front

Floats = NDArray[np.float64]

_DRAWS = 2000


class Residuals(NamedTuple):
    """What combinations and tournaments leave unexplained."""

    values: Floats
    """float64[runs, 2]: Elo and log2(time), scaled up so that their mean square is the variance."""
    freedom: int
    """How many of them are free; 0 where no combination has two runs."""


def residuals(grid: Grid) -> Residuals:
    """Return those of the fit of a constant per combination and one per tournament."""
    y = np.array([[run.elo, math.log2(run.seconds)] for run in grid.runs])
    groups = (
        [run.levels for run in grid.runs],
        [run.tournament for run in grid.runs],
    )
    x = np.column_stack([
        [float(name == each) for name in names]
        for names in groups for each in dict.fromkeys(names)
    ])  # fmt: skip
    fitted, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    freedom = len(y) - int(rank)
    left = y - x @ fitted
    return Residuals(left * math.sqrt(len(y) / freedom) if freedom else 0.0 * left, freedom)


def run_spread(grid: Grid) -> Spread | None:
    """Return how far the Elo of runs of one combination differ, as `spread` does; None if unknown.

    What shifts all runs of a tournament alike, such as the error of Random's rating, is no part.
    """
    found = residuals(grid)
    if not found.freedom:
        return None
    observed = float(np.mean(found.values[:, 0] ** 2))
    measured = float(np.mean([run.error**2 for run in grid.runs]))
    return Spread(
        math.sqrt(observed), math.sqrt(max(0.0, observed - measured)), math.sqrt(measured)
    )


def front_shares(grid: Grid) -> list[float]:
    """Return the share of draws in which each combination is on the front of means."""
    every = list(grid.combinations().values())
    found, random = residuals(grid), np.random.default_rng(0)
    unit = time_unit([])
    points = [mean_point(runs, [run.seconds for run in runs], unit) for runs in every]
    noise = np.zeros((_DRAWS, len(every), 2))
    for i, runs in enumerate(every):
        if found.freedom:
            chosen = random.integers(0, len(found.values), (_DRAWS, len(runs)))
            noise[:, i] = found.values[chosen].mean(axis=1)
        else:
            noise[:, i, 0] = random.normal(0.0, points[i].error, _DRAWS)
    elos = np.array([point.value for point in points]) + noise[..., 0]
    costs = np.array([point.cost for point in points]) * np.exp2(noise[..., 1])
    counts = np.zeros(len(every))
    for cost, elo in zip(costs.tolist(), elos.tolist(), strict=True):
        counts[pareto_front(cost, elo)] += 1
    return [float(count) / _DRAWS for count in counts]


def front_table(grid: Grid) -> DataTable:
    """Return every combination with its means, and whether and how often it is on their front."""
    combinations = grid.combinations()
    unit = time_unit(run.seconds for run in grid.runs)
    points = [
        mean_point(runs, [run.seconds for run in runs], unit) for runs in combinations.values()
    ]
    front = pareto_front([point.cost for point in points], [point.value for point in points])
    shares = front_shares(grid)
    rows: list[list[Cell]] = [
        [
            points[i].label, len([*combinations.values()][i]), points[i].cost, points[i].value,
            "yes" if i in front else "no", shares[i],
        ]
        for i in sorted(range(len(points)), key=lambda i: -shares[i])
    ]  # fmt: skip
    columns: list[str | Column] = [
        "combination", "runs", Column(f"mean time ({unit.name})", ".3g"),
        Column("mean Elo above Random", "+.0f"), "on the front", Column("share of draws", ".0%"),
    ]  # fmt: skip
    title = "How often each combination is on the front"
    return DataTable("front-shares", title, columns, rows)
