"""Reports on the sweep and on the screening of twelve hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zerolab.papers.elo import elo_table, pooled_spread
from zerolab.papers.hyperparameters.effects import (
    best_value_section,
    importance_section,
    training_time_section,
)
from zerolab.papers.hyperparameters.findings import (
    LOSS_FIGURE,
    LOSS_SENSITIVITY_CLAIM,
    TIME_FIGURE,
    default_run_statistics,
    effect_statistics,
)
from zerolab.papers.hyperparameters.runs import (
    VALUE_NAMES,
    RunMeasure,
    Sweep,
    SweepValue,
    doubling_effects,
    final_loss,
    log2_seconds,
    range_effects,
    relative_spread_by_values,
    screening_runs,
    training_seconds,
)
from zerolab.papers.hyperparameters.study import (
    DEFAULT_LEVEL,
    HYPERPARAMETERS,
    PAIR_FACTOR,
    SCREENING_PART,
    scaled_values,
)
from zerolab.report.claims import Claim, Verdict
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import RunSample
from zerolab.report.interval_plots import IntervalRow, draw_grouped_runs, draw_intervals
from zerolab.report.table import P_VALUE_FORMAT, Cell, Column, Table, cell_text
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import MissingEstimate, holm_adjust
from zerolab.studies.finished_work import TRAINING_TIME_STAGES, TrainedRun
from zerolab.studies.results import Results, provenance, timing_caveat, verdict_section
from zerolab.studies.statistics import (
    POOLED_VARIANCE_NOTE,
    ClaimEstimate,
    StudentEstimate,
    with_pooled_intervals,
)
from zerolab.studies.study import scale_caveats

_LOSSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "training-loss": ("Sum of policy loss and value loss", ("policy", "value")),
    "losses-policy": ("Policy loss", ("policy",)),
    "losses-value": ("Value loss", ("value",)),
}
"""Title and terms of the loss in each figure, by name of the figure."""


def epoch_loss_section(sweep: Sweep) -> Iterator[Block]:
    """Yield a figure for each loss, with a panel per hyper-parameter and a line per value."""
    yield Heading("Losses by epoch")
    if not sweep.results.runs_where():
        yield Paragraph(f"No run is finished: {sweep.results.unfinished_message()}.")
        return
    for name, (title, terms) in _LOSSES.items():
        panels = {
            _loss_heading(sweep_values): {
                **dict.fromkeys(VALUE_NAMES, Curve([], [])),  # keeps colours the same
                **{
                    VALUE_NAMES[sweep_value.value_index]: loss_curve(sweep_value.runs, terms)
                    for sweep_value in sweep_values
                    if sweep_value.runs
                },
            }
            for sweep_values in sweep.values_by_symbol.values()
        }
        yield Picture(
            name,
            draw_curves(panels, title, "iteration", "loss", columns=3),
            "Each point is an epoch. The epochs of iteration i are plotted between i - 1 and i. The"
            " title of each panel gives the hyper-parameter with its smallest, default and largest"
            " value, and all other hyper-parameters are at their defaults. Runs with different"
            " values use different random numbers, so the lines differ by chance from the start."
            " The runs with default settings are the same in all panels. Compare Figs 2 and 3 of"
            " [Wang2020a].",
        )


def _loss_heading(sweep_values: Sequence[SweepValue]) -> str:
    values = ", ".join(f"{sweep_value.value:g}" for sweep_value in sweep_values)
    return f"{sweep_values[0].symbol} = {values}"


def loss_curve(runs: Sequence[TrainedRun], terms: Sequence[str]) -> Curve:
    """Return the sum of the losses `terms` after each epoch, with iterations on the x axis.

    Runs with fewer epochs, for example because iterations had no examples, have shorter curves.
    """
    longest = max((run.epoch_losses for run in runs), key=lambda losses: sum(map(len, losses)))
    x = [
        iteration + (epoch + 1) / len(losses)
        for iteration, losses in enumerate(longest)
        for epoch in range(len(losses))
    ]
    sums = [
        [sum(losses[term] for term in terms) for epochs in run.epoch_losses for losses in epochs]
        for run in runs
    ]
    return Curve(x, [[*curve, *[float("nan")] * (len(x) - len(curve))] for curve in sums])


def strength_section(sweep: Sweep) -> Iterator[Block]:
    """Yield the figure and the table of Elo, and the spread between runs of a setting."""
    yield Heading("Strength")
    if sweep.tournament is None:
        yield Paragraph("The tournament is not finished.")
        return
    if not sweep.default_runs or not any(sweep_value.runs for sweep_value in sweep.changed_values):
        yield Paragraph(f"Too few runs are finished: {sweep.results.unfinished_message()}.")
        return
    groups = {
        symbol: {
            **dict.fromkeys(VALUE_NAMES, RunSample([])),  # keeps colours the same
            **{
                VALUE_NAMES[sweep_value.value_index]: sweep.elo_sample_above_random(
                    sweep_value.runs
                )
                for sweep_value in sweep_values
            },
        }
        for symbol, sweep_values in sweep.values_by_symbol.items()
    }
    yield Picture(
        "elo",
        draw_grouped_runs(
            with_pooled_intervals(groups),
            "Elo of final networks relative to Random",
            "Elo, Random = 0",
        ),
        "One tournament per seed between Random and final networks. All networks search with the"
        " default number of simulations and the default c, so differences are due to training. The"
        f" runs with default settings are the same in all groups. {POOLED_VARIANCE_NOTE}",
    )
    rows = {"": {DEFAULT_LEVEL: sweep.elo_sample_above_random(sweep.default_runs)}}
    rows |= {
        symbol: {
            f"{sweep_value.value:g}": sweep.elo_sample_above_random(sweep_value.runs)
            for sweep_value in sweep_values
            if sweep_value.value_index != 1 and sweep_value.runs
        }
        for symbol, sweep_values in sweep.values_by_symbol.items()
    }
    title = "Elo relative to Random by setting"
    yield elo_table("elo-by-setting", title, rows, "parameter", "value")
    yield Paragraph(_spread_note([sample for group in rows.values() for sample in group.values()]))


def _spread_note(samples: Sequence[RunSample]) -> str:
    components = pooled_spread(samples)
    if components is None:
        return (
            "Each setting has one run, so the variation between runs of a setting is unknown, and"
            " differences between settings cannot be distinguished from chance."
        )
    return (
        "Pooled over all settings, runs of a setting vary with a standard deviation of"
        f" {components.observed_sd:.0f} Elo. Measurement error accounts for"
        f" {cell_text(components.error_share, '.0%')} of that variance"
        f" ({components.measurement_standard_error:.0f} Elo per run). The standard deviation of the"
        f" true strengths is {components.between_runs_sd:.0f} Elo."
    )


_SUBJECT = "which hyper-parameters matter"


def sweep_verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on the claims about the sweep."""
    return results.judge(sweep_statistics)


def sweep_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistics of the claims about effects and about default values."""
    runs = Sweep(results).varied_runs
    return {**effect_statistics(results, runs), **default_run_statistics(results, runs)}


def sweep_report(results: Results) -> Document:
    """Return the report on all finished work."""
    sweep = Sweep(results)
    blocks: list[Block] = [
        *verdict_section(results, sweep_verdicts(results)),
        *importance_section(sweep),
        *best_value_section(sweep),
        *strength_section(sweep),
        *training_time_section(sweep),
        *epoch_loss_section(sweep),
    ]
    if results.runs:
        blocks += [Heading("All runs"), _runs_table(sweep)]
    caveats = scale_caveats(results.scale, len(results.planned_levels("seed")), _SUBJECT)
    title = "Twelve hyper-parameters, one at a time"
    return Document(title, f"{caveats} {timing_caveat(results)}", blocks, provenance(results))


def _runs_table(sweep: Sweep) -> Table:
    columns = [
        "changed", "seed", "Elo above Random", "its standard error", "last policy loss",
        "last value loss", "last training Elo", "accepted", "positions",
        *(f"{stage} (s)" for stage in TRAINING_TIME_STAGES), "total (s)", "run",
    ]  # fmt: skip
    return Table("runs", "All runs", columns, [_run_cells(sweep, run) for run in sweep.results])


def _run_cells(sweep: Sweep, run: TrainedRun) -> list[Cell]:
    elo, error = sweep.elo_and_error_by_label.get(run.planned.label, (None, None))
    losses = run.last_epoch_losses[-1]
    return [
        run.factors["changed"], run.factors["seed"], elo, error, losses["policy"], losses["value"],
        run.training_elos[-1], run.accepted_candidate_count, run.selfplay_position_count,
        *(run.seconds_by_stage[stage] for stage in TRAINING_TIME_STAGES), training_seconds(run),
        run.planned.key,
    ]  # fmt: skip


_SCREENING_DEFINITION = (
    "All twelve hyper-parameters change together, in the combinations of a design of [Plackett1946]"
    " and their mirror images [Box1951]. The effect of a hyper-parameter is the change from its"
    " smallest to its largest value, averaged over the values of the others, from a linear fit over"
    " all runs with a constant for each seed and for each mirrored pair. Interactions of two"
    " hyper-parameters do not change these effects. The default values are not part of the design,"
    " so a value in the middle that is better or worse than both ends is missed. The p-values"
    " are adjusted for twelve hyper-parameters [Holm1979]. Losses are measured on the run's own"
    " self-play positions, so a lower loss does not imply stronger play."
)
_FORMATS = {"log2 of time": "+.2f", "final loss": "+.3f", "Elo": "+.0f"}
_FIGURES = {"log2 of time": TIME_FIGURE, "final loss": LOSS_FIGURE, "Elo": "elo"}


def screening_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistics of the claims about effects and about the sensitivity of training."""
    runs = screening_runs(results)
    message = results.unfinished_message()
    sensitivity = (
        MissingEstimate(message) if message else relative_spread_by_values(runs, final_loss)
    )
    return {**effect_statistics(results, runs), LOSS_SENSITIVITY_CLAIM: sensitivity}


def screening_verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on the claims about the screening."""
    return results.judge(screening_statistics)


def screening_report(results: Results) -> Document:
    """Return the report on all finished work."""
    blocks = verdict_section(results, screening_verdicts(results))
    if results.runs:
        blocks += [*effect_section(results), Heading("All runs"), _screening_table(results)]
    caveats = scale_caveats(results.scale, len(results.planned_levels("seed")), _SUBJECT)
    title = "Twelve hyper-parameters, all together"
    return Document(title, f"{caveats} {timing_caveat(results)}", blocks, provenance(results))


def effect_section(results: Results) -> Iterator[Block]:
    """Yield a figure for each measure, and the table of all effects."""
    yield Heading("Effects of hyper-parameters")
    yield Paragraph(_SCREENING_DEFINITION)
    runs = screening_runs(results)
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
    if SCREENING_PART not in results.tournaments:
        yield Paragraph(f"There is no Elo yet: {results.unfinished_message()}.")


def _measures(results: Results) -> dict[str, RunMeasure]:
    tournament = results.tournaments.get(SCREENING_PART)
    measures: dict[str, RunMeasure] = {"log2 of time": log2_seconds, "final loss": final_loss}
    return {**measures, "Elo": tournament.elo_above_agent} if tournament else measures


def _title(symbol: str) -> str:
    return f"{symbol}, {HYPERPARAMETERS[symbol].title}"


def _effects_table(results: Results, effects: Mapping[str, Mapping[str, StudentEstimate]]) -> Table:
    exponents = doubling_effects(screening_runs(results), log2_seconds)
    p_values = {
        name: holm_adjust([each.p_value(0.0) for each in by_symbol.values()])
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


def _screening_table(results: Results) -> Table:
    columns = [
        PAIR_FACTOR, "seed", *HYPERPARAMETERS,
        *(f"{stage} (s)" for stage in TRAINING_TIME_STAGES), "total (s)",
        "last policy loss", "last value loss", "Elo above Random", "accepted", "run",
    ]  # fmt: skip
    tournament = results.tournaments.get(SCREENING_PART)
    rows = [
        _screening_cells(run, tournament.elo_above_agent(run) if tournament else None)
        for run in results.runs
    ]
    return Table("runs", "All runs", columns, rows)


def _screening_cells(run: TrainedRun, elo: float | None) -> list[Cell]:
    losses = run.last_epoch_losses[-1]
    return [
        run.factors[PAIR_FACTOR], run.seed, *(run.factors[symbol] for symbol in HYPERPARAMETERS),
        *(run.seconds_by_stage[stage] for stage in TRAINING_TIME_STAGES), run.training_seconds,
        losses["policy"], losses["value"], elo, run.accepted_candidate_count, run.planned.key,
    ]  # fmt: skip
