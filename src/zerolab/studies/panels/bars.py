"""Groups of runs side by side: every run, their mean with its interval, and published numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.studies.panels.samples import (
    BAND,
    ERROR,
    PUBLISHED,
    RUN,
    Sample,
    finish,
    key_colour,
    key_error,
    key_published,
    key_run,
    margins,
)
from zerolab.studies.statistics import mean_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TAKEN = 0.82  # of the room of a group
_INCHES = 0.42  # of a series in a group
_LETTER = 0.085  # inches
_REACH = 1.25  # of the range of the runs: how far beyond it intervals are shown


def draw_bars(
    groups: Mapping[str, Mapping[str, Sample]],
    title: str,
    axis: str,
    baseline: float | None = None,
) -> Figure:
    """Draw the groups along the x axis, in each of them a colour per series.

    A dot is a run, the line their mean, the box its 95 % interval over runs, which one run does not
    have. With a baseline, such as 0 hours, bars rise from it to the means. The axis shows all runs
    and published numbers; an interval far beyond them, such as that of two runs, leaves it.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    room = max(_INCHES * len(series) / _TAKEN, 0.5)
    figure = new_figure(min(15.0, max(5.5, 1.2 + room * len(groups))), 4.6)
    axes = figure.subplots()
    width = _TAKEN / len(series)
    beside = any(each.published is not None for group in groups.values() for each in group.values())
    for place, group in enumerate(groups.values()):
        for number, name in enumerate(series):
            if name in group and group[name].values:
                middle = place + width * (number - (len(series) - 1) / 2)
                _draw_sample(axes, middle, width, beside, group[name], colour(number), baseline)
    _label_groups(axes, list(groups), (figure.get_figwidth() - 1.2) / len(groups))
    axes.set_ylabel(axis, parse_math=False)
    is_cut = _cut_intervals(axes, groups, baseline)
    finish(axes)
    axes.grid(visible=False, axis="x")
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _keys(groups, series, is_cut))
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
    """Draw runs in the middle of their room, or left of it if published numbers are `beside`."""
    mean = mean_of(sample.values)
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
    places = [middle + 1.3 * half * ((i + 0.5) / count - 0.5) for i in range(count)]
    axes.errorbar(
        places, sample.values, yerr=margins(sample.errors) or None, linestyle="", color=shade,
        zorder=3, **RUN, **ERROR,
    )  # fmt: skip


def _cut_intervals(
    axes: Axes, groups: Mapping[str, Mapping[str, Sample]], baseline: float | None
) -> bool:
    """Keep the axis within reach of the runs; return whether intervals leave it."""
    samples = [sample for group in groups.values() for sample in group.values()]
    shown = [value for sample in samples for value in sample.values]
    for each in samples:
        ends = zip(each.values, margins(each.errors), strict=False)  # nothing without errors
        shown += [value + side * margin for value, margin in ends for side in (-1, 1)]
        shown += [] if each.published is None else [each.published]
    shown += [] if baseline is None else [baseline]
    reach = _REACH * (max(shown) - min(shown)) if shown else 0.0
    low, high = axes.get_ylim()
    if not reach or (low >= min(shown) - reach and high <= max(shown) + reach):
        return False
    axes.set_ylim(max(low, min(shown) - reach), min(high, max(shown) + reach))
    return True


def _label_groups(axes: Axes, names: list[str], room: float) -> None:
    """Write the names below the groups, aslant where `room` inches are too few for one."""
    axes.set_xlim(-0.5, len(names) - 0.5)
    aslant = max(map(len, names)) * _LETTER > 0.95 * room
    turn: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, parse_math=False, **(turn if aslant else {}))
    axes.tick_params(axis="x", length=0)


def _keys(
    groups: Mapping[str, Mapping[str, Sample]], series: list[str], is_cut: bool
) -> list[Artist]:
    samples = [sample for group in groups.values() for sample in group.values()]
    keys = [key_colour(colour(number), name) for number, name in enumerate(series)]
    keys = keys if len(series) > 1 else []
    interval = f"mean of runs and its 95 % interval{' (some leave the axis)' if is_cut else ''}"
    keys += [key_run(), key_colour("0.8", interval)]
    keys += [key_error()] if any(sample.errors for sample in samples) else []
    return keys + ([key_published()] if any(each.published is not None for each in samples) else [])
