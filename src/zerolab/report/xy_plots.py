"""Curves, scatter plots, maps of points and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.report.figures import (
    BAND_OPACITY,
    ERROR_STYLE,
    RUN_STYLE,
    add_legend_below,
    error_legend_handle,
    margins_of_error,
    new_figure,
    run_legend_handle,
    series_colour,
    series_legend_handle,
    style_axes,
    with_minus_sign,
)
from zerolab.report.table import Z95

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure


_MAX_ERROR_BARS = 10  # maximum number of error bars per line
_WIDTH, _HEIGHT = 4.2, 3.1  # size of a panel in inches


class Curve(NamedTuple):
    """Values of several runs at a sequence of points."""

    x: Sequence[float]
    """[points], horizontal positions."""
    run_values: Sequence[Sequence[float]]
    """[runs, points], values; NaN where a run has no value, for example after it ended."""
    standard_errors: Sequence[Sequence[float]] = ()
    """[runs, points], standard errors of measuring the values; empty if the values are exact."""


class _CurveStatistics(NamedTuple):
    """Statistics over runs, each float64[points]; NaN if undefined."""

    mean: NDArray[np.float64]
    standard_deviation: NDArray[np.float64]
    """Standard deviation between runs; NaN for fewer than two runs."""
    standard_error: NDArray[np.float64]
    """Standard error of measuring the mean."""


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    title: str,
    x_label: str,
    y_label: str,
    *,
    columns: int = 2,
    units: str = "runs",
) -> Figure:
    """Draw one panel per title, with the mean curve of each series.

    `panels` maps panel titles to the curves of the series. A band extends one standard deviation
    between runs on either side of the mean. Thin bars show the 95 % measurement error of the mean.
    `units` is the plural noun for runs in the legend.
    """
    series = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(max(5.5, _WIDTH * columns), _HEIGHT * rows + 0.9)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (heading, curves) in zip(grid.flat, panels.items(), strict=False):
        for number, name in enumerate(series):
            if name in curves and len(curves[name].run_values):
                _draw_curve(axes, curves[name], number, len(series))
        style_axes(axes, heading)
        axes.set_xlabel(x_label, parse_math=False)
        if all(float(x).is_integer() for curve in curves.values() for x in curve.x):
            axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_label, parse_math=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, parse_math=False)
    add_legend_below(figure, _curve_legend_handles(panels, series, units))
    return figure


def _draw_curve(axes: Axes, curve: Curve, number: int, line_count: int) -> None:
    statistics, x, shade = (
        _statistics_by_point(curve),
        np.asarray(curve.x, np.float64),
        series_colour(number),
    )
    mean, deviation = statistics.mean, statistics.standard_deviation
    axes.fill_between(
        x, mean - deviation, mean + deviation, color=shade, alpha=BAND_OPACITY, linewidth=0
    )
    has_markers = len(x) <= 2 * _MAX_ERROR_BARS
    markers: dict[str, Any] = {"marker": "o", "markersize": 3} if has_markers else {}
    axes.plot(x, mean, color=shade, linewidth=1.6, **markers)
    if len(curve.standard_errors):
        step = -(-len(x) // _MAX_ERROR_BARS)
        bars = slice(number * step // line_count, None, step)  # at different points for each line
        axes.errorbar(
            x[bars], mean[bars], yerr=Z95 * statistics.standard_error[bars], linestyle="",
            color=shade, elinewidth=0.8, capsize=1.5,
        )  # fmt: skip


def _statistics_by_point(curve: Curve) -> _CurveStatistics:
    """Return the statistics at each point over the runs that have a value there."""
    values = np.asarray(curve.run_values, np.float64)
    is_known = ~np.isnan(values)
    counts = is_known.sum(axis=0)
    divisors = np.maximum(1, counts)
    mean = np.where(counts > 0, np.where(is_known, values, 0.0).sum(axis=0) / divisors, np.nan)
    squares = np.where(is_known, (values - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.where(counts > 1, np.sqrt(squares / np.maximum(1, counts - 1)), np.nan)
    has_errors = len(curve.standard_errors) > 0
    errors = np.asarray(curve.standard_errors, np.float64) if has_errors else np.zeros_like(values)
    error = np.sqrt(np.where(is_known, errors**2, 0.0).sum(axis=0)) / divisors
    return _CurveStatistics(mean, deviation, error)


def _curve_legend_handles(
    panels: Mapping[str, Mapping[str, Curve]], series: Sequence[str], units: str
) -> list[Artist]:
    curves = [curve for panel in panels.values() for curve in panel.values()]
    handles = [
        series_legend_handle(series_colour(number), name) for number, name in enumerate(series)
    ]
    if any(len(curve.run_values) > 1 for curve in curves):
        text = f"mean of {units} \N{PLUS-MINUS SIGN} one SD between {units}"
        handles.append(series_legend_handle("0.85", text))
    if any(len(curve.standard_errors) for curve in curves):
        handles.append(error_legend_handle("error of measuring the mean, 95 %"))
    return handles


_RING: dict[str, Any] = {"marker": "o", "markersize": 11, "mec": "black", "mew": 1.2}
_FRONT_LABEL = "front: no other is as good at no more cost"
_LINE = 0.17  # height of a line in the list, in inches


class ScatterPoint(NamedTuple):
    """Run, or mean of runs with the same settings."""

    cost: float
    value: float
    label: str = ""
    """Label in the list of points on the Pareto front."""
    standard_error: float = 0.0
    """Standard error of measuring the value."""
    standard_deviation: float = 0.0
    """Standard deviation of the value between runs; 0 if the point is a single run."""


def draw_scatter(
    series: Mapping[str, Sequence[ScatterPoint]], title: str, cost_label: str, value_label: str
) -> Figure:
    """Draw points, with one colour per series, and the Pareto front of all points.

    Points on the front are numbered, and any labels of these points are listed next to the axes.
    """
    coloured = [
        (point, series_colour(i)) for i, points in enumerate(series.values()) for point in points
    ]
    costs, values = [point.cost for point, _ in coloured], [point.value for point, _ in coloured]
    front = [coloured[i] for i in pareto_front_indices(costs, values)]
    labels = [
        f"{number}  {point.label}" for number, (point, _) in enumerate(front, 1) if point.label
    ]
    letters = max(map(len, labels), default=0)
    figure = new_figure(7.2 + 0.075 * letters, max(4.8, 1.9 + _LINE * len(labels)))
    axes = figure.subplots()
    for number, points in enumerate(series.values()):
        _draw_points(axes, points, series_colour(number))
    _draw_front(axes, front)
    axes.set_xlabel(cost_label, parse_math=False)
    axes.set_ylabel(value_label, parse_math=False)
    style_axes(axes)
    if labels:
        axes.text(
            1.02, 1.0, "\n".join(["on the front", *labels]), transform=axes.transAxes, va="top",
            fontsize=8, linespacing=1.5, parse_math=False,
        )  # fmt: skip
    figure.suptitle(title, parse_math=False)
    add_legend_below(figure, _scatter_legend_handles(series))
    return figure


def _draw_points(axes: Axes, points: Sequence[ScatterPoint], shade: str) -> None:
    x, y = [point.cost for point in points], [point.value for point in points]
    deviations = [point.standard_deviation for point in points]
    if any(deviations):
        axes.errorbar(x, y, yerr=deviations, linestyle="", color=shade, alpha=0.3, elinewidth=4)
    errors = margins_of_error(point.standard_error for point in points)
    axes.errorbar(
        x, y, yerr=errors if any(errors) else None, linestyle="", color=shade, zorder=3,
        **RUN_STYLE, **ERROR_STYLE,
    )  # fmt: skip


def _draw_front(axes: Axes, front: Sequence[tuple[ScatterPoint, str]]) -> None:
    """Draw the best value up to each cost, with numbers inside the points."""
    x, y = [point.cost for point, _ in front], [point.value for point, _ in front]
    axes.step(x, y, where="post", color="black", linewidth=0.9, zorder=2)
    for number, (point, shade) in enumerate(front, 1):
        axes.plot([point.cost], [point.value], color=shade, zorder=4, **_RING)
        axes.annotate(
            str(number), (point.cost, point.value), ha="center", va="center_baseline",
            fontsize=7, color="white", weight="bold", zorder=5,
        )  # fmt: skip


def _scatter_legend_handles(series: Mapping[str, Sequence[ScatterPoint]]) -> list[Artist]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    all_points = [point for points in series.values() for point in points]
    handles = [
        series_legend_handle(series_colour(number), name) for number, name in enumerate(series)
    ]
    handles = handles if len(series) > 1 else []
    are_means = any(point.standard_deviation for point in all_points)
    label = "mean of runs \N{PLUS-MINUS SIGN} one SD between runs"
    handles.append(series_legend_handle("0.8", label) if are_means else run_legend_handle())
    if any(point.standard_error for point in all_points):
        measured = "the mean" if are_means else "a run"
        handles.append(error_legend_handle(f"error of measuring {measured}, 95 %"))
    front = Line2D([], [], color="black", linewidth=0.9, mfc="0.35", label=_FRONT_LABEL, **_RING)
    return [*handles, front]


_MAP = "viridis"  # perceived brightness increases for every type of colour vision


class MapPoint(NamedTuple):
    """Value at a point."""

    x: float
    y: float
    value: float


def draw_point_map(
    points: Sequence[MapPoint], title: str, x_label: str, y_label: str, scale_label: str
) -> Figure:
    """Draw points whose colour shows their value, on axes that begin at 0."""
    figure = new_figure(6.8, 4.8)
    axes = figure.subplots()
    x, y, values = np.array(points, np.float64).reshape(len(points), 3).T
    drawn = axes.scatter(x, y, c=values, cmap=_MAP, s=42, edgecolors="0.3", linewidths=0.5)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(x_label, parse_math=False)
    axes.set_ylabel(y_label, parse_math=False)
    style_axes(axes)
    figure.colorbar(drawn, ax=axes, label=scale_label)
    figure.suptitle(title, parse_math=False)
    return figure


_CELL = (0.85, 0.66)  # width and height in inches
_EMPTY = "#E4E4E4"


class HeatMap(NamedTuple):
    """Means over runs by row and column."""

    row_labels: Sequence[str]
    column_labels: Sequence[str]
    means: NDArray[np.float64]
    """[rows, columns], means; NaN for missing data."""
    standard_deviations: NDArray[np.float64] | None = None
    """[rows, columns], standard deviations between runs; NaN for fewer than two runs."""
    standard_errors: NDArray[np.float64] | None = None
    """[rows, columns], standard errors of measuring one run."""


def draw_heat_maps(
    maps: Mapping[str, HeatMap],
    title: str,
    row_axis_label: str,
    column_axis_label: str,
    scale_label: str,
    *,
    columns: int = 3,
    number_format: str = ".0f",
) -> Figure:
    """Draw heat maps of equal shape, with a common colour scale and the numbers in the cells.

    The small text below each mean shows the standard deviation between runs and the standard error
    of measuring one run.
    """
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415

    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    first = next(iter(maps.values()))
    width = _CELL[0] * len(first.column_labels) + 0.35
    height = _CELL[1] * len(first.row_labels) + 0.55
    figure = new_figure(max(5.0, width * columns + 1.9), height * rows + 1.5)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    norm = _scale(maps)
    for axes, (heading, heat) in zip(grid.flat, maps.items(), strict=False):
        _draw_map(axes, heat, norm, number_format)
        axes.set_title(heading, fontsize=10, parse_math=False)
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    figure.supxlabel(column_axis_label, fontsize=10, parse_math=False)
    figure.supylabel(row_axis_label, fontsize=10, parse_math=False)
    figure.colorbar(
        ScalarMappable(norm, _MAP), ax=grid, label=scale_label, fraction=0.06, aspect=30
    )
    figure.suptitle("\n".join(part for part in (title, _legend(maps)) if part), parse_math=False,
                    fontsize=11)  # fmt: skip
    return figure


def _scale(maps: Mapping[str, HeatMap]) -> Normalize:
    """Return the common colour scale of the maps."""
    from matplotlib.colors import Normalize  # noqa: PLC0415

    known = np.concatenate([np.ravel(heat.means) for heat in maps.values()])
    known = known[~np.isnan(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1.0)


def _draw_map(axes: Axes, heat: HeatMap, norm: Normalize, number_format: str) -> None:
    from matplotlib import colormaps  # noqa: PLC0415

    axes.set_facecolor(_EMPTY)
    axes.imshow(np.ma.masked_invalid(heat.means), cmap=_MAP, norm=norm, aspect="auto")
    for row, column in np.ndindex(heat.means.shape):
        value = heat.means[row, column]
        if np.isnan(value):
            axes.text(column, row, "no data", ha="center", va="center", fontsize=7, color="0.35")
            continue
        errors = _error_text(heat, row, column, number_format)
        red, green, blue, _ = colormaps[_MAP](norm(value))
        luminance = 0.299 * red + 0.587 * green + 0.114 * blue
        ink = "white" if luminance < 0.5 else "black"
        y = row - (0.16 * errors.count("\n") + 0.16 if errors else 0.0)
        axes.text(
            column, y, with_minus_sign(format(value, number_format)), ha="center", va="center",
            fontsize=10, color=ink,
        )  # fmt: skip
        if errors:
            axes.text(column, y + 0.2, errors, ha="center", va="top", fontsize=7, color=ink)
    axes.set_xticks(range(len(heat.column_labels)), heat.column_labels, parse_math=False)
    axes.set_yticks(range(len(heat.row_labels)), heat.row_labels, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _error_text(heat: HeatMap, row: int, column: int, number_format: str) -> str:
    lines = []
    for label, numbers in (("SD", heat.standard_deviations), ("SE", heat.standard_errors)):
        if numbers is not None and not np.isnan(numbers[row, column]):
            lines.append(f"{label} {format(numbers[row, column], number_format)}")
    return "\n".join(lines)


def _legend(maps: Mapping[str, HeatMap]) -> str:
    has_deviations = any(heat.standard_deviations is not None for heat in maps.values())
    has_errors = any(heat.standard_errors is not None for heat in maps.values())
    parts = ["mean of runs"]
    parts += ["SD: between runs"] if has_deviations else []
    parts += ["SE: error of measuring one run"] if has_errors else []
    return "; ".join(parts) if has_deviations or has_errors else ""


def pareto_front_indices(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return the indices of the points on the Pareto front, in order of increasing cost.

    A point is on the front unless another point has a higher value at no more cost, or the same
    value at less cost.
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -values[i])):
        best = front[-1] if front else i
        if values[i] > values[best] or (costs[i], values[i]) == (costs[best], values[best]):
            front.append(i)
    return front
