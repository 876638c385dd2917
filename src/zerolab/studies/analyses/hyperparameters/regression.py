"""What iterations and what is done within them are worth, alone and at equal time.

Three linear fits over runs, with a constant of its own for every seed, since only networks of one
seed have met. x is log2 of a hyper-parameter, so that coefficients are per doubling::

    Elo        = constant of the seed + sum of b x over I, E, m, ep         all others equal
    log2(time) = constant of the seed + sum of a x over I, E, m, ep
    Elo        = constant of the seed + c x + d log2(time)                  one x alone: equal time

c says whether, of runs that took equally long, those with more of one thing are stronger. As the
time is equal, they have less of the others. A fit of all four x and of time together would not
tell: time is nearly the sum of the a x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.studies.analyses.hyperparameters.grid import INNER, OUTER, SYMBOLS, Grid, GridRun
from zerolab.studies.analyses.hyperparameters.values import FACTORS
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
    "Elo per doubling of {0} at equal time, from a fit over all runs with log2(time) and a constant"
    " per seed"
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
        f"Elo per doubling of {OUTER} less that of {symbol}, both at equal time",
        0.0,
        "above",
    )
    for symbol in INNER
}
INNER_CLAIMS = {
    symbol: Claim(
        f"{symbol}-at-equal-time",
        f"More {FACTORS[symbol].title} alone are not optimal: at equal time, more of them give"
        " weaker players.",
        _SOURCE,
        _EQUAL_TIME.format(symbol),
        0.0,
        "below",
    )
    for symbol in INNER
}


class Fits(NamedTuple):
    """The coefficients of the three fits, by symbol."""

    elo: dict[str, StudentEstimate]
    """b, Elo per doubling."""
    time: dict[str, StudentEstimate]
    """a: doublings of time per doubling."""
    equal_time: dict[str, StudentEstimate]
    """c, Elo per doubling."""


def fit(grid: Grid) -> Fits:
    """Fit all three models; raise ValueError without runs."""
    x = _logs(grid.runs)
    time = _log_times(grid.runs)
    elo = [run.elo for run in grid.runs]
    seeds, names = _seed_columns(grid)
    alone = {
        symbol: linear_regression(
            np.column_stack([x[:, i], time, seeds]), elo, [symbol, "time", *names]
        )[symbol]
        for i, symbol in enumerate(SYMBOLS)
    }
    together = np.column_stack([x, seeds])
    return Fits(
        linear_regression(together, elo, [*SYMBOLS, *names]),
        linear_regression(together, time, [*SYMBOLS, *names]),
        alone,
    )


def _logs(runs: Sequence[GridRun]) -> Floats:
    """Return float64[runs, 4]: log2 of all levels."""
    return np.array([[math.log2(level) for level in run.levels] for run in runs])


def _log_times(runs: Sequence[GridRun]) -> Floats:
    return np.array([math.log2(run.seconds) for run in runs])


def _seed_columns(grid: Grid) -> tuple[Floats, list[str]]:
    """Return float64[runs, seeds - 1], 1 where a run has that seed, and names of the columns."""
    seeds = [runs[0].seed for runs in grid.by_seed][1:]
    columns = [[float(run.seed == seed) for seed in seeds] for run in grid.runs]
    return np.array(columns).reshape(len(grid.runs), len(seeds)), [f"seed {s}" for s in seeds]


def lead(grid: Grid, symbol: str) -> BootstrapEstimate | Missing:
    """Return c of I less that of another hyper-parameter, with an interval over runs.

    Runs are drawn anew within their seed, and both fits made again.
    """
    columns = [
        np.column_stack([_logs(runs), _log_times(runs), [run.elo for run in runs]]).tolist()
        for runs in grid.by_seed
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
    """Subtract the means of a seed, which is what its constant does to a fit."""
    centred: Floats = rows - rows.mean(axis=0)
    return centred


def _at_equal_time(rows: Floats, place: int) -> float:
    """Return c of the x in a column; NaN where x and time do not determine it."""
    found, _, rank, _ = np.linalg.lstsq(rows[:, [place, 4]], rows[:, 5], rcond=1e-9)
    return float(found[0]) if rank == 2 else float("nan")


def grid_findings(grid: Grid) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    claims = [MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values(), *INNER_CLAIMS.values()]
    missing = grid.results.missing()
    if missing or not grid.runs:
        return dict.fromkeys(claims, Missing(missing or "nothing is planned"))
    found = fit(grid)
    return {
        MORE_CLAIM: found.elo[OUTER],
        OUTER_CLAIM: found.equal_time[OUTER],
        **{claim: lead(grid, symbol) for symbol, claim in LEAD_CLAIMS.items()},
        **{claim: found.equal_time[symbol] for symbol, claim in INNER_CLAIMS.items()},
    }


def regression_blocks(grid: Grid) -> Iterator[Block]:
    """Yield what a doubling of each hyper-parameter is worth, as a figure and a table."""
    yield Heading("What more of each is worth")
    yield Paragraph(
        "Linear fits over all runs, in log2 of the hyper-parameters, with a constant of its own for"
        " every seed. All others equal: Elo by I, E, m and ep together. At equal time: Elo by one"
        " of them and by log2 of the time of training; of runs that took equally long, those with"
        " more of one thing have less of the others. Intervals are over runs, by Student's t."
    )
    found = fit(grid)
    rows = {f"{symbol}, all others equal": Row(found.elo[symbol]) for symbol in SYMBOLS}
    rows |= {f"{symbol}, at equal time": Row(found.equal_time[symbol]) for symbol in SYMBOLS}
    yield Picture(
        "doubling",
        draw_intervals(rows, "What a doubling is worth", "Elo", threshold=0.0,
                       number_format="+.0f"),
        "Levels differ by a factor of at most three, so that a doubling is within the data.",
    )  # fmt: skip
    yield DataTable(
        "doubling-effects",
        "Effect of doubling a hyper-parameter",
        [
            "parameter", Column("Elo, all others equal", "+.0f"),
            Column("doublings of time", ".2f"), Column("Elo at equal time", "+.0f"),
        ],
        [
            [f"{symbol}, {FACTORS[symbol].title}", found.elo[symbol], found.time[symbol],
             found.equal_time[symbol]]
            for symbol in SYMBOLS
        ],
    )  # fmt: skip
