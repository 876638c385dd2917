"""Report on the screening: effects of twelve hyper-parameters on time, losses and Elo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerolab.papers.hyperparameters.findings import LOSS_FIGURE, TIME_FIGURE, effect_statistics
from zerolab.papers.hyperparameters.main_effects import (
    RunMeasure,
    doubling_effects,
    final_loss,
    log2_seconds,
    range_effects,
    screened_runs,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS, PAIR, SCREENING, scaled_values
from zerolab.report.claims import Verdict
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import P_VALUE_FORMAT, Cell
from zerolab.report.interval_plots import IntervalRow, draw_intervals
from zerolab.report.table import Column, Table
from zerolab.studies.finished_work import STAGES, TrainedRun
from zerolab.studies.results import Results, finding_blocks, provenance, times_caveat
from zerolab.studies.statistics import StudentEstimate, holm
from zerolab.studies.study import scale_caveats

_DEFINITION = (
    "All twelve hyper-parameters change together, in the combinations of a design of [Plackett1946]"
    " and their mirror images [Box1951]. The effect of a hyper-parameter is the change from its"
    " smallest to its largest value, averaged over the values of the others, from a linear fit over"
    " all runs with a constant for each seed and for each mirrored pair. Interactions of two"
    " hyper-parameters do not change these effects. The default values are not part of the design,"
    " so a value in the middle that is better or worse than both ends is not seen. p-values are"
    " adjusted for twelve hyper-parameters [Holm1979]. Losses are measured on the run's own"
    " self-play positions, so a lower loss does not imply stronger play."
)
_FORMATS = {"log2 of time": "+.2f", "final loss": "+.3f", "Elo": "+.0f"}
_FIGURES = {"log2 of time": TIME_FIGURE, "final loss": LOSS_FIGURE, "Elo": "elo"}
_SUBJECT = "which hyper-parameters matter"


def screening_verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on the claims about time and loss."""
    return results.judge(lambda part: effect_statistics(part, screened_runs(part)))


def screening_report(results: Results) -> Document:
    """Return the report on all finished work."""
    blocks = finding_blocks(results, screening_verdicts(results))
    if results.runs:
        blocks += [*effect_blocks(results), Heading("All runs"), _runs_table(results)]
    caveats = scale_caveats(results.scale, len(results.levels("seed")), _SUBJECT)
    title = "Twelve hyper-parameters, all together"
    return Document(title, f"{caveats} {times_caveat(results)}", blocks, provenance(results))


def effect_blocks(results: Results) -> Iterator[Block]:
    """Yield a figure for each measure, and the table of all effects."""
    yield Heading("Effects of hyper-parameters")
    yield Paragraph(_DEFINITION)
    runs = screened_runs(results)
    effects = {
        name: range_effects(results.scale, runs, measure)
        for name, measure in _measures(results).items()
    }
    for name, by_symbol in effects.items():
        yield Picture(
            _FIGURES[name],
            draw_intervals(
                {_title(symbol): IntervalRow(each.interval) for symbol, each in by_symbol.items()},
                f"Effect on {name}, from smallest to largest value", name, threshold=0.0,
                number_format=_FORMATS[name],
            ),
            "Intervals are Student's t intervals over runs. They are computed from the residuals of"
            " the fit, which include measurement error.",
        )  # fmt: skip
    yield _effects_table(results, effects)
    if SCREENING not in results.tournaments:
        yield Paragraph(f"There is no Elo yet: {results.unfinished_message()}.")


def _measures(results: Results) -> dict[str, RunMeasure]:
    tournament = results.tournaments.get(SCREENING)
    measures: dict[str, RunMeasure] = {"log2 of time": log2_seconds, "final loss": final_loss}
    return {**measures, "Elo": tournament.elo_above_agent} if tournament else measures


def _title(symbol: str) -> str:
    return f"{symbol}, {HYPERPARAMETERS[symbol].title}"


def _effects_table(results: Results, effects: Mapping[str, Mapping[str, StudentEstimate]]) -> Table:
    exponents = doubling_effects(screened_runs(results), log2_seconds)
    p_values = {
        name: holm([each.p_value(0.0) for each in by_symbol.values()])
        for name, by_symbol in effects.items()
    }
    rows: list[list[Cell]] = []
    for index, symbol in enumerate(HYPERPARAMETERS):
        low, _, high = scaled_values(results.scale, symbol)
        row: list[Cell] = [_title(symbol), f"{low:g}", f"{high:g}"]
        for name, by_symbol in effects.items():
            row += [by_symbol[symbol].interval, p_values[name][index]]
        rows.append([*row, exponents[symbol].interval, HYPERPARAMETERS[symbol].published_exponent])
    columns: list[str | Column] = ["parameter", "smallest", "largest"]
    for name in effects:
        columns += [
            Column(f"effect on {name}", _FORMATS[name]), Column(f"p, {name}", P_VALUE_FORMAT)
        ]  # fmt: skip
    columns += [Column("exponent of time", ".2f"), Column("published exponent", ".2f")]
    return Table("effects", "Effects from the smallest to the largest value", columns, rows)


def _runs_table(results: Results) -> Table:
    columns = [
        PAIR, "seed", *HYPERPARAMETERS, *(f"{stage} (s)" for stage in STAGES), "total (s)",
        "last policy loss", "last value loss", "Elo above Random", "accepted", "run",
    ]  # fmt: skip
    tournament = results.tournaments.get(SCREENING)
    rows = [
        _run_cells(run, tournament.elo_above_agent(run) if tournament else None)
        for run in results.runs
    ]
    return Table("runs", "All runs", columns, rows)


def _run_cells(run: TrainedRun, elo: float | None) -> list[Cell]:
    losses = run.last_epoch_losses[-1]
    return [
        run.factors[PAIR], run.seed, *(run.factors[symbol] for symbol in HYPERPARAMETERS),
        *(run.seconds_by_stage[stage] for stage in STAGES), run.total_seconds,
        losses["policy"], losses["value"], elo, run.accepted_count, run.planned.key,
    ]  # fmt: skip
