"""Plots of numbers over one or two others: curves, scatter plots, heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.report.figures import (
    BAND,
    ERROR,
    RUN,
    colour,
    finish,
    key_colour,
    key_error,
    key_run,
    legend_below,
    margins,
    new_figure,
    with_minus,
)
from zerolab.report.interval import Z95

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure


_MOST_BARS = 10  # of errors of measurement on one line
_WIDTH, _HEIGHT = 4.2, 3.1  # of a panel, inches


class Curve(NamedTuple):
    """A number of several runs at each of several points."""

    x: Sequence[float]
    runs: Sequence[Sequence[float]]
    """[runs, points]; NaN where a run has no number, such as after its end."""
    errors: Sequence[Sequence[float]] = ()
    """[runs, points]: standard errors of measuring them; empty if they are exact."""


class _Mean(NamedTuple):
    """Statistics of runs, float64[points] each, NaN where undefined."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """Standard deviation between runs; NaN for fewer than two."""
    error: NDArray[np.float64]
    """Standard error of the mean due to measurement."""


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    title: str,
    x_axis: str,
    y_axis: str,
    *,
    columns: int = 2,
    units: str = "runs",
) -> Figure:
    """Draw a panel per title and a line per series.

    The band is one standard deviation between runs on either side of their mean; thin bars are the
    error of measuring the mean. `units` names what is averaged, if not runs.
    """
    series = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(max(5.5, _WIDTH * columns), _HEIGHT * rows + 0.9)
    every = figure.subplots(rows, columns, squeeze=False)
    for axes, (heading, curves) in zip(every.flat, panels.items(), strict=False):
        for number, name in enumerate(series):
            if name in curves and len(curves[name].runs):
                _draw_curve(axes, curves[name], number, len(series))
        finish(axes, heading if len(panels) > 1 else "")
        axes.set_xlabel(x_axis, parse_math=False)
        if all(float(x).is_integer() for curve in curves.values() for x in curve.x):
            axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in every[:, 0]:
        axes.set_ylabel(y_axis, parse_math=False)
    for axes in every.flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _curve_keys(panels, series, units))
    return figure


def _draw_curve(axes: Axes, curve: Curve, number: int, lines: int) -> None:
    found, x, shade = _mean(curve), np.asarray(curve.x, np.float64), colour(number)
    low, high = found.mean - found.deviation, found.mean + found.deviation
    axes.fill_between(x, low, high, color=shade, alpha=BAND, linewidth=0)
    points: dict[str, Any] = {"marker": "o", "markersize": 3} if len(x) <= 2 * _MOST_BARS else {}
    axes.plot(x, found.mean, color=shade, linewidth=1.6, **points)
    if len(curve.errors):
        step = -(-len(x) // _MOST_BARS)
        chosen = slice(
            number * step // lines, None, step
        )  # so that bars of two lines do not coincide
        axes.errorbar(
            x[chosen], found.mean[chosen], yerr=Z95 * found.error[chosen], linestyle="",
            color=shade, elinewidth=0.8, capsize=1.5,
        )  # fmt: skip


def _mean(curve: Curve) -> _Mean:
    """Return mean, deviation and error at each point over the runs with a number there."""
    values = np.asarray(curve.runs, np.float64)
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    one = np.maximum(1, counts)
    mean = np.where(counts > 0, np.where(known, values, 0.0).sum(axis=0) / one, np.nan)
    squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.where(counts > 1, np.sqrt(squares / np.maximum(1, counts - 1)), np.nan)
    errors = np.asarray(curve.errors, np.float64) if len(curve.errors) else np.zeros_like(values)
    error = np.sqrt(np.where(known, errors**2, 0.0).sum(axis=0)) / one
    return _Mean(mean, deviation, error)


def _curve_keys(
    panels: Mapping[str, Mapping[str, Curve]], series: Sequence[str], units: str
) -> list[Artist]:
    curves = [curve for panel in panels.values() for curve in panel.values()]
    keys = [key_colour(colour(number), name) for number, name in enumerate(series)]
    if any(len(curve.runs) > 1 for curve in curves):
        text = f"mean of {units} \N{PLUS-MINUS SIGN} one SD between {units}"
        keys.append(key_colour("0.85", text))
    if any(len(curve.errors) for curve in curves):
        keys.append(key_error("error of measuring the mean, 95 %"))
    return keys


_RING: dict[str, Any] = {"marker": "o", "markersize": 11, "mec": "black", "mew": 1.2}
_EXPLAINED = "front: no other is as good at no more cost"
_LINE = 0.17  # inches of a line of the list


class Point(NamedTuple):
    """A run, or the mean of runs with the same settings."""

    cost: float
    value: float
    label: str = ""
    error: float = 0.0
    """Standard error of measuring the value."""
    spread: float = 0.0
    """Standard deviation between runs, if the point is a mean of several."""


def draw_scatter(
    series: Mapping[str, Sequence[Point]], title: str, cost_axis: str, value_axis: str
) -> Figure:
    """Draw points, with one colour per series, and their Pareto front.

    Points on the front are numbered; their labels, if any, are listed beside the axes.
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
    legend_below(figure, _scatter_keys(series))
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
    """Draw the best value at each cost, with numbers inside the points."""
    x, y = [point.cost for point, _ in front], [point.value for point, _ in front]
    axes.step(x, y, where="post", color="black", linewidth=0.9, zorder=2)
    for number, (point, shade) in enumerate(front, 1):
        axes.plot([point.cost], [point.value], color=shade, zorder=4, **_RING)
        axes.annotate(
            str(number), (point.cost, point.value), ha="center", va="center_baseline",
            fontsize=7, color="white", weight="bold", zorder=5,
        )  # fmt: skip


def _scatter_keys(series: Mapping[str, Sequence[Point]]) -> list[Artist]:
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


_MAP = "viridis"  # ordered by brightness for every kind of colour vision
_CELL = (0.85, 0.66)  # inches
_EMPTY = "#E4E4E4"


class Heat(NamedTuple):
    """A map of means over runs; NaN marks missing ones."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray[np.float64]
    """[rows, columns]"""
    spread: NDArray[np.float64] | None = None
    """[rows, columns]: standard deviations between runs; NaN for fewer than two."""
    errors: NDArray[np.float64] | None = None
    """[rows, columns]: standard errors of measuring one run."""


def draw_heat(
    maps: Mapping[str, Heat],
    title: str,
    row_axis: str,
    column_axis: str,
    scale: str,
    *,
    columns: int = 3,
    number_format: str = ".0f",
) -> Figure:
    """Draw maps of equal shape with a common colour scale and their numbers in the cells.

    Below each mean, in small print, are the standard deviation between runs and the standard error
    of measuring one run.
    """
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415

    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    first = next(iter(maps.values()))
    width = _CELL[0] * len(first.columns) + 0.35
    height = _CELL[1] * len(first.rows) + 0.55
    figure = new_figure(max(5.0, width * columns + 1.9), height * rows + 1.5)
    every = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    norm = _scale(maps)
    for axes, (heading, heat) in zip(every.flat, maps.items(), strict=False):
        _draw_map(axes, heat, norm, number_format)
        axes.set_title(heading if len(maps) > 1 else "", fontsize=10, parse_math=False)
    for axes in every.flat[len(maps) :]:
        axes.set_axis_off()
    figure.supxlabel(column_axis, fontsize=10, parse_math=False)
    figure.supylabel(row_axis, fontsize=10, parse_math=False)
    figure.colorbar(ScalarMappable(norm, _MAP), ax=every, label=scale, fraction=0.06, aspect=30)
    figure.suptitle("\n".join(part for part in (title, _legend(maps)) if part), parse_math=False,
                    fontsize=11)  # fmt: skip
    return figure


def _scale(maps: Mapping[str, Heat]) -> Normalize:
    """Return the common range of the colours of all maps."""
    from matplotlib.colors import Normalize  # noqa: PLC0415

    known = np.concatenate([np.ravel(heat.values) for heat in maps.values()])
    known = known[~np.isnan(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1.0)


def _draw_map(axes: Axes, heat: Heat, norm: Normalize, number_format: str) -> None:
    from matplotlib import colormaps  # noqa: PLC0415

    axes.set_facecolor(_EMPTY)
    axes.imshow(np.ma.masked_invalid(heat.values), cmap=_MAP, norm=norm, aspect="auto")
    for row, column in np.ndindex(heat.values.shape):
        value = heat.values[row, column]
        if np.isnan(value):
            axes.text(column, row, "no data", ha="center", va="center", fontsize=7, color="0.35")
            continue
        small = _small(heat, row, column, number_format)
        ink = "white" if _luminance(colormaps[_MAP](norm(value))) < 0.5 else "black"
        lift = 0.16 * small.count("\n") + 0.16 if small else 0.0
        axes.text(
            column, row - lift, with_minus(format(value, number_format)), ha="center", va="center",
            fontsize=10, color=ink,
        )  # fmt: skip
        if small:
            axes.text(column, row - lift + 0.2, small, ha="center", va="top", fontsize=7, color=ink)
    axes.set_xticks(range(len(heat.columns)), heat.columns, parse_math=False)
    axes.set_yticks(range(len(heat.rows)), heat.rows, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _small(heat: Heat, row: int, column: int, number_format: str) -> str:
    lines = []
    for mark, numbers in (("SD", heat.spread), ("SE", heat.errors)):
        if numbers is not None and not np.isnan(numbers[row, column]):
            lines.append(f"{mark} {format(numbers[row, column], number_format)}")
    return "\n".join(lines)


def _legend(maps: Mapping[str, Heat]) -> str:
    spread = any(heat.spread is not None for heat in maps.values())
    errors = any(heat.errors is not None for heat in maps.values())
    parts = ["mean of runs"]
    parts += ["SD: between runs"] if spread else []
    parts += ["SE: error of measuring one run"] if errors else []
    return "; ".join(parts) if spread or errors else ""


def _luminance(rgba: Sequence[float]) -> float:
    return 0.299 * rgba[0] + 0.587 * rgba[1] + 0.114 * rgba[2]


def pareto_front(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return which points no other one beats: cheaper and as good, or better and as cheap.

    By rising cost; equal points are all kept.
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -values[i])):
        best = front[-1] if front else i
        if values[i] > values[best] or (costs[i], values[i]) == (costs[best], values[best]):
            front.append(i)
    return front
