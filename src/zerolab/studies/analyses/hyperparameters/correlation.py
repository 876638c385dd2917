"""The report on four hyper-parameters together."""

from __future__ import annotations

from zerolab.studies.analyses.hyperparameters.grid import SYMBOLS, Grid, read_grid
from zerolab.studies.analyses.hyperparameters.grid_figures import ANCHOR, heat_blocks, time_blocks
from zerolab.studies.analyses.hyperparameters.regression import grid_findings, regression_blocks
from zerolab.studies.analyses.hyperparameters.strength import pooled_spread
from zerolab.studies.claims import judge
from zerolab.studies.limits import TIMES, limits
from zerolab.studies.panels.samples import Sample
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
from zerolab.studies.statistics import pareto_front

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
    limited = f"{limits(results.scale, len(results.levels('seed')), _WHAT)} {TIMES}"
    title = "Iterations, games, simulations and epochs together"
    return Document(title, limited, blocks, provenance(results))


def _spread_words(grid: Grid) -> str:
    centred = [
        Sample([run.elo for run in runs], [run.error for run in runs])
        for runs in grid.combinations().values()
    ]
    found = pooled_spread(centred)
    if found is None:
        return (
            "Every combination has one run: how far two runs of one combination differ is not"
            " known. A fit over all of them averages over it, a single cell does not."
        )
    return (
        f"{ANCHOR} Runs of one combination differ by a standard deviation of"
        f" {found.observed:.0f} Elo; {cell_text(found.explained, '.0%')} of that variance is error"
        f" of measuring ({found.measurement:.0f} Elo a run). The error of Random's own rating"
        " shifts all networks of a seed alike and is part of the rest; fits have a constant per"
        " seed for it."
    )


def _every_run(grid: Grid) -> DataTable:
    elos = {run.run.planned.key: run for run in grid.runs}
    front = {
        each.run.planned.key
        for runs in grid.by_seed
        for each in (runs[i] for i in pareto_front(
            [run.seconds for run in runs], [run.elo for run in runs]
        ))
    }  # fmt: skip
    rows: list[list[Cell]] = []
    for run in grid.results.runs:
        key = run.planned.key
        known = elos.get(key)
        on_front = None if known is None else "yes" if key in front else "no"
        rows.append([*_facts(run), known and known.elo, known and known.error, on_front, key])
    columns = [
        "seed", *SYMBOLS, "self-play (s)", "learning (s)", "total (s)", "positions",
        "last policy loss", "last value loss", "Elo above Random", "its standard error",
        "on the front of its seed", "run",
    ]  # fmt: skip
    return DataTable("runs", "Every run", columns, rows)


def _facts(run: TrainedRun) -> list[Cell]:
    levels = [int(run.factors[symbol]) for symbol in SYMBOLS]
    last = run.final_losses[-1]
    return [
        run.factors["seed"], *levels, run.seconds["selfplay"],
        run.seconds["learn"], run.total_seconds, run.positions, last["policy"], last["value"],
    ]  # fmt: skip
