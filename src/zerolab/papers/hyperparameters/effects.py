"""Effect of each hyper-parameter on time, losses and Elo [Wang2020a, Tables 3 and 4]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import NamedTuple

from zerolab.papers.hyperparameters.grid import TimeUnit, time_unit
from zerolab.papers.hyperparameters.study import DEFAULT, DEFAULT_HOURS, FACTORS
from zerolab.papers.hyperparameters.sweep_runs import (
    PLACES,
    Measure,
    Setting,
    Sweep,
    final_loss,
    seconds,
)
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval import P_VALUE, Cell, cell_text
from zerolab.report.interval_plots import Row, draw_bars, draw_intervals
from zerolab.report.table import Column, Table
from zerolab.studies.joint_estimates import RangeEstimate, range_of_means
from zerolab.studies.results import STAGES, TrainedRun
from zerolab.studies.statistics import (
    LEVEL,
    BootstrapEstimate,
    bootstrap,
    holm,
    mean_of,
    sample_of_runs,
)


def hour_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of training times, and the measured and published time ratios."""
    yield Heading("Time")
    if not sweep.results.where():
        yield Paragraph(f"No run is finished: {sweep.results.missing_message()}.")
        return
    yield _hours_table(sweep)
    if not sweep.default:
        yield Paragraph(
            "There are no time ratios because no run with default settings is finished."
        )
        return
    if not any(setting.runs for setting in sweep.others):
        return
    yield Picture(
        "hours-ratio",
        draw_bars(_ratios(sweep), "Training time relative to the default", "ratio", baseline=1.0),
        "Training time relative to the mean time of runs with default settings, for the smallest"
        " and largest value of each hyper-parameter. Diamonds are ratios from Table 3 of"
        " [Wang2020a]. Smaller scales use other values, in about the same proportions except for"
        " rs.",
    )
    if sweep.complete:
        yield Paragraph(_agreement(sweep))


def _ratios(sweep: Sweep) -> dict[str, dict[str, Sample]]:
    default = mean(map(seconds, sweep.default))
    return {
        symbol: {
            **dict.fromkeys((PLACES[0], PLACES[2]), Sample([])),  # keeps colours the same
            **{
                PLACES[setting.place]: sample_of_runs(
                    [seconds(run) / default for run in setting.runs],
                    published=setting.published_ratio,
                )
                for setting in settings
                if setting.place != 1
            },
        }
        for symbol, settings in sweep.by_symbol.items()
    }


def time_ratio(runs: Sequence[TrainedRun], default: Sequence[TrainedRun]) -> BootstrapEstimate:
    """Return the mean training time of `runs` divided by that of `default`."""
    groups = [list(map(seconds, runs)), list(map(seconds, default))]
    return bootstrap(*groups, statistic=lambda one, other: mean(one) / mean(other))


def _agreement(sweep: Sweep) -> str:
    exponent = cell_text(published_exponent(sweep).interval, ".2f")
    return (
        "The measured ratios are proportional to the published ratios to the power of"
        f" {exponent}, fitted to the logarithms of {len(sweep.others)} ratios. An"
        " exponent of 1 means perfect agreement and 0 means no relation. The interval is over runs."
    )


def published_exponent(sweep: Sweep) -> BootstrapEstimate:
    """Return the exponent b in measured ratio = published ratio^b.

    Each setting must have a finished run.
    """
    x = [math.log(setting.published_ratio) for setting in sweep.others]

    def exponent(default: Sequence[float], *groups: Sequence[float]) -> float:
        y = [math.log(mean(group) / mean(default)) for group in groups]
        return sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)

    groups = [list(map(seconds, setting.runs)) for setting in sweep.others]
    return bootstrap(list(map(seconds, sweep.default)), *groups, statistic=exponent)


def _hours_table(sweep: Sweep) -> Table:
    unit = time_unit(map(seconds, sweep.results))
    rows: list[list[Cell]] = []
    if sweep.default:
        times = _times(sweep.default, unit)
        rows.append([DEFAULT, "", len(sweep.default), *times, 1.0, DEFAULT_HOURS, 1.0])
    rows += [_hours_row(sweep, setting, unit) for setting in sweep.others if setting.runs]
    stages = ("self-play", "learning", "gates")
    columns: list[str | Column] = [
        "parameter", "value", "runs",
        *(Column(f"{stage} ({unit.name})", ".3g") for stage in stages),
        Column(f"total ({unit.name})", ".3g"), Column("ratio to default", ".2f"),
        Column("published (h)", ".1f"), Column("published ratio", ".2f"),
    ]  # fmt: skip
    return Table("hours", "Training time by stage", columns, rows)


def _hours_row(sweep: Sweep, setting: Setting, unit: TimeUnit) -> list[Cell]:
    return [
        _title(setting.symbol), f"{setting.value:g}",
        len(setting.runs), *_times(setting.runs, unit),
        time_ratio(setting.runs, sweep.default).interval if sweep.default else None,
        setting.published_hours, setting.published_ratio,
    ]  # fmt: skip


def _times(runs: Sequence[TrainedRun], unit: TimeUnit) -> list[Cell]:
    stages = [mean(run.seconds[stage] for run in runs) / unit.seconds for stage in STAGES]
    return [*stages, mean_of([seconds(run) / unit.seconds for run in runs]).interval]


_DEFINITION = (
    "The effect of a hyper-parameter is the largest difference between the means of its three"
    " values, with all other hyper-parameters at their defaults. Hyper-parameters are ranked by"
    " their effect on final Elo, on final loss (policy plus value, last epoch of the last"
    " iteration) and on time (relative to the mean time of the default). Intervals are over runs"
    " rather than games. They are those of [Tukey1949] for all differences between three means,"
    " with the variation between runs of a setting pooled over all settings. The measured effect is"
    " always positive, so the table also shows the effect expected by chance. The p-value is the"
    " probability of an effect of at least this size if all three values are equivalent, adjusted"
    " for twelve hyper-parameters [Holm1979]. All runs are independent. Runs with the same seed but"
    " different values do not even share the initial network. Runs with default settings count for"
    " all hyper-parameters, so the effects of two hyper-parameters are not independent. An effect"
    " depends on the distance between the three values. Losses are measured on the run's own"
    " self-play positions, which depend on the hyper-parameters, so a lower loss does not imply"
    " stronger play."
)

_INTERVAL_NOTE = (
    "Intervals are computed from the variation between runs, which includes measurement error."
)


class Effect(NamedTuple):
    """Effect of a hyper-parameter on one measure."""

    symbol: str
    size: RangeEstimate
    adjusted_p: float
    best: Setting
    """Setting with the highest mean."""


def effects(sweep: Sweep, measure: Measure) -> dict[str, Effect]:
    """Return the effects on a measure by symbol, largest first.

    Hyper-parameters with a value that has no runs are omitted, and p-values are adjusted for the
    number of remaining hyper-parameters.
    """
    by_symbol = {
        symbol: [[measure(run) for run in setting.runs] for setting in settings]
        for symbol, settings in sweep.by_symbol.items()
        if all(setting.runs for setting in settings)
    }
    pooled = [[measure(run) for run in runs] for runs in sweep.settings]
    sizes = {symbol: range_of_means(groups, pooled) for symbol, groups in by_symbol.items()}
    adjusted = holm([size.p_value(0.0) for size in sizes.values()])
    unsorted = []
    for (symbol, groups), p in zip(by_symbol.items(), adjusted, strict=True):
        best = max(range(len(groups)), key=[mean(group) for group in groups].__getitem__)
        unsorted.append(Effect(symbol, sizes[symbol], p, sweep.by_symbol[symbol][best]))
    ordered = sorted(unsorted, key=lambda effect: -effect.size.value)
    return {effect.symbol: effect for effect in ordered}


def importance_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the figure and the table on the importance of hyper-parameters."""
    yield Heading("Importance of hyper-parameters")
    yield Paragraph(_DEFINITION)
    default = mean(map(seconds, sweep.default)) if sweep.default else 1.0
    by_measure: dict[str, dict[str, Effect]] = {
        "loss": effects(sweep, final_loss),
        "time": effects(sweep, lambda run: seconds(run) / default),
    }
    if sweep.tournament is not None:
        by_measure = {"Elo": effects(sweep, sweep.elo), **by_measure}
    if not by_measure["time"]:
        yield Paragraph("No hyper-parameter has a finished run for each of its values yet.")
        return
    if "Elo" not in by_measure:
        yield Paragraph(f"There is no Elo yet: {sweep.results.missing_message()}.")
    yield _picture(by_measure)
    yield _importance_table(by_measure)
    yield Paragraph(_significance_note(by_measure))


def _picture(by_measure: Mapping[str, Mapping[str, Effect]]) -> Picture:
    name, by_symbol = next(iter(by_measure.items()))
    rows = {}
    for symbol, effect in by_symbol.items():
        chance = effect.size.by_chance
        note = "" if chance is None else f" (chance: {chance:{_FORMATS[name]}})"
        rows[f"{_title(symbol)}{note}"] = Row(effect.size.interval)
    figure = draw_intervals(
        rows, f"Effect on {name} (largest difference between three values)", name,
        number_format=_FORMATS[name],
    )  # fmt: skip
    if all(effect.size.by_chance is None for effect in by_symbol.values()):
        caption = "With one run per setting, all effects could be due to chance."
    else:
        caption = (
            "The effect expected by chance is in parentheses, estimated from the variation between"
            " runs of a setting. An interval that excludes 0 indicates an effect, but does not"
            " account for the comparison of twelve hyper-parameters. The p-values in the table do."
        )
    return Picture("effects", figure, f"{caption} {_INTERVAL_NOTE}")


def _title(symbol: str) -> str:
    return f"{symbol}, {FACTORS[symbol].title}"


_FORMATS = {"Elo": ".0f", "loss": ".3f", "time": ".2f"}


def _importance_table(by_measure: Mapping[str, Mapping[str, Effect]]) -> Table:
    ranks = {
        name: {symbol: rank for rank, symbol in enumerate(by_symbol, 1)}
        for name, by_symbol in by_measure.items()
    }
    first_measure, first_effects = next(iter(by_measure.items()))
    rows: list[list[Cell]] = []
    for symbol in first_effects:
        row: list[Cell] = [_title(symbol)]
        for name, by_symbol in by_measure.items():
            effect = by_symbol[symbol]
            size = effect.size
            row += [ranks[name][symbol], size.interval, size.by_chance, effect.adjusted_p]
        hours = (*FACTORS[symbol].hours, DEFAULT_HOURS)
        row.append((max(hours) - min(hours)) / DEFAULT_HOURS)
        row.append(first_effects[symbol].best.name)
        rows.append(row)
    columns: list[str | Column] = ["parameter"]
    for name in by_measure:
        columns += [
            f"rank by {name}", Column(f"effect on {name}", _FORMATS[name]),
            Column(f"by chance, {name}", _FORMATS[name]), Column(f"p, {name}", P_VALUE),
        ]  # fmt: skip
    columns += [
        Column("published effect on time", ".2f"), f"value of the most {first_measure}"
    ]  # fmt: skip
    return Table("importance", "Importance of hyper-parameters", columns, rows)


def _significance_note(by_measure: Mapping[str, Mapping[str, Effect]]) -> str:
    notes = []
    for name, by_symbol in by_measure.items():
        significant = [symbol for symbol, effect in by_symbol.items() if effect.adjusted_p < LEVEL]
        notes.append(f"on {name}: {', '.join(significant) or 'none'}")
    return f"Significant effects {'; '.join(notes)}. All other effects are undecided."
