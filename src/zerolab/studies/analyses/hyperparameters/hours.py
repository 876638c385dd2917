"""Time of every stage by the values of each hyper-parameter [Wang2020a, Table 3]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean as mean

from zerolab.studies.analyses.hyperparameters.sweep_runs import (
    PLACES,
    Setting,
    Sweep,
    seconds,
)
from zerolab.studies.analyses.hyperparameters.time_units import TimeUnit, time_unit
from zerolab.studies.analyses.hyperparameters.values import DEFAULT, DEFAULT_HOURS, FACTORS
from zerolab.studies.panels.bars import draw_bars
from zerolab.studies.panels.samples import Sample
from zerolab.studies.report.cells import Cell, cell_text
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.results import STAGES, TrainedRun
from zerolab.studies.statistics import BootstrapEstimate, bootstrap, mean_of


def hour_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of times, and its ratios beside the published ones."""
    yield Heading("Time")
    if not sweep.results.where():
        yield Paragraph(f"No run is finished: {sweep.results.missing()}.")
        return
    yield _table(sweep)
    if not sweep.default:
        yield Paragraph("No run with all defaults is finished: there are no ratios to it.")
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
        " [Wang2020a]. A smaller scale has other values, in about the same proportions except of"
        " rs.",
    )
    if sweep.complete:
        yield Paragraph(_agreement(sweep))


def _ratios(sweep: Sweep) -> dict[str, dict[str, Sample]]:
    default = mean(map(seconds, sweep.default))
    return {
        symbol: {
            **dict.fromkeys((PLACES[0], PLACES[2]), Sample([])),  # the same colours always
            **{
                PLACES[each.place]: Sample(
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
    found = published_exponent(sweep)
    return (
        "Measured ratios grow as the published ones to the power of"
        f" {cell_text(found, '.2f')}, fitted to the logarithms of {len(sweep.others)} ratios; 1"
        " would be as published, 0 unrelated. The interval is over runs."
    )


def published_exponent(sweep: Sweep) -> BootstrapEstimate:
    """Return b of measured ratio = published ratio^b; every setting must have a run."""
    x = [math.log(each.published_ratio) for each in sweep.others]

    def exponent(default: Sequence[float], *groups: Sequence[float]) -> float:
        y = [math.log(mean(group) / mean(default)) for group in groups]
        return sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)

    groups = [list(map(seconds, each.runs)) for each in sweep.others]
    return bootstrap(list(map(seconds, sweep.default)), *groups, statistic=exponent)


def _table(sweep: Sweep) -> DataTable:
    unit = time_unit(map(seconds, sweep.results))
    rows: list[list[Cell]] = []
    if sweep.default:
        shown = _times(sweep.default, unit)
        rows.append([DEFAULT, "", len(sweep.default), *shown, 1.0, DEFAULT_HOURS, 1.0])
    rows += [_row(sweep, each, unit) for each in sweep.others if each.runs]
    stages = ("self-play", "learning", "gates")
    columns: list[str | Column] = [
        "parameter", "value", "runs", *(Column(f"{each} ({unit.name})", ".3g") for each in stages),
        Column(f"total ({unit.name})", ".3g"), Column("ratio to default", ".2f"),
        Column("published (h)", ".1f"), Column("published ratio", ".2f"),
    ]  # fmt: skip
    return DataTable("hours", "Time of training by stage", columns, rows)


def _row(sweep: Sweep, setting: Setting, unit: TimeUnit) -> list[Cell]:
    return [
        f"{setting.symbol}, {FACTORS[setting.symbol].title}", f"{setting.value:g}",
        len(setting.runs), *_times(setting.runs, unit),
        time_ratio(setting.runs, sweep.default) if sweep.default else None,
        setting.published_hours, setting.published_ratio,
    ]  # fmt: skip


def _times(runs: Sequence[TrainedRun], unit: TimeUnit) -> list[Cell]:
    stages = [mean(run.seconds[stage] for run in runs) / unit.seconds for stage in STAGES]
    return [*stages, mean_of([seconds(run) / unit.seconds for run in runs])]
