"""What is gained against what it costs, and what no other choice beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.studies.panels.samples import (
    ERROR,
    RUN,
    finish,
    key_colour,
    key_error,
    key_run,
    margins,
)
from zerolab.studies.statistics import pareto_front

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RING: dict[str, Any] = {"marker": "o", "markersize": 11, "mec": "black", "mew": 1.2}
_EXPLAINED = "front: no other is as good at no more cost"
_LINE = 0.17  # inches of a line of the list


class Point(NamedTuple):
    """A run, or the mean of several runs of one choice."""

    cost: float
    value: float
    label: str = ""
    error: float = 0.0
    """The standard error of measuring the value."""
    spread: float = 0.0
    """The standard deviation between runs where the point is the mean of several."""


def draw_scatter(
    series: Mapping[str, Sequence[Point]], title: str, cost_axis: str, value_axis: str
) -> Figure:
    """Draw a colour per series, and the front of all points: none is cheaper and as good.

    Points on the front have numbers, which are explained beside the axes where they have labels.
    """
    every = [(point, colour(i)) for i, points in enumerate(series.values()) for point in points]
    chosen = pareto_front([each.cost for each, _ in every], [each.value for each, _ in every])
    front = [every[i] for i in chosen]
    listed = [
        f"{number}  {point.label}" for number, (point, _) in enumerate(front, 1) if point.label
    ]
    letters = max(map(len, listed), default=0)
    figure = new_figure(7.2 + 0.075 * letters, max(4.8, 1.9 + _LINE * len(listed)))
    axes = figure.subplots()
    for number, points in enumerate(series.values()):
        _draw_points(axes, points, colour(number))
    _draw_front(axes, front)
    axes.set_xlabel(cost_axis, parse_math=False)
    axes.set_ylabel(value_axis, parse_math=False)
    finish(axes)
    if listed:
        axes.text(
            1.02, 1.0, "\n".join(["on the front", *listed]), transform=axes.transAxes, va="top",
            fontsize=8, linespacing=1.5, parse_math=False,
        )  # fmt: skip
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _keys(series))
    return figure


def _draw_points(axes: Axes, points: Sequence[Point], shade: str) -> None:
    x, y = [point.cost for point in points], [point.value for point in points]
    spreads = [point.spread for point in points]
    if any(spreads):
        axes.errorbar(x, y, yerr=spreads, linestyle="", color=shade, alpha=0.3, elinewidth=4)
    errors = margins(point.error for point in points)
    axes.errorbar(
        x, y, yerr=errors if any(errors) else None, linestyle="", color=shade, zorder=3,
        **RUN, **ERROR,
    )  # fmt: skip


def _draw_front(axes: Axes, front: Sequence[tuple[Point, str]]) -> None:
    """Draw the best value that each cost allows, with numbers in the points, not beside them."""
    x, y = [point.cost for point, _ in front], [point.value for point, _ in front]
    axes.step(x, y, where="post", color="black", linewidth=0.9, zorder=2)
    for number, (point, shade) in enumerate(front, 1):
        axes.plot([point.cost], [point.value], color=shade, zorder=4, **_RING)
        axes.annotate(
            str(number), (point.cost, point.value), ha="center", va="center_baseline",
            fontsize=7, color="white", weight="bold", zorder=5,
        )  # fmt: skip


def _keys(series: Mapping[str, Sequence[Point]]) -> list[Artist]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    points = [point for every in series.values() for point in every]
    keys = [key_colour(colour(number), name) for number, name in enumerate(series)]
    keys = keys if len(series) > 1 else []
    means = any(point.spread for point in points)
    spread = "mean of runs \N{PLUS-MINUS SIGN} one SD between runs"
    keys.append(key_colour("0.8", spread) if means else key_run())
    if any(point.error for point in points):
        keys.append(key_error(f"error of measuring {'the mean' if means else 'a run'}, 95 %"))
    front = Line2D([], [], color="black", linewidth=0.9, mfc="0.35", label=_EXPLAINED, **_RING)
    return [*keys, front]
