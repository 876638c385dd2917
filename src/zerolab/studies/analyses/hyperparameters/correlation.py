"""The report on four hyper-parameters together."""

from __future__ import annotations

from zerolab.studies.analyses.hyperparameters.fronts import run_spread
from zerolab.studies.analyses.hyperparameters.grid import SYMBOLS, Grid, read_grid
from zerolab.studies.analyses.hyperparameters.grid_figures import (
    ANCHOR,
    heat_blocks,
    search_words,
    time_blocks,
)
from zerolab.studies.analyses.hyperparameters.regression import grid_findings, regression_blocks
from zerolab.studies.analyses.hyperparameters.work import work
from zerolab.studies.claims import judge
from zerolab.studies.limits import TIMES, limits
from zerolab.studies.report.cells import Cell, cell_text
from zerolab.studies.report.document import (
    Block,
    ClaimTable,
    DataTable,
    Document,
    Heading,
    Paragraph,
)
from zerolab.studies.results import Results, TrainedRun, provenance

_WHAT = "whether time is better spent on iterations than on what is done within them"


def document(results: Results) -> Document:
    """Return the report on whatever is finished."""
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
    scale = limits(results.scale, len(results.levels("seed")), _WHAT)
    limited = f"{scale} {search_words(grid)} {TIMES}"
    title = "Iterations, games, simulations and epochs together"
    return Document(title, limited, blocks, provenance(results))


def _spread_words(grid: Grid) -> str:
    found = run_spread(grid)
    if found is None:
        return (
            "Every combination has one run: how far two runs of one combination differ is not"
            " known. A fit over all of them averages over it, a single cell does not."
        )
    return (
        f"{ANCHOR} Runs of one combination differ by a standard deviation of"
        f" {found.observed:.0f} Elo, besides what shifts all networks of a tournament alike, such"
        " as the error of Random's own rating, for which fits have a constant."
        f" {cell_text(found.explained, '.0%')} of that variance is error of measuring"
        f" ({found.measurement:.0f} Elo a run)."
    )


def _every_run(grid: Grid) -> DataTable:
    elos = {run.run.planned.key: run for run in grid.runs}
    rows: list[list[Cell]] = []
    for run in grid.results.runs:
        key = run.planned.key
        known = elos.get(key)
        rows.append([*_facts(run), known and known.elo, known and known.error, key])
    columns = [
        "seed", *SYMBOLS, "self-play (s)", "learning (s)", "total (s)",
        "simulations", "samples", "positions", "last policy loss", "last value loss",
        "Elo above Random", "its standard error", "run",
    ]  # fmt: skip
    return DataTable("runs", "Every run", columns, rows)


def _facts(run: TrainedRun) -> list[Cell]:
    levels = [int(run.factors[symbol]) for symbol in SYMBOLS]
    last, done = run.final_losses[-1], work(run)
    return [
        run.factors["seed"], *levels, run.seconds["selfplay"],
        run.seconds["learn"], run.total_seconds, done.simulations, done.samples, run.positions,
        last["policy"], last["value"],
    ]  # fmt: skip
