"""Report on the grid: heat maps of Elo, and Elo against time [Wang2020a, Figs 4 to 6]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from zerolab.papers.hyperparameters.findings import grid_findings
from zerolab.papers.hyperparameters.grid import (
    OUTER,
    SYMBOLS,
    Grid,
    GridRun,
    mean_point,
    read_grid,
    time_unit,
    work,
)
from zerolab.papers.hyperparameters.regression import (
    front_table,
    regression_blocks,
    run_spread,
)
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import Cell, cell_text
from zerolab.report.table import Table
from zerolab.report.xy_plots import Heat, Point, draw_heat, draw_scatter
from zerolab.studies.claims import judge
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.study import TIMES_CAVEAT, scale_caveats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Cost = Callable[[GridRun], float]
"""Seconds of a run."""

ANCHOR = "Elo is above Random's, which is 0 in every tournament: only networks of one seed met."
_LUCK = "A front picks the best of many noisy points: some are there by luck; it lies too high."


def heat_blocks(grid: Grid) -> Iterator[Block]:
    """Yield maps of Elo over simulations and epochs, one per I and E."""
    yield Heading("Elo of all combinations")
    outer, games = grid.levels["I"], grid.levels["E"]
    maps = {f"I = {i}, E = {e}": _map(grid, i, e) for i, e in product(outer, games)}
    yield Picture(
        "elo",
        draw_heat(
            maps, "Elo of final networks above Random's", "m, simulations", "ep, epochs", "Elo",
            columns=len(games),
        ),
        f"A map for every number of iterations (I, down) and of games of an iteration (E, across)."
        f" {ANCHOR} {_scale_words(grid)} {search_words(grid)} The standard deviation between runs"
        " includes that of Random's rating between tournaments. As Fig. 4 of [Wang2020a].",
    )  # fmt: skip


def search_words(grid: Grid) -> str:
    """Describe the search of networks in tournaments."""
    found = ", ".join(dict.fromkeys(each.options for each in grid.results.design.tournaments))
    return (
        f"In tournaments all networks search alike ({found}), independently of the m of their"
        " training: the effect of m is its effect on learning."
    )


def _scale_words(grid: Grid) -> str:
    low, high = f"{grid.scales[0]:.3f}", f"{grid.scales[-1]:.3f}"
    return (
        "It is on the model's own scale, the same in all tournaments; BayesElo would multiply it by"
        f" {low}" + (f" to {high}, by tournament." if high != low else ".")
    )


def _map(grid: Grid, i: int, e: int) -> Heat:
    rows, columns = grid.levels["m"], grid.levels["ep"]
    values, spread, errors = (np.full((len(rows), len(columns)), np.nan) for _ in range(3))
    for (row, m), (column, ep) in product(enumerate(rows), enumerate(columns)):
        runs = grid.at(I=i, E=e, m=m, ep=ep)
        if runs:
            values[row, column] = fmean(run.elo for run in runs)
            errors[row, column] = fmean(run.error for run in runs)
        if len(runs) > 1:
            spread[row, column] = stdev(run.elo for run in runs)
    repeated = len(grid.by_tournament) > 1
    return Heat([*map(str, rows)], [*map(str, columns)], values, spread if repeated else None,
                errors)  # fmt: skip


def time_blocks(grid: Grid) -> Iterator[Block]:
    """Yield Elo against the time of self-play, of learning, and of both."""
    yield Heading("Elo against time")
    for name, title, stage in (
        ("elo-selfplay-time", "Elo against the time of self-play", "selfplay"),
        ("elo-learning-time", "Elo against the time of learning", "learn"),
    ):
        yield Picture(
            name,
            _scatter(grid.combinations().values(), OUTER, title, _stage(stage)),
            f"A point is a combination of I, E, m and ep. {ANCHOR} {_LUCK} As Fig. 5 of"
            " [Wang2020a].",
        )
    most = {symbol: grid.levels[symbol][-1] for symbol in ("I", "E")}
    chosen = [runs for runs in grid.combinations().values() if _has(runs[0], most)]
    if chosen:
        named = " and ".join(f"{symbol} = {level}" for symbol, level in most.items())
        yield Picture(
            "front-most",
            _scatter(chosen, "m", f"Elo against time with {named}", _total),
            f"All combinations of m and ep with the most iterations and games. {ANCHOR} {_LUCK} As"
            " Fig. 6 of [Wang2020a].",
        )
    yield Picture(
        "front",
        _scatter(grid.combinations().values(), OUTER, "Elo against time", _total),
        f"All combinations, by their means. {ANCHOR} {_LUCK} The table below shows how often each"
        " combination is on it.",
    )
    yield Paragraph(_drawn_words(grid))
    yield front_table(grid)


def _drawn_words(grid: Grid) -> str:
    repeated = run_spread(grid) is not None
    drawn = (
        "every mean gets residuals of Elo and time drawn from those of all runs, which include both"
        " the difference between runs and the error of measuring"
        if repeated
        else "every Elo gets its error of measuring; one run per combination does not show how far"
        " runs differ, so these shares are overconfident"
    )
    return (
        "Share of draws: the share of bootstrap draws in which a combination is on the front of Elo"
        f" and total time; in a draw, {drawn}. Where the share is well between 0 and 1, chance"
        " decided whether the combination is on the front as drawn."
    )


def _stage(name: str) -> Cost:
    return lambda run: run.run.seconds[name]


def _total(run: GridRun) -> float:
    return run.seconds


def _has(run: GridRun, levels: Mapping[str, int]) -> bool:
    return all(run.level(symbol) == level for symbol, level in levels.items())


def _scatter(
    combinations: Iterable[Sequence[GridRun]], symbol: str, title: str, cost: Cost
) -> Figure:
    """Draw the means of combinations, coloured by the level of one factor."""
    combinations = list(combinations)
    unit = time_unit(cost(run) for runs in combinations for run in runs)
    series: dict[str, list[Point]] = {}
    for runs in sorted(combinations, key=lambda runs: runs[0].level(symbol)):
        name = f"{symbol} = {runs[0].level(symbol)}"
        series.setdefault(name, []).append(mean_point(runs, [*map(cost, runs)], unit))
    return draw_scatter(series, title, f"time ({unit.name})", "Elo, Random = 0")


_WHAT = "whether time is better spent on iterations than on the work within them"


def correlation_report(results: Results) -> Document:
    """Return the report on the finished work."""
    grid = read_grid(results)
    missing = results.missing()
    blocks: list[Block] = [
        *([Paragraph(f"Not everything is finished: {missing}.")] if missing else []),
        Heading("Findings"),
        ClaimTable(judge(grid_findings(grid))),
    ]
    if grid.runs:
        blocks += [*regression_blocks(grid), *heat_blocks(grid), Paragraph(_spread_words(grid))]
        blocks += time_blocks(grid)
    else:
        blocks.append(Paragraph("No tournament of a seed is finished: there is no Elo yet."))
    if results.runs:
        blocks += [Heading("Every run"), _every_run(grid)]
    scale = scale_caveats(results.scale, len(results.levels("seed")), _WHAT)
    limited = f"{scale} {search_words(grid)} {TIMES_CAVEAT}"
    title = "Iterations, games, simulations and epochs together"
    return Document(title, limited, blocks, provenance(results))


def _spread_words(grid: Grid) -> str:
    found = run_spread(grid)
    if found is None:
        return (
            "Every combination has one run, so the spread between runs of one combination is not"
            " known. A fit over all of them averages over it; a single cell does not."
        )
    return (
        f"{ANCHOR} Runs of one combination differ by a standard deviation of"
        f" {found.observed:.0f} Elo. This leaves out shifts of all networks of a tournament, such"
        " as the error of Random's own rating, for which fits have a constant."
        f" {cell_text(found.explained, '.0%')} of that variance is error of measuring"
        f" ({found.measurement:.0f} Elo a run)."
    )


def _every_run(grid: Grid) -> Table:
    elos = {run.run.planned.key: run for run in grid.runs}
    rows: list[list[Cell]] = []
    for run in grid.results.runs:
        key = run.planned.key
        known = elos.get(key)
        rows.append([*_facts(run), known and known.elo, known and known.error, key])
    columns = [
        "seed", *SYMBOLS, "self-play (s)", "learning (s)", "total (s)",
        "simulations", "examples seen", "positions", "last policy loss", "last value loss",
        "Elo above Random", "its standard error", "run",
    ]  # fmt: skip
    return Table("runs", "Every run", columns, rows)


def _facts(run: TrainedRun) -> list[Cell]:
    levels = [int(run.factors[symbol]) for symbol in SYMBOLS]
    last, done = run.final_losses[-1], work(run)
    return [
        run.factors["seed"], *levels, run.seconds["selfplay"],
        run.seconds["learn"], run.total_seconds, done.simulations, done.examples, run.positions,
        last["policy"], last["value"],
    ]  # fmt: skip
