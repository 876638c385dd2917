"""Report on the sweep: importance, strength, hours, losses by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from zerolab.papers.elo import elo_table
from zerolab.papers.hyperparameters.effects import hour_blocks, importance_blocks
from zerolab.papers.hyperparameters.findings import sweep_findings
from zerolab.papers.hyperparameters.study import DEFAULT
from zerolab.papers.hyperparameters.sweep_runs import PLACES, Setting, Sweep, seconds
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval import Cell, cell_text
from zerolab.report.interval_plots import draw_bars
from zerolab.report.table import Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import judge
from zerolab.studies.results import STAGES, Results, TrainedRun, provenance
from zerolab.studies.statistics import Spread
from zerolab.studies.study import TIMES_CAVEAT, scale_caveats

_LOSSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "losses": ("Loss of policy and value together", ("policy", "value")),
    "losses-policy": ("Loss of the policy", ("policy",)),
    "losses-value": ("Loss of the value", ("value",)),
}
"""Titles and terms by name of the picture."""


def epoch_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield one picture per loss, with a panel per hyper-parameter and a line per value."""
    yield Heading("Losses of every epoch")
    if not sweep.results.where():
        yield Paragraph(f"No run is finished: {sweep.results.missing()}.")
        return
    for name, (title, terms) in _LOSSES.items():
        panels = {
            _loss_heading(settings): {
                **dict.fromkeys(PLACES, Curve([], [])),  # keeps colours the same
                **{
                    PLACES[each.place]: loss_curve(each.runs, terms)
                    for each in settings
                    if each.runs
                },
            }
            for settings in sweep.by_symbol.values()
        }
        yield Picture(
            name,
            draw_curves(panels, title, "iteration", "loss", columns=3),
            "One point per epoch: those of iteration i lie between i - 1 and i. The title of a"
            " panel is its hyper-parameter with its least, default and greatest value; all other"
            " parameters are at their defaults. The runs of each value have separate random"
            " streams, so lines differ by chance from the start; those with all defaults are the"
            " same in all panels. As Figs 2 and 3 of [Wang2020a].",
        )


def _loss_heading(settings: Sequence[Setting]) -> str:
    return f"{settings[0].symbol} = {', '.join(f'{each.value:g}' for each in settings)}"


def loss_curve(runs: Sequence[TrainedRun], terms: Sequence[str]) -> Curve:
    """Return the sum of some losses after every epoch, with the iteration as x.

    A run that learned less, such as one with iterations without examples, ends early.
    """
    longest = max((run.epoch_losses for run in runs), key=lambda losses: sum(map(len, losses)))
    x = [
        iteration + (epoch + 1) / len(losses)
        for iteration, losses in enumerate(longest)
        for epoch in range(len(losses))
    ]
    every = [
        [sum(losses[term] for term in terms) for epochs in run.epoch_losses for losses in epochs]
        for run in runs
    ]
    return Curve(x, [[*each, *[float("nan")] * (len(x) - len(each))] for each in every])


def strength_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the figure and the table of Elo, and the spread between runs of one setting."""
    yield Heading("Strength")
    if sweep.tournament is None:
        yield Paragraph(f"The tournament is not finished: {sweep.results.missing()}.")
        return
    if not sweep.default or not any(each.runs for each in sweep.others):
        yield Paragraph(f"Too few runs are finished: {sweep.results.missing()}.")
        return
    groups = {
        symbol: {
            **dict.fromkeys(PLACES, Sample([])),  # keeps colours the same
            **{PLACES[each.place]: sweep.elo_sample(each.runs) for each in settings},
        }
        for symbol, settings in sweep.by_symbol.items()
    }
    yield Picture(
        "elo",
        draw_bars(groups, "Elo of final networks above Random's", "Elo, Random = 0"),
        "One tournament of all final networks and Random. Every network searches with the default"
        " number of simulations and the default c, so the difference is in what was learned. The"
        " runs with all defaults are the same in all groups.",
    )
    shown = {"": {DEFAULT: sweep.elo_sample(sweep.default)}}
    shown |= {
        symbol: {
            f"{each.value:g}": sweep.elo_sample(each.runs)
            for each in settings
            if each.place != 1 and each.runs
        }
        for symbol, settings in sweep.by_symbol.items()
    }
    yield elo_table("elo-by-setting", "Elo above Random's by setting", shown, "parameter", "value")
    yield Paragraph(_spread_words([each for group in shown.values() for each in group.values()]))


def pooled_spread(samples: Sequence[Sample]) -> Spread | None:
    """Return the spread between runs of one setting, pooled; None if no setting has two runs.

    By the method of moments, like `spread`, from the deviations of runs from the mean of their
    setting.
    """
    repeated = [sample for sample in samples if len(sample.values) > 1]
    freedom = sum(len(sample.values) - 1 for sample in repeated)
    if not freedom:
        return None
    squares = sum(float(np.var(sample.values) * len(sample.values)) for sample in repeated)
    errors = [error**2 for sample in repeated for error in sample.errors]
    observed, measured = squares / freedom, float(np.mean(errors))
    return Spread(
        math.sqrt(observed), math.sqrt(max(0.0, observed - measured)), math.sqrt(measured)
    )


def _spread_words(samples: Sequence[Sample]) -> str:
    found = pooled_spread(samples)
    if found is None:
        return (
            "Every setting has one run, so the spread between runs of one setting is not known, and"
            " no difference between settings can be distinguished from chance."
        )
    return (
        f"Runs of one setting differ by a standard deviation of {found.observed:.0f} Elo, over all"
        f" settings. {cell_text(found.explained, '.0%')} of that variance is error of measuring"
        f" ({found.measurement:.0f} Elo a run); true strengths differ by {found.between:.0f} Elo."
    )


_WHAT = "which hyper-parameters matter"


def sweep_report(results: Results) -> Document:
    """Return the report on the finished work."""
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
    limited = f"{scale_caveats(results.scale, len(results.levels('seed')), _WHAT)} {TIMES_CAVEAT}"
    title = "Twelve hyper-parameters, one at a time"
    return Document(title, limited, blocks, provenance(results))


def _every_run(sweep: Sweep) -> Table:
    columns = [
        "changed", "seed", "Elo above Random", "its standard error", "last policy loss",
        "last value loss", "last training Elo", "accepted", "positions",
        *(f"{stage} (s)" for stage in STAGES), "total (s)", "run",
    ]  # fmt: skip
    return Table("runs", "Every run", columns, [_row(sweep, run) for run in sweep.results])


def _row(sweep: Sweep, run: TrainedRun) -> list[Cell]:
    elo, error = sweep.elos.get(run.planned.label, (None, None))
    last = run.final_losses[-1]
    return [
        run.factors["changed"], run.factors["seed"], elo, error, last["policy"], last["value"],
        run.training_elo[-1], run.accepted, run.positions,
        *(run.seconds[stage] for stage in STAGES), seconds(run), run.planned.key,
    ]  # fmt: skip
