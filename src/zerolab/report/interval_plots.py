"""Plots of runs, and of means over runs with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.report.figures import (
    BAND_OPACITY,
    ERROR_STYLE,
    PUBLISHED_STYLE,
    RUN_STYLE,
    RunSample,
    add_legend_below,
    error_legend_handle,
    margins_of_error,
    new_figure,
    published_legend_handle,
    run_legend_handle,
    series_colour,
    series_legend_handle,
    style_axes,
    with_minus_sign,
)
from zerolab.report.table import Interval, cell_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GROUP_FILL = 0.82  # fraction of a group's width that is filled with series
_SERIES_INCHES = 0.42  # width of a series in a group
_LABEL_LETTER = 0.085  # inches
_REACH = 1.25  # how far the axis may extend beyond the plotted values, relative to their range


def draw_grouped_runs(
    groups: Mapping[str, Mapping[str, RunSample]],
    title: str,
    axis_label: str,
    baseline: float | None = None,
) -> Figure:
    """Draw samples side by side in groups along the x axis, with one colour per series.

    `groups` maps each group to the samples of its series. Dots are runs, lines are means over runs,
    and boxes are 95 % intervals over runs, which require several runs. If there is a baseline, such
    as 0 hours, bars extend from it to the means. The y axis covers all runs and published numbers.
    Intervals that extend far beyond them, for example with only two runs, are cut off.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    group_inches = max(_SERIES_INCHES * len(series) / _GROUP_FILL, 0.5)
    figure = new_figure(min(15.0, max(5.5, 1.2 + group_inches * len(groups))), 4.6)
    axes = figure.subplots()
    width = _GROUP_FILL / len(series)
    has_published = any(
        each.published_value is not None for group in groups.values() for each in group.values()
    )
    for index, group in enumerate(groups.values()):
        for number, name in enumerate(series):
            if name in group and group[name].values:
                middle = index + width * (number - (len(series) - 1) / 2)
                sample, shade = group[name], series_colour(number)
                _draw_sample(axes, middle, width, has_published, sample, shade, baseline)
    _label_groups(axes, list(groups), (figure.get_figwidth() - 1.2) / len(groups))
    axes.set_ylabel(axis_label, parse_math=False)
    is_cut = _cut_intervals(axes, groups, baseline)
    style_axes(axes)
    axes.grid(visible=False, axis="x")
    figure.suptitle(title, parse_math=False)
    add_legend_below(figure, _group_legend_handles(groups, series, is_cut))
    return figure


def _draw_sample(
    axes: Axes,
    middle: float,
    width: float,
    has_published: bool,
    sample: RunSample,
    shade: str,
    baseline: float | None,
) -> None:
    """Draw a sample at `middle`, or slightly to the left if any sample has a published number."""
    mean = sample.mean
    assert mean is not None  # because there are values
    half = 0.4 * width
    if sample.published_value is not None:
        axes.plot([middle + 0.38 * width], [sample.published_value], zorder=4, **PUBLISHED_STYLE)
    if has_published:
        middle, half = middle - 0.12 * width, 0.32 * width
    ends = (middle - half, middle + half)
    if baseline is not None:
        axes.fill_between(
            ends, baseline, mean.value, color=shade, alpha=BAND_OPACITY / 2, linewidth=0
        )
    if math.isfinite(mean.low):
        axes.fill_between(ends, mean.low, mean.high, color=shade, alpha=BAND_OPACITY, linewidth=0)
    axes.plot(ends, [mean.value] * 2, color=shade, linewidth=1.8, solid_capstyle="butt")
    count = len(sample.values)
    x = [middle + 1.3 * half * ((i + 0.5) / count - 0.5) for i in range(count)]
    axes.errorbar(
        x, sample.values, yerr=margins_of_error(sample.standard_errors) or None, linestyle="",
        color=shade, zorder=3, **RUN_STYLE, **ERROR_STYLE,
    )  # fmt: skip


def _cut_intervals(
    axes: Axes, groups: Mapping[str, Mapping[str, RunSample]], baseline: float | None
) -> bool:
    """Limit the y axis to the plotted values plus a margin.

    Returns True if this cuts off any interval.
    """
    samples = [sample for group in groups.values() for sample in group.values()]
    numbers = [value for sample in samples for value in sample.values]
    for each in samples:
        ends = zip(
            each.values, margins_of_error(each.standard_errors), strict=False
        )  # no ends if there are no errors
        numbers += [value + side * margin for value, margin in ends for side in (-1, 1)]
        numbers += [] if each.published_value is None else [each.published_value]
    numbers += [] if baseline is None else [baseline]
    reach = _REACH * (max(numbers) - min(numbers)) if numbers else 0.0
    low, high = axes.get_ylim()
    if not reach or (low >= min(numbers) - reach and high <= max(numbers) + reach):
        return False
    low, high = max(low, min(numbers) - reach), min(high, max(numbers) + reach)
    axes.set_ylim(low, high)
    intervals = [each.mean for each in samples if each.mean and math.isfinite(each.mean.low)]
    return any(each.low < low or each.high > high for each in intervals)


def _label_groups(axes: Axes, names: list[str], inches: float) -> None:
    """Write names below the groups, slanted if one is wider than the `inches` of a group."""
    axes.set_xlim(-0.5, len(names) - 0.5)
    is_slanted = max(map(len, names)) * _LABEL_LETTER > 0.95 * inches
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, parse_math=False, **(slant if is_slanted else {}))
    axes.tick_params(axis="x", length=0)


def _group_legend_handles(
    groups: Mapping[str, Mapping[str, RunSample]], series: list[str], is_cut: bool
) -> list[Artist]:
    samples = [sample for group in groups.values() for sample in group.values()]
    handles = [
        series_legend_handle(series_colour(number), name) for number, name in enumerate(series)
    ]
    handles = handles if len(series) > 1 else []
    cut = " (some extend beyond the axis)" if is_cut else ""
    interval = f"mean of runs and its 95 % interval{cut}"
    handles += [run_legend_handle(), series_legend_handle("0.8", interval)]
    if any(sample.standard_errors for sample in samples):
        handles.append(error_legend_handle())
    if any(sample.published_value is not None for sample in samples):
        handles.append(published_legend_handle())
    return handles


_ROW, _ROW_WITH_RUNS = 0.34, 0.62  # inches
_LETTER = 0.075
_RUN_OFFSETS = (0.15, 0.37)  # range of the dots for runs below the estimate, in row heights


class IntervalRow(NamedTuple):
    """Row of a plot of intervals."""

    estimate: Interval
    """Estimate with its 95 % interval."""
    run_values: Sequence[float] = ()
    """Values of the individual runs, if they are on the same scale as the estimate."""
    standard_errors: Sequence[float] = ()
    """Standard error of each run's measured value; empty if the values are exact."""


def draw_intervals(
    rows: Mapping[str, IntervalRow],
    title: str,
    axis_label: str,
    *,
    threshold: float | None = None,
    number_format: str = "",
) -> Figure:
    """Draw one row per name: an estimate and its 95 % interval over runs, as marks and as text.

    Hollow squares are estimates without an interval, such as those from a single run.
    """
    names = list(rows)
    texts = [with_minus_sign(cell_text(row.estimate, number_format)) for row in rows.values()]
    letters = max(map(len, names)) + max(map(len, texts))
    height = _ROW_WITH_RUNS if any(row.run_values for row in rows.values()) else _ROW
    figure = new_figure(5.0 + _LETTER * letters, 1.7 + height * len(rows))
    axes = figure.subplots()
    if threshold is not None:
        axes.axvline(threshold, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    for index, row in enumerate(rows.values()):
        _draw_row(axes, index, row)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(axis_label, parse_math=False)
    style_axes(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    for index, text in enumerate(texts):
        axes.text(
            1.02, index, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5,
            parse_math=False,
        )  # fmt: skip
    figure.suptitle(title, parse_math=False)
    add_legend_below(figure, _interval_legend_handles(rows, threshold))
    return figure


def _draw_row(axes: Axes, y: float, row: IntervalRow) -> None:
    estimate = row.estimate
    if row.run_values:
        first, last = _RUN_OFFSETS
        step = (last - first) / len(row.run_values)
        run_y = [y + first + step * (i + 0.5) for i in range(len(row.run_values))]
        axes.errorbar(
            row.run_values, run_y, xerr=margins_of_error(row.standard_errors) or None,
            linestyle="", color="0.55", **RUN_STYLE, **ERROR_STYLE,
        )  # fmt: skip
    if estimate.is_bounded:
        axes.plot([estimate.low, estimate.high], [y] * 2, color=series_colour(0), linewidth=2.2)
    axes.plot(
        [estimate.value], [y], marker="s", markersize=6, color=series_colour(0),
        mfc=series_colour(0) if estimate.is_bounded else "white",
    )  # fmt: skip


def _interval_legend_handles(
    rows: Mapping[str, IntervalRow], threshold: float | None
) -> list[Artist]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    square: dict[str, Any] = {"marker": "s", "markersize": 6, "color": series_colour(0)}
    handles: list[Artist] = [
        Line2D([], [], linewidth=2.2, label="estimate, 95 % interval over runs", **square)
    ]
    if any(math.isinf(row.estimate.high) for row in rows.values()):
        handles.append(Line2D([], [], linestyle="", mfc="white", label="no interval", **square))
    if any(row.run_values for row in rows.values()):
        handles.append(run_legend_handle("0.55"))
    if any(row.standard_errors for row in rows.values()):
        handles.append(error_legend_handle())
    if threshold is not None:
        handles.append(
            Line2D([], [], color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="threshold")
        )
    return handles
