"""Effects of each hyper-parameter on time, losses and Elo, and its best value.

The published values in [Wang2020a, Tables 3 and 4] are shown next to the measured ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import NamedTuple

import numpy as np

from zerolab.papers.hyperparameters.runs import (
    VALUE_NAMES,
    RunMeasure,
    Sweep,
    SweepValue,
    final_loss,
    training_seconds,
)
from zerolab.papers.hyperparameters.study import DEFAULT_HOURS, DEFAULT_LEVEL, HYPERPARAMETERS
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.figures import RunSample
from zerolab.report.interval_plots import IntervalRow, draw_grouped_runs, draw_intervals
from zerolab.report.table import P_VALUE_FORMAT, Cell, Column, Table, TimeUnit, cell_text, time_unit
from zerolab.studies.claims import holm_adjust
from zerolab.studies.finished_work import TRAINING_TIME_STAGES, TrainedRun
from zerolab.studies.joint_estimates import RangeEstimate, bootstrap, range_of_means
from zerolab.studies.statistics import (
    SIGNIFICANCE_LEVEL,
    BootstrapEstimate,
    estimate_mean,
    run_sample,
)


def training_time_section(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of training times and the figure of measured and published time ratios."""
    yield Heading("Time")
    if not sweep.results.runs_where():
        yield Paragraph(f"No run is finished: {sweep.results.unfinished_message()}.")
        return
    yield _hours_table(sweep)
    if not sweep.default_runs:
        yield Paragraph(
            "There are no time ratios because no run with default settings is finished."
        )
        return
    if not any(sweep_value.runs for sweep_value in sweep.changed_values):
        return
    yield Picture(
        "training-time",
        draw_grouped_runs(
            _ratios(sweep), "Training time relative to the default", "ratio", baseline=1.0
        ),
        "Training time relative to the mean time of runs with default settings, for the smallest"
        " and largest value of each hyper-parameter. Diamonds are ratios from Table 3 of"
        " [Wang2020a]. Smaller scales use other values, in about the same proportions except for"
        " rs.",
    )
    if sweep.has_runs_of_all_values:
        yield Paragraph(_agreement(sweep))


def _ratios(sweep: Sweep) -> dict[str, dict[str, RunSample]]:
    default = mean(map(training_seconds, sweep.default_runs))
    return {
        symbol: {
            **dict.fromkeys(
                (VALUE_NAMES[0], VALUE_NAMES[2]), RunSample([])
            ),  # keeps colours the same
            **{
                VALUE_NAMES[sweep_value.value_index]: run_sample(
                    [training_seconds(run) / default for run in sweep_value.runs],
                    published=sweep_value.published_hours_ratio,
                )
                for sweep_value in sweep_values
                if sweep_value.value_index != 1
            },
        }
        for symbol, sweep_values in sweep.values_by_symbol.items()
    }


def time_ratio(runs: Sequence[TrainedRun], default: Sequence[TrainedRun]) -> BootstrapEstimate:
    """Return the mean training time of `runs` divided by the mean of `default`."""
    groups = [list(map(training_seconds, runs)), list(map(training_seconds, default))]
    return bootstrap(*groups, statistic=lambda one, other: mean(one) / mean(other))


def _agreement(sweep: Sweep) -> str:
    exponent = cell_text(time_ratio_exponent(sweep).interval, ".2f")
    return (
        "The measured ratios are proportional to the published ratios to the power of"
        f" {exponent}, fitted to the logarithms of {len(sweep.changed_values)} ratios. An"
        " exponent of 1 means perfect agreement and 0 means no relation. The interval is over runs."
    )


def time_ratio_exponent(sweep: Sweep) -> BootstrapEstimate:
    """Return the exponent b in measured time ratio = published time ratio^b.

    Raises ValueError unless the defaults and each changed value have a finished run.
    """
    x = [math.log(sweep_value.published_hours_ratio) for sweep_value in sweep.changed_values]

    def exponent(default: Sequence[float], *groups: Sequence[float]) -> float:
        y = [math.log(mean(group) / mean(default)) for group in groups]
        return sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)

    groups = [list(map(training_seconds, sweep_value.runs)) for sweep_value in sweep.changed_values]
    return bootstrap(list(map(training_seconds, sweep.default_runs)), *groups, statistic=exponent)


def _hours_table(sweep: Sweep) -> Table:
    unit = time_unit(map(training_seconds, sweep.results))
    rows: list[list[Cell]] = []
    if sweep.default_runs:
        times = _mean_time_cells(sweep.default_runs, unit)
        rows.append([DEFAULT_LEVEL, "", len(sweep.default_runs), *times, 1.0, DEFAULT_HOURS, 1.0])
    rows += [
        _hours_row(sweep, sweep_value, unit)
        for sweep_value in sweep.changed_values
        if sweep_value.runs
    ]
    stages = ("self-play", "learning", "gates")
    columns: list[str | Column] = [
        "parameter", "value", "runs",
        *(Column(f"{stage} ({unit.symbol})", ".3g") for stage in stages),
        Column(f"total ({unit.symbol})", ".3g"), Column("ratio to default", ".2f"),
        Column("published (h)", ".1f"), Column("published ratio", ".2f"),
    ]  # fmt: skip
    return Table("hours", "Training time by stage", columns, rows)


def _hours_row(sweep: Sweep, sweep_value: SweepValue, unit: TimeUnit) -> list[Cell]:
    return [
        _title(sweep_value.symbol), f"{sweep_value.value:g}",
        len(sweep_value.runs), *_mean_time_cells(sweep_value.runs, unit),
        time_ratio(sweep_value.runs, sweep.default_runs).interval if sweep.default_runs else None,
        sweep_value.published_hours, sweep_value.published_hours_ratio,
    ]  # fmt: skip


def _mean_time_cells(runs: Sequence[TrainedRun], unit: TimeUnit) -> list[Cell]:
    stages = [
        mean(run.seconds_by_stage[stage] for run in runs) / unit.seconds
        for stage in TRAINING_TIME_STAGES
    ]
    return [*stages, estimate_mean([training_seconds(run) / unit.seconds for run in runs]).interval]


_DEFINITION = (
    "The effect of a hyper-parameter is the largest difference between the means of its three"
    " values, with all other hyper-parameters at their defaults. Hyper-parameters are ranked by"
    " their effect on final Elo, on final loss (policy plus value, last epoch of the last"
    " iteration) and on time (relative to the mean time of the default). Intervals are over runs"
    " rather than games. They are Tukey's for all differences between three means [Tukey1949],"
    " with the variation between runs of a setting pooled over all settings. The measured effect is"
    " always positive, so the table also shows the effect expected by chance. The p-value is the"
    " probability of an effect of at least this size if all three values are equivalent, adjusted"
    " for twelve hyper-parameters [Holm1979]. Runs with the same seed but"
    " different values do not even share the initial network, so they are independent in loss and"
    " time. In Elo, they share the error of Random's rating, because each seed has its own"
    " tournament; the mean of each seed is therefore removed, which costs a degree of freedom for"
    " each seed but one. Runs with default settings are shared by all hyper-parameters, so effects"
    " of different hyper-parameters are not independent. An effect depends on the distance between"
    " the three values. Losses are measured on the run's own self-play positions, which depend on"
    " the hyper-parameters, so a lower loss does not imply stronger play."
)

_INTERVAL_NOTE = (
    "Intervals are computed from the variation between runs, which includes measurement error."
)


class HyperparameterEffect(NamedTuple):
    """Effect of a hyper-parameter on one measure."""

    symbol: str
    size: RangeEstimate
    """Range of the means over the three values."""
    adjusted_p_value: float
    """p-value of equal means, adjusted for the number of hyper-parameters [Holm1979]."""
    best_value: SweepValue
    """Value with the highest mean."""


def elo_effects(sweep: Sweep) -> dict[str, HyperparameterEffect]:
    """Return the effects on Elo by symbol, largest first.

    Random's rating differs between the tournaments of the seeds, so means of seeds are removed.
    """
    adjusted, constants = without_seed_effects(sweep, sweep.elo_above_random)
    return hyperparameter_effects(sweep, adjusted, constants)


def without_seed_effects(sweep: Sweep, measure: RunMeasure) -> tuple[RunMeasure, int]:
    """Return a measure without the effects of seeds, and the degrees of freedom that this costs.

    The effects come from a least-squares fit of a constant per setting and per seed. Their mean
    over all runs is 0. If all seeds have the same settings, they are the means of seeds relative to
    the mean over all runs.
    """
    groups = [group for group in sweep.run_groups if group]
    runs = [run for group in groups for run in group]
    seeds = list(dict.fromkeys(run.seed for run in runs))
    settings = np.repeat(np.eye(len(groups)), [len(group) for group in groups], axis=0)
    by_seed = np.array([[run.seed == seed for seed in seeds] for run in runs], np.float64)
    constants = np.hstack([settings, by_seed])
    fitted = np.linalg.lstsq(constants, np.array([measure(run) for run in runs]))[0]
    effects = by_seed @ fitted[len(groups) :]
    effect_by_key = {
        run.planned.key: float(effect)
        for run, effect in zip(runs, effects - effects.mean(), strict=True)
    }
    spent = int(np.linalg.matrix_rank(constants)) - len(groups)
    return lambda run: measure(run) - effect_by_key[run.planned.key], spent


def hyperparameter_effects(
    sweep: Sweep, measure: RunMeasure, removed_constants: int = 0
) -> dict[str, HyperparameterEffect]:
    """Return the effects on a measure by symbol, largest first.

    Hyper-parameters with a value that has no finished run are omitted, and p-values are adjusted
    for the number of remaining hyper-parameters. `removed_constants` is the number of constants
    that were fitted to the measure and removed from it.
    """
    by_symbol = {
        symbol: [[measure(run) for run in sweep_value.runs] for sweep_value in sweep_values]
        for symbol, sweep_values in sweep.values_by_symbol.items()
        if all(sweep_value.runs for sweep_value in sweep_values)
    }
    pooled = [[measure(run) for run in runs] for runs in sweep.run_groups]
    sizes = {
        symbol: range_of_means(groups, pooled, removed_constants)
        for symbol, groups in by_symbol.items()
    }
    adjusted = holm_adjust([size.p_value(0.0) for size in sizes.values()])
    unsorted = []
    for (symbol, groups), p in zip(by_symbol.items(), adjusted, strict=True):
        best = max(range(len(groups)), key=[mean(group) for group in groups].__getitem__)
        unsorted.append(
            HyperparameterEffect(symbol, sizes[symbol], p, sweep.values_by_symbol[symbol][best])
        )
    ordered = sorted(unsorted, key=lambda effect: -effect.size.value)
    return {effect.symbol: effect for effect in ordered}


def importance_section(sweep: Sweep) -> Iterator[Block]:
    """Yield the figure and the table on the importance of hyper-parameters."""
    yield Heading("Importance of hyper-parameters")
    yield Paragraph(_DEFINITION)
    default = mean(map(training_seconds, sweep.default_runs)) if sweep.default_runs else 1.0
    by_measure: dict[str, dict[str, HyperparameterEffect]] = {
        "loss": hyperparameter_effects(sweep, final_loss),
        "time": hyperparameter_effects(sweep, lambda run: training_seconds(run) / default),
    }
    if sweep.tournament is not None:
        by_measure = {"Elo": elo_effects(sweep), **by_measure}
    if not by_measure["time"]:
        yield Paragraph("No hyper-parameter has a finished run for each of its values yet.")
        return
    if "Elo" not in by_measure:
        yield Paragraph(f"There is no Elo yet: {sweep.results.unfinished_message()}.")
    yield _picture(by_measure)
    yield _importance_table(by_measure)
    yield Paragraph(_significance_note(by_measure))


def _picture(by_measure: Mapping[str, Mapping[str, HyperparameterEffect]]) -> Picture:
    name, by_symbol = next(iter(by_measure.items()))
    rows = {}
    for symbol, effect in by_symbol.items():
        chance = effect.size.expected_range_by_chance
        note = "" if chance is None else f" (chance: {chance:{_FORMATS[name]}})"
        rows[f"{_title(symbol)}{note}"] = IntervalRow(effect.size.interval)
    figure = draw_intervals(
        rows, f"Effect on {name} (largest difference between three values)", name,
        number_format=_FORMATS[name],
    )  # fmt: skip
    if all(effect.size.expected_range_by_chance is None for effect in by_symbol.values()):
        caption = "With one run per setting, all effects could be due to chance."
    else:
        caption = (
            "The effect expected by chance is in parentheses, estimated from the variation between"
            " runs of a setting. An interval that excludes 0 indicates an effect, but does not"
            " account for the comparison of twelve hyper-parameters. The p-values in the table do."
        )
    return Picture("effects", figure, f"{caption} {_INTERVAL_NOTE}")


def _title(symbol: str) -> str:
    return f"{symbol}, {HYPERPARAMETERS[symbol].title}"


_FORMATS = {"Elo": ".0f", "loss": ".3f", "time": ".2f"}


def _importance_table(by_measure: Mapping[str, Mapping[str, HyperparameterEffect]]) -> Table:
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
            row += [
                ranks[name][symbol],
                size.interval,
                size.expected_range_by_chance,
                effect.adjusted_p_value,
            ]
        hours = (*HYPERPARAMETERS[symbol].published_hours, DEFAULT_HOURS)
        row.append((max(hours) - min(hours)) / DEFAULT_HOURS)
        row.append(first_effects[symbol].best_value.name)
        rows.append(row)
    columns: list[str | Column] = ["parameter"]
    for name in by_measure:
        columns += [
            f"rank by {name}", Column(f"effect on {name}", _FORMATS[name]),
            Column(f"by chance, {name}", _FORMATS[name]), Column(f"p, {name}", P_VALUE_FORMAT),
        ]  # fmt: skip
    columns += [
        Column("published effect on time", ".2f"), f"value with the highest {first_measure}"
    ]  # fmt: skip
    return Table("importance", "Importance of hyper-parameters", columns, rows)


def _significance_note(by_measure: Mapping[str, Mapping[str, HyperparameterEffect]]) -> str:
    notes = []
    for name, by_symbol in by_measure.items():
        significant = [
            symbol
            for symbol, effect in by_symbol.items()
            if effect.adjusted_p_value < SIGNIFICANCE_LEVEL
        ]
        notes.append(f"on {name}: {', '.join(significant) or 'none'}")
    return f"Significant effects {'; '.join(notes)}. All other effects are undecided."


PUBLISHED_BEST_INDICES: Mapping[str, tuple[int | None, int | None]] = {
    "I": (1, 0), "E": (0, 0), "T'": (0, None), "m": (2, 0), "c": (0, None), "rs": (0, 0),
    "ep": (2, 0), "bs": (2, 2), "lr": (0, None), "d": (1, None), "n": (None, 0),
    "u": (None, None),
}  # fmt: skip
"""Index of the best published value by loss and by time [Wang2020a, Table 4].

None stands for "insignificant" (loss) or "similar" (time)."""


def best_value_section(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of best values, for hyper-parameters with a finished run of each value."""
    by_loss = hyperparameter_effects(sweep, lambda run: -final_loss(run))
    by_time = hyperparameter_effects(sweep, lambda run: -training_seconds(run))
    if not by_loss:
        return
    yield Heading("Best values")
    yield Paragraph(
        "The value of each hyper-parameter with the lowest mean final loss and with the lowest mean"
        " time, next to the best values in Table 4 of [Wang2020a], which are based on single runs."
        " The p-values are for equal means, as in the table of importance: unless they are small, a"
        " best value may be due to chance. Smaller scales use other values, so compare the names."
    )
    rows: list[list[Cell]] = [
        [
            f"{symbol}, {HYPERPARAMETERS[symbol].title}",
            *_cells(by_loss[symbol], PUBLISHED_BEST_INDICES[symbol][0]),
            *_cells(by_time[symbol], PUBLISHED_BEST_INDICES[symbol][1]),
        ]
        for symbol in HYPERPARAMETERS
        if symbol in by_loss
    ]
    columns: list[str | Column] = [
        "parameter", "lowest loss", "published by loss", Column("p, loss", P_VALUE_FORMAT),
        "least time", "published by time", Column("p, time", P_VALUE_FORMAT),
    ]  # fmt: skip
    yield Table("best-values", "Best values by loss and by time", columns, rows)


def _cells(effect: HyperparameterEffect, published_index: int | None) -> list[Cell]:
    """Return the best value, the published one, and the p-value of equal means."""
    best = effect.best_value
    published = "no difference"
    if published_index is not None:
        value = HYPERPARAMETERS[effect.symbol].published_values[published_index]
        published = _named(value, published_index)
    return [_named(best.value, best.value_index), published, effect.adjusted_p_value]


def _named(value: float, index: int) -> str:
    return f"{value:g} ({VALUE_NAMES[index]})"
