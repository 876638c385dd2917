"""The report on twelve hyper-parameters, one at a time."""

from __future__ import annotations

from zerolab.studies.analyses.hyperparameters.epochs import epoch_blocks
from zerolab.studies.analyses.hyperparameters.hours import hour_blocks
from zerolab.studies.analyses.hyperparameters.importance import importance_blocks
from zerolab.studies.analyses.hyperparameters.strength import strength_blocks
from zerolab.studies.analyses.hyperparameters.sweep_claims import sweep_findings
from zerolab.studies.analyses.hyperparameters.sweep_runs import Sweep, seconds
from zerolab.studies.claims import judge
from zerolab.studies.limits import TIMES, limits
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import (
    Block,
    ClaimTable,
    DataTable,
    Document,
    Heading,
    Paragraph,
)
from zerolab.studies.results import STAGES, Results, TrainedRun, provenance

_WHAT = "which hyper-parameters matter"


def document(results: Results) -> Document:
    """Return the report on whatever is finished."""
    sweep = Sweep(results)
    missing = results.missing()
    blocks: list[Block] = [
        *([Paragraph(f"Not everything is finished: {missing}.")] if missing else []),
        Heading("Findings"),
        ClaimTable(judge(sweep_findings(sweep))),
        *importance_blocks(sweep),
        *strength_blocks(sweep),
        *hour_blocks(sweep),
        *epoch_blocks(sweep),
    ]
    if results.runs:
        blocks += [Heading("Every run"), _every_run(sweep)]
    limited = f"{limits(results.scale, len(results.levels('seed')), _WHAT)} {TIMES}"
    title = "Twelve hyper-parameters, one at a time"
    return Document(title, limited, blocks, provenance(results))


def _every_run(sweep: Sweep) -> DataTable:
    columns = [
        "changed", "seed", "Elo above Random", "its standard error", "last policy loss",
        "last value loss", "last training Elo", "accepted", "positions",
        *(f"{stage} (s)" for stage in STAGES), "total (s)", "run",
    ]  # fmt: skip
    return DataTable("runs", "Every run", columns, [_row(sweep, run) for run in sweep.results])


def _row(sweep: Sweep, run: TrainedRun) -> list[Cell]:
    elo, error = sweep.elos.get(run.planned.label, (None, None))
    last = run.final_losses[-1]
    return [
        run.factors["changed"], run.factors["seed"], elo, error, last["policy"], last["value"],
        run.training_elo[-1], run.accepted, run.positions,
        *(run.seconds[stage] for stage in STAGES), seconds(run), run.planned.key,
    ]  # fmt: skip
