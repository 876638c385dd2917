"""Effects of each hyper-parameter on time, losses and Elo [Wang2020a, Tables 3 and 4]."""

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
    """Yield the table of times, and its ratios beside the published ones."""
    yield Heading("Time")
    if not sweep.results.where():
        yield Paragraph(f"No run is finished: {sweep.results.missing()}.")
        return
    yield _hours_table(sweep)
    if not sweep.default:
        yield Paragraph("No run with all defaults is finished, so there are no ratios to it.")
        return
    if not any(each.runs for each in sweep.others):
        return
    yield Picture(
        "hours-ratio",
        draw_bars(
            _ratios(sweep), "Time of training over that of the default", "ratio", baseline=1.0
        ),
        "Time of a run over the mean time of the runs with all defaults, for the least and the"
        " greatest value of every hyper-parameter; diamonds are the ratios of Table 3 of"
        " [Wang2020a]. Smaller scales have other values, in about the same proportions except for"
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
                PLACES[each.place]: sample_of_runs(
                    [seconds(run) / default for run in each.runs], published=each.published_ratio
                )
                for each in settings
                if each.place != 1
            },
        }
        for symbol, settings in sweep.by_symbol.items()
    }


def time_ratio(runs: Sequence[TrainedRun], default: Sequence[TrainedRun]) -> BootstrapEstimate:
    """Return the mean time of some runs over that of others."""
    groups = [list(map(seconds, runs)), list(map(seconds, default))]
    return bootstrap(*groups, statistic=lambda one, other: mean(one) / mean(other))


def _agreement(sweep: Sweep) -> str:
    exponent = cell_text(published_exponent(sweep).interval, ".2f")
    return (
        "Measured ratios grow as the published ones to the power of"
        f" {exponent}, fitted to the logarithms of {len(sweep.others)} ratios; 1"
        " means as published, 0 unrelated. The interval is over runs."
    )


def published_exponent(sweep: Sweep) -> BootstrapEstimate:
    """Return b of measured ratio = published ratio^b; every setting must have a run."""
    x = [math.log(each.published_ratio) for each in sweep.others]

    def exponent(default: Sequence[float], *groups: Sequence[float]) -> float:
        y = [math.log(mean(group) / mean(default)) for group in groups]
        return sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)

    groups = [list(map(seconds, each.runs)) for each in sweep.others]
    return bootstrap(list(map(seconds, sweep.default)), *groups, statistic=exponent)


def _hours_table(sweep: Sweep) -> Table:
    unit = time_unit(map(seconds, sweep.results))
    rows: list[list[Cell]] = []
    if sweep.default:
        shown = _times(sweep.default, unit)
        rows.append([DEFAULT, "", len(sweep.default), *shown, 1.0, DEFAULT_HOURS, 1.0])
    rows += [_hours_row(sweep, each, unit) for each in sweep.others if each.runs]
    stages = ("self-play", "learning", "gates")
    columns: list[str | Column] = [
        "parameter", "value", "runs", *(Column(f"{each} ({unit.name})", ".3g") for each in stages),
        Column(f"total ({unit.name})", ".3g"), Column("ratio to default", ".2f"),
        Column("published (h)", ".1f"), Column("published ratio", ".2f"),
    ]  # fmt: skip
    return Table("hours", "Time of training by stage", columns, rows)


def _hours_row(sweep: Sweep, setting: Setting, unit: TimeUnit) -> list[Cell]:
    return [
        f"{setting.symbol}, {FACTORS[setting.symbol].title}", f"{setting.value:g}",
        len(setting.runs), *_times(setting.runs, unit),
        time_ratio(setting.runs, sweep.default).interval if sweep.default else None,
        setting.published_hours, setting.published_ratio,
    ]  # fmt: skip


def _times(runs: Sequence[TrainedRun], unit: TimeUnit) -> list[Cell]:
    stages = [mean(run.seconds[stage] for run in runs) / unit.seconds for stage in STAGES]
    return [*stages, mean_of([seconds(run) / unit.seconds for run in runs]).interval]


_RULE = (
    "The rule: the effect of a hyper-parameter is the largest difference between the means of its"
    " three values, the others being at their defaults. Parameters are ranked by their effect on"
    " final Elo, and separately on final loss (policy plus value, last epoch of the last iteration)"
    " and on time (relative to the mean time of the default). Intervals are over runs, never over"
    " games: those of [Tukey1949] for all differences between three means, with the spread between"
    " runs of one setting pooled over all settings. A measured difference is always above 0, so the"
    " difference expected by chance stands beside it, and p is the probability of as large a"
    " difference between equal settings, adjusted for twelve parameters [Holm1979]. All runs are"
    " independent, even those of equal seed: those of different values do not even share the first"
    " network. Those with all defaults count for every parameter, so the effects of two parameters"
    " are not independent. Effects depend on the distance between the three values. Losses are"
    " measured on the positions that a run has played, which parameters change: a lower loss does"
    " not mean better play."
)

_NO_ERRORS = (
    "The interval is made from the spread between runs, which includes the error of measuring."
)


class Effect(NamedTuple):
    """Effect of a hyper-parameter on one measure."""

    symbol: str
    size: RangeEstimate
    adjusted_p: float
    best: Setting
    """Value with the highest mean."""


def effects(sweep: Sweep, measure: Measure) -> dict[str, Effect]:
    """Return the effects on a measure, the largest first.

    Parameters without runs of some value are left out; p-values are adjusted over the others.
    """
    known = {
        symbol: [[measure(run) for run in each.runs] for each in settings]
        for symbol, settings in sweep.by_symbol.items()
        if all(each.runs for each in settings)
    }
    alike = [[measure(run) for run in runs] for runs in sweep.settings]
    sizes = {symbol: range_of_means(groups, alike) for symbol, groups in known.items()}
    adjusted = holm([size.p_value(0.0) for size in sizes.values()])
    found = []
    for (symbol, groups), p in zip(known.items(), adjusted, strict=True):
        best = max(range(len(groups)), key=[mean(group) for group in groups].__getitem__)
        found.append(Effect(symbol, sizes[symbol], p, sweep.by_symbol[symbol][best]))
    return {each.symbol: each for each in sorted(found, key=lambda each: -each.size.value)}


def importance_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of importance and its figure."""
    yield Heading("Importance of parameters")
    yield Paragraph(_RULE)
    default = mean(map(seconds, sweep.default)) if sweep.default else 1.0
    measured: dict[str, dict[str, Effect]] = {
        "loss": effects(sweep, final_loss),
        "time": effects(sweep, lambda run: seconds(run) / default),
    }
    if sweep.tournament is not None:
        measured = {"Elo": effects(sweep, sweep.elo), **measured}
    if not measured["time"]:
        yield Paragraph("No hyper-parameter has a finished run of each value yet.")
        return
    if "Elo" not in measured:
        yield Paragraph(f"There is no Elo yet: {sweep.results.missing()}.")
    yield _picture(measured)
    yield _importance_table(measured)
    yield Paragraph(_words(measured))


def _picture(measured: Mapping[str, Mapping[str, Effect]]) -> Picture:
    name, found = next(iter(measured.items()))
    rows = {}
    for symbol, effect in found.items():
        chance = effect.size.by_chance
        beside = "" if chance is None else f" (chance: {chance:{_FORMATS[name]}})"
        rows[f"{_title(symbol)}{beside}"] = Row(effect.size.interval)
    figure = draw_intervals(
        rows, f"Effect on {name}: largest difference between three values", name,
        number_format=_FORMATS[name],
    )  # fmt: skip
    if all(effect.size.by_chance is None for effect in found.values()):
        caption = "By the rule above. With one run of each setting, all of it may be chance."
    else:
        caption = (
            "By the rule above; in parentheses the effect expected by chance, from the spread"
            " between runs of one setting. An interval that excludes 0 shows an effect, apart from"
            " the comparison of twelve parameters, which the table's p takes into account."
        )
    return Picture("effects", figure, f"{caption} {_NO_ERRORS}")


def _title(symbol: str) -> str:
    return f"{symbol}, {FACTORS[symbol].title}"


_FORMATS = {"Elo": ".0f", "loss": ".3f", "time": ".2f"}


def _importance_table(measured: Mapping[str, Mapping[str, Effect]]) -> Table:
    ranks = {
        name: {symbol: rank for rank, symbol in enumerate(found, 1)}
        for name, found in measured.items()
    }
    rows: list[list[Cell]] = []
    for symbol in next(iter(measured.values())):
        row: list[Cell] = [_title(symbol)]
        for name, found in measured.items():
            each = found[symbol]
            size = each.size
            row += [ranks[name][symbol], size.interval, size.by_chance, each.adjusted_p]
        hours = (*FACTORS[symbol].hours, DEFAULT_HOURS)
        row.append((max(hours) - min(hours)) / DEFAULT_HOURS)
        row.append(next(iter(measured.values()))[symbol].best.name)
        rows.append(row)
    columns: list[str | Column] = ["parameter"]
    for name in measured:
        columns += [
            f"rank by {name}", Column(f"effect on {name}", _FORMATS[name]),
            Column(f"by chance, {name}", _FORMATS[name]), Column(f"p, {name}", P_VALUE),
        ]  # fmt: skip
    columns += [
        Column("published effect on time", ".2f"), f"value of the most {next(iter(measured))}"
    ]  # fmt: skip
    return Table("importance", "Importance of hyper-parameters", columns, rows)


def _words(measured: Mapping[str, Mapping[str, Effect]]) -> str:
    shown = []
    for name, found in measured.items():
        sure = [symbol for symbol, each in found.items() if each.adjusted_p < LEVEL]
        shown.append(f"on {name}: {_listed(sure)}")
    return f"Proven effects, {'; '.join(shown)}. The others may or may not exist."


def _listed(symbols: Sequence[str]) -> str:
    return ", ".join(symbols) or "none"
