"""What iterations and what is done within them are worth, alone and at equal time.

Linear fits over runs, with a constant of its own for every tournament, since only networks of one
tournament have met. x is log2 of a hyper-parameter, so that coefficients are per doubling::

    Elo        = constant of the tournament + sum of b x over I, E, m, ep    all others equal
    log2(time) = constant of the tournament + sum of a x over I, E, m, ep
    Elo        = constant of the tournament + c x + d log2(time)     one x alone: at equal time

c says whether, of runs that took equally long, those with more of one thing are stronger. As the
time is equal, they have less of the others. A fit of all four x and of time together would not
tell: time is nearly the sum of the a x.

Time is that of counted work, see `work`: measured times are noisy, which pulls d towards 0 and c
towards b. Fits with measured times stand beside, no claim rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.studies.analyses.hyperparameters.grid import INNER, OUTER, SYMBOLS, Grid, GridRun
from zerolab.studies.analyses.hyperparameters.values import FACTORS
from zerolab.studies.analyses.hyperparameters.work import disagreement
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.panels.intervals import Row, draw_intervals
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.statistics import (
    BootstrapEstimate,
    Estimate,
    StudentEstimate,
    bootstrap,
    linear_regression,
)

Floats = NDArray[np.float64]

_SOURCE = "[Wang2020a, abstract]"
_EQUAL_TIME = (
    "Elo per doubling of {0} at equal time, from a fit over all runs with log2 of the time of"
    " counted work and a constant per tournament"
)

MORE_CLAIM = Claim(
    "more-iterations",
    "More iterations give stronger players.",
    _SOURCE,
    "Elo per doubling of I, all others equal, from a fit over all runs with E, m and ep",
    0.0,
    "above",
)
OUTER_CLAIM = Claim(
    "iterations-at-equal-time",
    "Time is well spent on iterations: at equal time, more of them give stronger players.",
    _SOURCE,
    _EQUAL_TIME.format(OUTER),
    0.0,
    "above",
)
LEAD_CLAIMS = {
    symbol: Claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {FACTORS[symbol].title}: at equal time, more iterations are worth more"
        f" than more {FACTORS[symbol].title}.",
        _SOURCE,
        f"Elo per doubling of {OUTER} less that of {symbol}, both at equal time by counted work",
        0.0,
        "above",
    )
    for symbol in INNER
}


class Fits(NamedTuple):
    """The coefficients of all fits, by symbol."""

    elo: dict[str, StudentEstimate]
    """b, Elo per doubling."""
    work: dict[str, StudentEstimate]
    """a: doublings of the time of counted work per doubling."""
    time: dict[str, StudentEstimate]
    """The same of measured time."""
    equal_work: dict[str, StudentEstimate]
    """c, Elo per doubling, where the time of counted work is equal."""
    equal_time: dict[str, StudentEstimate]
    """The same where measured time is equal."""


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
    """Return float64[runs, tournaments - 1], 1 where a run has played in one, and their names."""
    names = [runs[0].tournament for runs in grid.by_tournament][1:]
    columns = [[float(run.tournament == name) for name in names] for run in grid.runs]
    return np.array(columns).reshape(len(grid.runs), len(names)), names


def lead(grid: Grid, symbol: str) -> BootstrapEstimate | Missing:
    """Return c of I less that of another hyper-parameter, with an interval over runs.

    By counted work. Runs are drawn anew within their tournament, and both fits made again.
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
    """Subtract the means of a tournament, which is what its constant does to a fit."""
    centred: Floats = rows - rows.mean(axis=0)
    return centred


def _at_equal_time(rows: Floats, place: int) -> float:
    """Return c of the x in a column; NaN where x and time do not determine it."""
    found, _, rank, _ = np.linalg.lstsq(rows[:, [place, 4]], rows[:, 5], rcond=1e-9)
    return float(found[0]) if rank == 2 else float("nan")


def grid_findings(grid: Grid) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    claims = [MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values()]
    missing = grid.results.missing()
    if missing or not grid.runs:
        return dict.fromkeys(claims, Missing(missing or "nothing is planned"))
    found = fit(grid)
    return {
        MORE_CLAIM: found.elo[OUTER],
        OUTER_CLAIM: found.equal_work[OUTER],
        **{claim: lead(grid, symbol) for symbol, claim in LEAD_CLAIMS.items()},
    }


def regression_blocks(grid: Grid) -> Iterator[Block]:
    """Yield what a doubling of each hyper-parameter is worth, as a figure and a table."""
    yield Heading("What more of each is worth")
    yield Paragraph(
        "Linear fits over all runs, in log2 of the hyper-parameters, with a constant of its own for"
        " every tournament. All others equal: Elo by I, E, m and ep together. At equal time: Elo by"
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
        f"{symbol}, {name}": Row(estimates[symbol]) for name, estimates in sets
        for symbol in SYMBOLS
    }  # fmt: skip
    yield Picture(
        "doubling",
        draw_intervals(rows, "What a doubling is worth", "Elo", threshold=0.0,
                       number_format="+.0f"),
        "Levels differ by a factor of at most three, so that a doubling is within the data. No"
        " error of measuring stands beside: how far runs lie from the fit, from which the intervals"
        " are made, has the error of their Elo in it.",
    )  # fmt: skip
    yield _table(found)


def _work_words(grid: Grid) -> str:
    finished = grid.results.runs
    simulation, sample, iteration = grid.prices
    return (
        "Counted time is the number of simulations of self-play, of examples learned and of"
        " iterations, each at the price that fits the times of all runs best"
        f" ({1e6 * simulation:.3g} and {1e6 * sample:.3g} microseconds and {iteration:.3g}"
        " seconds); claims rest on it, as the noise of measured times pulls coefficients away from"
        " where they belong. Measured"
        f" times differ from it by a factor of {2 ** disagreement(finished, grid.prices):.2f} (one"
        " standard deviation)."
    )


def _table(found: Fits) -> DataTable:
    return DataTable(
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
            [f"{symbol}, {FACTORS[symbol].title}", found.elo[symbol], found.work[symbol],
             found.time[symbol], found.equal_work[symbol], found.equal_time[symbol]]
            for symbol in SYMBOLS
        ],
    )  # fmt: skip
