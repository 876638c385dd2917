"""Plots of runs and of their means with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.report.figures import (
    BAND,
    ERROR,
    PUBLISHED,
    RUN,
    Sample,
    colour,
    finish,
    key_colour,
    key_error,
    key_published,
    key_run,
    legend_below,
    margins,
    new_figure,
    with_minus,
)
from zerolab.report.interval import Interval, cell_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GROUP_FILL = 0.82  # fraction of the width of a group that series fill
_SERIES_INCHES = 0.42  # width of a series in a group
_LABEL_LETTER = 0.085  # inches
_REACH = 1.25  # extension of the axis beyond the runs, relative to their range


def draw_bars(
    groups: Mapping[str, Mapping[str, Sample]],
    title: str,
    axis: str,
    baseline: float | None = None,
) -> Figure:
    """Draw groups of runs along the x axis, with one colour per series.

    Dots are runs, lines are their means, and boxes are 95 % intervals over runs, which require
    several runs. If there is a baseline, such as 0 hours, bars extend from it to the means. The
    axis covers all runs and published numbers. Intervals that extend far beyond them, such as those
    of only two runs, are cut off.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    group_inches = max(_SERIES_INCHES * len(series) / _GROUP_FILL, 0.5)
    figure = new_figure(min(15.0, max(5.5, 1.2 + group_inches * len(groups))), 4.6)
    axes = figure.subplots()
    width = _GROUP_FILL / len(series)
    beside = any(each.published is not None for group in groups.values() for each in group.values())
    for index, group in enumerate(groups.values()):
        for number, name in enumerate(series):
            if name in group and group[name].values:
                middle = index + width * (number - (len(series) - 1) / 2)
                _draw_sample(axes, middle, width, beside, group[name], colour(number), baseline)
    _label_groups(axes, list(groups), (figure.get_figwidth() - 1.2) / len(groups))
    axes.set_ylabel(axis, parse_math=False)
    is_cut = _cut_intervals(axes, groups, baseline)
    finish(axes)
    axes.grid(visible=False, axis="x")
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _bar_keys(groups, series, is_cut))
    return figure


def _draw_sample(
    axes: Axes,
    middle: float,
    width: float,
    beside: bool,
    sample: Sample,
    shade: str,
    baseline: float | None,
) -> None:
    """Draw runs at `middle`, or slightly left of it if there are published numbers `beside`."""
    mean = sample.mean
    assert mean is not None  # since there are values
    half = 0.4 * width
    if sample.published is not None:
        axes.plot([middle + 0.38 * width], [sample.published], zorder=4, **PUBLISHED)
    if beside:
        middle, half = middle - 0.12 * width, 0.32 * width
    ends = (middle - half, middle + half)
    if baseline is not None:
        axes.fill_between(ends, baseline, mean.value, color=shade, alpha=BAND / 2, linewidth=0)
    if math.isfinite(mean.low):
        axes.fill_between(ends, mean.low, mean.high, color=shade, alpha=BAND, linewidth=0)
    axes.plot(ends, [mean.value] * 2, color=shade, linewidth=1.8, solid_capstyle="butt")
    count = len(sample.values)
    x = [middle + 1.3 * half * ((i + 0.5) / count - 0.5) for i in range(count)]
    axes.errorbar(
        x, sample.values, yerr=margins(sample.errors) or None, linestyle="", color=shade,
        zorder=3, **RUN, **ERROR,
    )  # fmt: skip


def _cut_intervals(
    axes: Axes, groups: Mapping[str, Mapping[str, Sample]], baseline: float | None
) -> bool:
    """Limit the axis to the range of the runs and a margin; return True if this cuts intervals."""
    samples = [sample for group in groups.values() for sample in group.values()]
    numbers = [value for sample in samples for value in sample.values]
    for each in samples:
        ends = zip(each.values, margins(each.errors), strict=False)  # empty without errors
        numbers += [value + side * margin for value, margin in ends for side in (-1, 1)]
        numbers += [] if each.published is None else [each.published]
    numbers += [] if baseline is None else [baseline]
    reach = _REACH * (max(numbers) - min(numbers)) if numbers else 0.0
    low, high = axes.get_ylim()
    if not reach or (low >= min(numbers) - reach and high <= max(numbers) + reach):
        return False
    axes.set_ylim(max(low, min(numbers) - reach), min(high, max(numbers) + reach))
    return True


def _label_groups(axes: Axes, names: list[str], inches: float) -> None:
    """Write the names below the groups, slanted if a name is wider than a group of `inches`."""
    axes.set_xlim(-0.5, len(names) - 0.5)
    is_slanted = max(map(len, names)) * _LABEL_LETTER > 0.95 * inches
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, parse_math=False, **(slant if is_slanted else {}))
    axes.tick_params(axis="x", length=0)


def _bar_keys(
    groups: Mapping[str, Mapping[str, Sample]], series: list[str], is_cut: bool
) -> list[Artist]:
    samples = [sample for group in groups.values() for sample in group.values()]
    keys = [key_colour(colour(number), name) for number, name in enumerate(series)]
    keys = keys if len(series) > 1 else []
    interval = f"mean of runs and its 95 % interval{' (some leave the axis)' if is_cut else ''}"
    keys += [key_run(), key_colour("0.8", interval)]
    keys += [key_error()] if any(sample.errors for sample in samples) else []
    return keys + ([key_published()] if any(each.published is not None for each in samples) else [])


_ROW, _ROW_WITH_RUNS = 0.34, 0.62  # inches
_LETTER = 0.075
_RUN_OFFSETS = (0.15, 0.37)  # of the first and the last run below an estimate, in rows


class Row(NamedTuple):
    """A row of the figure."""

    estimate: Interval
    """Estimate with its 95 % interval."""
    runs: Sequence[float] = ()
    """Values of the individual runs, if they are on the same scale as the estimate."""
    errors: Sequence[float] = ()
    """Standard errors of these values due to measurement."""


def draw_intervals(
    rows: Mapping[str, Row],
    title: str,
    axis: str,
    *,
    threshold: float | None = None,
    number_format: str = "",
) -> Figure:
    """Draw one row per name with its 95 % interval over runs, and its numbers on the right.

    Hollow squares are estimates without an interval, such as those from a single run.
    """
    names = list(rows)
    texts = [with_minus(cell_text(row.estimate, number_format)) for row in rows.values()]
    letters = max(map(len, names)) + max(map(len, texts))
    height = _ROW_WITH_RUNS if any(row.runs for row in rows.values()) else _ROW
    figure = new_figure(5.0 + _LETTER * letters, 1.7 + height * len(rows))
    axes = figure.subplots()
    if threshold is not None:
        axes.axvline(threshold, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    for index, row in enumerate(rows.values()):
        _draw_row(axes, index, row)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(axis, parse_math=False)
    finish(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    for index, text in enumerate(texts):
        axes.text(
            1.02, index, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5,
            parse_math=False,
        )  # fmt: skip
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _interval_keys(rows, threshold))
    return figure


def _draw_row(axes: Axes, y: float, row: Row) -> None:
    estimate = row.estimate
    if row.runs:
        first, last = _RUN_OFFSETS
        step = (last - first) / len(row.runs)
        run_y = [y + first + step * (i + 0.5) for i in range(len(row.runs))]
        axes.errorbar(
            row.runs, run_y, xerr=margins(row.errors) or None,
            linestyle="", color="0.55", **RUN, **ERROR,
        )  # fmt: skip
    if estimate.is_known:
        axes.plot([estimate.low, estimate.high], [y] * 2, color=colour(0), linewidth=2.2)
    axes.plot(
        [estimate.value], [y], marker="s", markersize=6, color=colour(0),
        mfc=colour(0) if estimate.is_known else "white",
    )  # fmt: skip


def _interval_keys(rows: Mapping[str, Row], threshold: float | None) -> list[Artist]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    square: dict[str, Any] = {"marker": "s", "markersize": 6, "color": colour(0)}
    keys: list[Artist] = [
        Line2D([], [], linewidth=2.2, label="estimate, 95 % interval over runs", **square)
    ]
    if any(math.isinf(row.estimate.high) for row in rows.values()):
        keys.append(Line2D([], [], linestyle="", mfc="white", label="no interval", **square))
    keys += [key_run("0.55")] if any(row.runs for row in rows.values()) else []
    keys += [key_error()] if any(row.errors for row in rows.values()) else []
    if threshold is not None:
        keys.append(
            Line2D([], [], color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="threshold")
        )
    return keys
