"""Regression of Elo on hyper-parameters and time, and the Pareto front of both.

A front picks the best of many noisy points, so some of them are there by luck. The bootstrap
replaces the runs of every combination by their mean plus residuals drawn from those of all runs, in
Elo and in log2(time) together. A residual is the deviation of a run from the fit of its combination
and its tournament, error of measuring included. If no combination has two runs, there are no
residuals, and Elo is drawn with its error of measuring alone.

Linear fits over runs, with a constant for every tournament, since only networks of one tournament
have met. x is log2 of a hyper-parameter, so that coefficients are per doubling::

    Elo        = constant of the tournament + sum of b x over I, E, m, ep    all others equal
    log2(time) = constant of the tournament + sum of a x over I, E, m, ep
    Elo        = constant of the tournament + c x + d log2(time)     one x alone: at equal time

c tells whether, of runs that took equally long, those with more of one thing are stronger; as the
time is equal, they have less of the others. A fit of all four x together with time could not: time
is nearly the sum of the a x.

Time is that of counted work (see `work`): measured times are noisy, which pulls d towards 0 and c
towards b. Fits with measured times stand beside; no claim rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.hyperparameters.grid import (
    OUTER,
    SYMBOLS,
    Grid,
    GridRun,
    disagreement,
    mean_point,
    time_unit,
)
from zerolab.papers.hyperparameters.study import FACTORS
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import Row, draw_intervals
from zerolab.report.table import Column, Table
from zerolab.report.xy_plots import pareto_front
from zerolab.studies.claims import Missing
from zerolab.studies.statistics import (
    BootstrapEstimate,
    Spread,
    StudentEstimate,
    bootstrap,
    linear_regression,
)

Floats = NDArray[np.float64]
_DRAWS = 2000


class Residuals(NamedTuple):
    """Residuals of the fit of combinations and tournaments."""

    values: Floats
    """float64[runs, 2]: Elo and log2(time), scaled so that their mean square is the variance."""
    freedom: int
    """Degrees of freedom; 0 if no combination has two runs."""


def residuals(grid: Grid) -> Residuals:
    """Return the residuals of a constant per combination and one per tournament."""
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
    """Return the spread of Elo between runs of one combination, like `spread`; None if unknown.

    It leaves out shifts of all runs of a tournament, such as the error of Random's rating.
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


def front_table(grid: Grid) -> Table:
    """Return all combinations with their means, and their shares of draws on the front."""
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
    return Table("front-shares", title, columns, rows)


class Fits(NamedTuple):
    """Coefficients of all fits, by symbol."""

    elo: dict[str, StudentEstimate]
    """b, Elo per doubling."""
    work: dict[str, StudentEstimate]
    """a: doublings of the time of counted work per doubling."""
    time: dict[str, StudentEstimate]
    """The same for measured time."""
    equal_work: dict[str, StudentEstimate]
    """c, Elo per doubling at equal time of counted work."""
    equal_time: dict[str, StudentEstimate]
    """The same at equal measured time."""


def fit(grid: Grid) -> Fits:
    """Fit all models; raise ValueError without runs."""
    x = _logs(grid.runs)
    counted, measured = _log_counted(grid, grid.runs), _log_measured(grid.runs)
    elo = np.array([run.elo for run in grid.runs])
    constants, names = _constants(grid)

    def together(y: Floats) -> dict[str, StudentEstimate]:
        return linear_regression(np.column_stack([x, constants]), y, [*SYMBOLS, *names])

    def alone(time: Floats) -> dict[str, StudentEstimate]:
        return {
            symbol: linear_regression(
                np.column_stack([x[:, i], time, constants]), elo, [symbol, "time", *names]
            )[symbol]
            for i, symbol in enumerate(SYMBOLS)
        }

    return Fits(together(elo), together(counted), together(measured), alone(counted),
                alone(measured))  # fmt: skip


def _logs(runs: Sequence[GridRun]) -> Floats:
    """Return float64[runs, 4]: log2 of all levels."""
    return np.array([[math.log2(level) for level in run.levels] for run in runs])


def _log_counted(grid: Grid, runs: Sequence[GridRun]) -> Floats:
    return np.array([math.log2(grid.counted_seconds(run)) for run in runs])


def _log_measured(runs: Sequence[GridRun]) -> Floats:
    return np.array([math.log2(run.seconds) for run in runs])


def _constants(grid: Grid) -> tuple[Floats, list[str]]:
    """Return indicators of all tournaments but the first, and their names.

    The indicators are float64[runs, tournaments - 1], 1 where a run has played in the tournament.
    """
    names = [runs[0].tournament for runs in grid.by_tournament][1:]
    columns = [[float(run.tournament == name) for name in names] for run in grid.runs]
    return np.array(columns).reshape(len(grid.runs), len(names)), names


def lead(grid: Grid, symbol: str) -> BootstrapEstimate | Missing:
    """Return c of I minus that of another hyper-parameter, by counted work.

    The interval is over runs: the bootstrap draws runs within their tournament and repeats both
    fits.
    """
    columns = [
        np.column_stack([_logs(runs), _log_counted(grid, runs), [run.elo for run in runs]]).tolist()
        for runs in grid.by_tournament
    ]
    place = SYMBOLS.index(symbol)

    def difference(*groups: Sequence[Sequence[float]]) -> float:
        rows = np.concatenate([_centred(np.array(group)) for group in groups])
        return _at_equal_time(rows, SYMBOLS.index(OUTER)) - _at_equal_time(rows, place)

    try:
        return bootstrap(*columns, statistic=difference)
    except ValueError:
        return Missing("too few runs to tell hyper-parameters from time")


def _centred(rows: Floats) -> Floats:
    """Subtract the means of a tournament, as its constant does in a fit."""
    centred: Floats = rows - rows.mean(axis=0)
    return centred


def _at_equal_time(rows: Floats, place: int) -> float:
    """Return c of the x in a column; NaN if x and time do not determine it."""
    found, _, rank, _ = np.linalg.lstsq(rows[:, [place, 4]], rows[:, 5], rcond=1e-9)
    return float(found[0]) if rank == 2 else float("nan")


def regression_blocks(grid: Grid) -> Iterator[Block]:
    """Yield the worth of doubling each hyper-parameter, as a figure and a table."""
    yield Heading("Worth of each hyper-parameter")
    yield Paragraph(
        "Linear fits over all runs, in log2 of the hyper-parameters, with a constant for every"
        " tournament. All others equal: Elo by I, E, m and ep together. At equal time: Elo by"
        " one of them and by log2 of the time of training; of runs that took equally long, those"
        f" with more of one thing have less of the others. {_work_words(grid)} Intervals are over"
        " runs, by Student's t."
    )
    found = fit(grid)
    sets = (
        ("all others equal", found.elo),
        ("at equal time, counted", found.equal_work),
        ("at equal time, measured", found.equal_time),
    )
    rows = {
        f"{symbol}, {name}": Row(estimates[symbol].interval) for name, estimates in sets
        for symbol in SYMBOLS
    }  # fmt: skip
    yield Picture(
        "doubling",
        draw_intervals(rows, "Worth of a doubling", "Elo", threshold=0.0,
                       number_format="+.0f"),
        "Levels differ by a factor of at most three, so that a doubling is within the data. The"
        " intervals are made from the distances of runs from the fit, which include the error of"
        " measuring.",
    )  # fmt: skip
    yield _fit_table(found)


def _work_words(grid: Grid) -> str:
    finished = grid.results.runs
    simulation, example, iteration = grid.prices
    return (
        "Counted time is the number of simulations of self-play, of examples learned and of"
        " iterations, each at the price that fits the times of all runs best"
        f" ({1e6 * simulation:.3g} and {1e6 * example:.3g} microseconds and {iteration:.3g}"
        " seconds). Claims rest on it, because the noise of measured times biases coefficients."
        f" Measured times differ from it by a factor of"
        f" {2 ** disagreement(finished, grid.prices):.2f} (one standard deviation)."
    )


def _fit_table(found: Fits) -> Table:
    return Table(
        "doubling-effects",
        "Effect of doubling a hyper-parameter",
        [
            "parameter", Column("Elo, all others equal", "+.0f"),
            Column("doublings of counted time", ".2f"),
            Column("doublings of measured time", ".2f"),
            Column("Elo at equal time, counted", "+.0f"),
            Column("Elo at equal time, measured", "+.0f"),
        ],
        [
            [f"{symbol}, {FACTORS[symbol].title}", *(effects[symbol].interval for effects in found)]
            for symbol in SYMBOLS
        ],
    )  # fmt: skip
