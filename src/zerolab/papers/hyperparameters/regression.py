"""Regression of Elo on hyper-parameters and time, and the Pareto front of Elo and time.

A Pareto front selects the best of many noisy points, so it contains lucky points. A bootstrap
estimates how often each combination is on the front. It replaces the runs of each combination by
their mean plus resampled residuals of all runs, for Elo and log2(time) jointly. The residual of a
run is its deviation from a fit with a constant per combination and per tournament, so it includes
measurement error. If no combination has two runs, all residuals are 0, and the bootstrap adds only
measurement error to Elo.

The regressions are linear fits over runs. Each tournament has its own constant because networks
from different tournaments have not played each other. x is log2 of a hyper-parameter, so
coefficients are per doubling::

    Elo        = tournament constant + sum of b x over I, E, m, ep    (others unchanged)
    log2(time) = tournament constant + sum of a x over I, E, m, ep
    Elo        = tournament constant + c x + d log2(time)             (one x, at equal time)

The coefficient c measures whether, among runs that took equally long, those with a larger value of
one hyper-parameter are stronger. At equal time, these runs have smaller values of the others. A fit
of all four x together with time could not measure this, because time is nearly a linear combination
of the x.

In these fits, time is counted time (see `Grid.counted_seconds`); the Pareto front uses measured
time. Measured times are noisy, which biases d towards 0 and c towards b. The report also shows fits
with measured times, but no claim uses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.hyperparameters.grid import (
    GRID_SYMBOLS,
    INNER,
    OUTER,
    Grid,
    RatedGridRun,
    counted_time_deviation,
    mean_elo_point,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.interval_plots import IntervalRow, draw_intervals
from zerolab.report.table import Column, Table, time_unit
from zerolab.report.xy_plots import pareto_front_indices
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.statistics import (
    SpreadComponents,
    StudentEstimate,
    linear_regression,
)

Floats = NDArray[np.float64]
_BOOTSTRAP_SAMPLES = 2000


class Residuals(NamedTuple):
    """Residuals of a fit with a constant per combination and per tournament."""

    values: Floats
    """Residuals of Elo and log2(time), float64[runs, 2].

    They are scaled so that their mean square is the unbiased variance."""
    degrees_of_freedom: int
    """Degrees of freedom, 0 if no combination has two runs."""


def residuals(grid: Grid) -> Residuals:
    """Fit a constant per combination and per tournament, and return the residuals."""
    y = np.array([[run.elo, math.log2(run.training_seconds)] for run in grid.runs])
    groups = (
        [run.levels for run in grid.runs],
        [run.tournament_key for run in grid.runs],
    )
    x = np.column_stack([
        [float(name == level) for name in names]
        for names in groups for level in dict.fromkeys(names)
    ])  # fmt: skip
    coefficients, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    degrees_of_freedom = len(y) - int(rank)
    values = y - x @ coefficients
    scale = math.sqrt(len(y) / degrees_of_freedom) if degrees_of_freedom else 0.0
    return Residuals(scale * values, degrees_of_freedom)


def elo_spread_between_runs(grid: Grid) -> SpreadComponents | None:
    """Return the spread of Elo between runs of a combination, or None if no run is repeated.

    Common shifts of all runs in a tournament, such as the error of Random's rating, are excluded.
    """
    pooled = residuals(grid)
    if not pooled.degrees_of_freedom:
        return None
    observed = float(np.mean(pooled.values[:, 0] ** 2))
    measured = float(np.mean([run.elo_standard_error**2 for run in grid.runs]))
    return SpreadComponents(
        math.sqrt(observed), math.sqrt(max(0.0, observed - measured)), math.sqrt(measured)
    )


def pareto_front_shares(grid: Grid) -> list[float]:
    """Return the share of bootstrap samples in which each combination is on the Pareto front."""
    combinations = list(grid.runs_by_combination().values())
    pooled, random = residuals(grid), np.random.default_rng(0)
    unit = time_unit([])
    points = [
        mean_elo_point(runs, [run.training_seconds for run in runs], unit) for runs in combinations
    ]
    noise = np.zeros((_BOOTSTRAP_SAMPLES, len(combinations), 2))
    for i, runs in enumerate(combinations):
        if pooled.degrees_of_freedom:
            rows = random.integers(0, len(pooled.values), (_BOOTSTRAP_SAMPLES, len(runs)))
            noise[:, i] = pooled.values[rows].mean(axis=1)
        else:
            noise[:, i, 0] = random.normal(0.0, points[i].standard_error, _BOOTSTRAP_SAMPLES)
    elos = np.array([point.value for point in points]) + noise[..., 0]
    costs = np.array([point.cost for point in points]) * np.exp2(noise[..., 1])
    counts = np.zeros(len(combinations))
    for cost, elo in zip(costs.tolist(), elos.tolist(), strict=True):
        counts[pareto_front_indices(cost, elo)] += 1
    return [float(count) / _BOOTSTRAP_SAMPLES for count in counts]


class GridFits(NamedTuple):
    """Coefficients of all fits, by symbol."""

    elo_coefficients: dict[str, StudentEstimate]
    """Coefficients b: Elo per doubling."""
    counted_time_coefficients: dict[str, StudentEstimate]
    """Coefficients a: doublings of counted time per doubling."""
    measured_time_coefficients: dict[str, StudentEstimate]
    """Coefficients a fitted to measured time."""
    elo_at_equal_counted_time: dict[str, StudentEstimate]
    """Coefficients c: Elo per doubling at equal counted time."""
    elo_at_equal_measured_time: dict[str, StudentEstimate]
    """Coefficients c fitted to measured time."""


def fit_grid(grid: Grid) -> GridFits:
    """Fit all regressions; raise ValueError if the grid has no runs."""
    x = _logs(grid.runs)
    counted = _log_counted(grid, grid.runs)
    measured = np.array([math.log2(run.training_seconds) for run in grid.runs])
    elo = np.array([run.elo for run in grid.runs])
    constants, names = _constants(grid)

    def jointly(y: Floats) -> dict[str, StudentEstimate]:
        return linear_regression(np.column_stack([x, constants]), y, [*GRID_SYMBOLS, *names])

    def one_by_one(time: Floats) -> dict[str, StudentEstimate]:
        return {
            symbol: linear_regression(
                np.column_stack([x[:, i], time, constants]), elo, [symbol, "time", *names]
            )[symbol]
            for i, symbol in enumerate(GRID_SYMBOLS)
        }

    return GridFits(jointly(elo), jointly(counted), jointly(measured), one_by_one(counted),
                one_by_one(measured))  # fmt: skip


def _logs(runs: Sequence[RatedGridRun]) -> Floats:
    """Return log2 of all levels, float64[runs, 4]."""
    return np.array([[math.log2(level) for level in run.levels] for run in runs])


def _log_counted(grid: Grid, runs: Sequence[RatedGridRun]) -> Floats:
    return np.array([math.log2(grid.counted_seconds(run)) for run in runs])


def _constants(grid: Grid) -> tuple[Floats, list[str]]:
    """Return indicators of all tournaments except the first, and their names.

    The indicators are float64[runs, tournaments - 1], with 1 for the tournament of the run.
    """
    names = [runs[0].tournament_key for runs in grid.runs_by_tournament][1:]
    columns = [[float(run.tournament_key == name) for name in names] for run in grid.runs]
    return np.array(columns).reshape(len(grid.runs), len(names)), names


def lead_of_iterations(
    grid: Grid, fits: GridFits, symbol: str
) -> StudentEstimate | MissingEstimate:
    """Return the coefficient c of I minus the coefficient of another hyper-parameter.

    Both coefficients are at equal counted time. Like each of them, their difference is a weighted
    sum of the Elo of all runs.
    """
    at_equal_time = fits.elo_at_equal_counted_time
    if math.isinf(max(at_equal_time[OUTER].standard_error, at_equal_time[symbol].standard_error)):
        return MissingEstimate("too few runs to distinguish hyper-parameters from time")
    x, time = _logs(grid.runs), _log_counted(grid, grid.runs)
    constants = np.column_stack([np.ones(len(x)), _constants(grid)[0]])
    outer, other = (
        np.linalg.pinv(np.column_stack([x[:, GRID_SYMBOLS.index(each)], time, constants]))[0]
        for each in (OUTER, symbol)
    )
    return _sum_of_elos(grid, outer - other)


def elo_change_at_most_epochs(grid: Grid) -> StudentEstimate:
    """Return the Elo with the largest number of epochs minus that with the next smaller number.

    I, E and m have their largest levels.
    """
    middle, most = (
        [_is_largest(grid, run, "I", "E", "m") and run.level("ep") == level for run in grid.runs]
        for level in grid.levels["ep"][-2:]
    )
    return _sum_of_elos(grid, np.array(most) / sum(most) - np.array(middle) / sum(middle))


def elo_in_long_sessions(grid: Grid, symbol: str, other: str) -> StudentEstimate:
    """Return the Elo per doubling of `symbol` with `other` unchanged, at the largest I and E."""
    chosen = np.array([_is_largest(grid, run, "I", "E") for run in grid.runs])
    x = _logs(grid.runs)[:, [GRID_SYMBOLS.index(symbol), GRID_SYMBOLS.index(other)]]
    constants = np.column_stack([np.ones(len(x)), _constants(grid)[0]])
    weights = np.zeros(len(x))
    weights[chosen] = np.linalg.pinv(np.column_stack([x, constants])[chosen])[0]
    return _sum_of_elos(grid, weights)


def elo_per_doubled_work(grid: Grid) -> list[StudentEstimate]:
    """Return the Elo per doubling of self-play simulations and of training examples, in one fit."""
    work = np.log2([[run.work.simulations, run.work.examples] for run in grid.runs])
    constants, names = _constants(grid)
    elo = [run.elo for run in grid.runs]
    kinds = ["simulations", "examples"]
    fit = linear_regression(np.column_stack([work, constants]), elo, [*kinds, *names])
    return [fit[kind] for kind in kinds]


def leads_of_few_epochs(grid: Grid) -> list[StudentEstimate]:
    """Return the mean Elo with each smaller number of epochs minus that with the largest.

    I and E have their largest levels; the mean is over m.
    """
    *fewer, most = (
        np.array([_is_largest(grid, run, "I", "E") and run.level("ep") == level
                  for run in grid.runs])
        for level in grid.levels["ep"]
    )  # fmt: skip
    return [_sum_of_elos(grid, each / each.sum() - most / most.sum()) for each in fewer]


def interaction_of_iterations(grid: Grid) -> StudentEstimate:
    """Return the change in Elo per doubling of I for a doubling of E, m and ep together."""
    x = _logs(grid.runs) - _logs(grid.runs).mean(axis=0)
    product_of_logs = x[:, GRID_SYMBOLS.index(OUTER)] * x[:, 1:].sum(axis=1) / len(INNER)
    constants = np.column_stack([np.ones(len(x)), _constants(grid)[0]])
    return _sum_of_elos(grid, np.linalg.pinv(np.column_stack([product_of_logs, x, constants]))[0])


def lead_at_equal_time(grid: Grid) -> StudentEstimate:
    """Return the Elo lead of runs with the largest I and the smallest m and ep, at equal time."""
    constants = np.column_stack([np.ones(len(grid.runs)), _constants(grid)[0]])
    regressors = [_long_run_indicators(grid, 0), _log_counted(grid, grid.runs), constants]
    return _sum_of_elos(grid, np.linalg.pinv(np.column_stack(regressors))[0])


def lead_over_costly_runs(grid: Grid) -> StudentEstimate:
    """Return the mean Elo with the smallest m and ep minus that with the largest, at the largest I.

    The means are over all E.
    """
    least, most = _long_run_indicators(grid, 0), _long_run_indicators(grid, -1)
    return _sum_of_elos(grid, least / least.sum() - most / most.sum())


def _long_run_indicators(grid: Grid, index: int) -> Floats:
    """Return 1.0 for runs with the largest I and the level `index` of m and ep, else 0.0."""
    return np.array([
        float(_is_largest(grid, run, "I")
              and all(run.level(symbol) == grid.levels[symbol][index] for symbol in ("m", "ep")))
        for run in grid.runs
    ])  # fmt: skip


def leads_of_iterations_and_games(grid: Grid) -> list[StudentEstimate]:
    """Return the Elo per doubling of I and of E minus that of m and of ep, others unchanged."""
    constants = np.column_stack([np.ones(len(grid.runs)), _constants(grid)[0]])
    slopes = np.linalg.pinv(np.column_stack([_logs(grid.runs), constants]))
    return [
        _sum_of_elos(grid, slopes[GRID_SYMBOLS.index(outer)] - slopes[GRID_SYMBOLS.index(inner)])
        for outer in ("I", "E")
        for inner in ("m", "ep")
    ]


def _is_largest(grid: Grid, run: RatedGridRun, *symbols: str) -> bool:
    return all(run.level(symbol) == grid.levels[symbol][-1] for symbol in symbols)


def _sum_of_elos(grid: Grid, weights: Floats) -> StudentEstimate:
    """Return a weighted sum of the Elo of all runs, with float64[runs] `weights`.

    The variation between runs is estimated from the residuals of a fit on the constants and on log2
    of counted time, I, E, m and ep, with squares and products of the last four. The estimate
    includes deviations from this model.
    """
    x = _logs(grid.runs)
    products = [x[:, i] * x[:, j] for i in range(len(GRID_SYMBOLS)) for j in range(i + 1)]
    regressors = np.column_stack([
        np.ones(len(x)), x, *products, _log_counted(grid, grid.runs), _constants(grid)[0]
    ])  # fmt: skip
    elo = np.array([run.elo for run in grid.runs])
    coefficients, _, rank, _ = np.linalg.lstsq(regressors, elo, rcond=None)
    degrees_of_freedom = len(elo) - int(rank)
    deviation = float(np.linalg.norm(elo - regressors @ coefficients))
    error = deviation / math.sqrt(degrees_of_freedom) if degrees_of_freedom else math.inf
    return StudentEstimate(
        float(weights @ elo), error * float(np.linalg.norm(weights)), degrees_of_freedom
    )


def regression_section(grid: Grid) -> Iterator[Block]:
    """Yield the figure and the table on the value of doubling each hyper-parameter."""
    yield Heading("Value of each hyper-parameter")
    yield Paragraph(
        "Linear fits over all runs, with log2 of the hyper-parameters as regressors and a constant"
        ' per tournament. "All others equal" fits Elo on I, E, m and ep jointly. "At equal time"'
        " fits Elo on one of them and on log2 of training time. Among runs that took equally long,"
        " those with a larger value of one hyper-parameter have smaller values of the others."
        f" {_work_note(grid)} Intervals are Student's t intervals over runs."
    )
    fits = fit_grid(grid)
    sets = (
        ("all others equal", fits.elo_coefficients),
        ("at equal time, counted", fits.elo_at_equal_counted_time),
        ("at equal time, measured", fits.elo_at_equal_measured_time),
    )
    rows = {
        f"{symbol}, {name}": IntervalRow(estimates[symbol].interval) for name, estimates in sets
        for symbol in GRID_SYMBOLS
    }  # fmt: skip
    yield Picture(
        "doubling",
        draw_intervals(rows, "Value of a doubling", "Elo", threshold=0.0,
                       number_format="+.0f"),
        "Levels differ by up to a factor of three, so a doubling is within the range of the data."
        " Intervals are computed from the residuals of the fit, which include measurement error.",
    )  # fmt: skip
    yield _fit_table(fits)


def _work_note(grid: Grid) -> str:
    simulation, example, iteration = grid.unit_costs
    return (
        "Counted time is the sum of the numbers of self-play simulations, training examples and"
        " iterations, each multiplied by a unit cost fitted to the times of all runs"
        f" ({1e6 * simulation:.3g} microseconds, {1e6 * example:.3g} microseconds and"
        f" {iteration:.3g} seconds). Claims use counted time because noise in measured times biases"
        " the coefficients. Measured times differ from counted times by a factor of"
        f" {2 ** counted_time_deviation(grid.results.runs, grid.unit_costs):.2f} (one standard"
        " deviation)."
    )


def _fit_table(fits: GridFits) -> Table:
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
            [
                f"{symbol}, {HYPERPARAMETERS[symbol].title}",
                *(effects[symbol].interval for effects in fits),
            ]
            for symbol in GRID_SYMBOLS
        ],
    )  # fmt: skip
