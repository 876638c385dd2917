"""How runs develop: the mean of some runs with their standard deviation, over iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.ratings.score import Z95
from zerolab.studies.panels.samples import BAND, finish, key_colour, key_error

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 10  # of errors of measurement on one line
_WIDTH, _HEIGHT = 4.2, 3.1  # of a panel, inches


class Curve(NamedTuple):
    """A number that some runs have at each of several points."""

    x: Sequence[float]
    runs: Sequence[Sequence[float]]
    """[runs, points]; NaN where a run has none, such as after its end."""
    errors: Sequence[Sequence[float]] = ()
    """[runs, points]: the standard errors of measuring them; empty where they are exact."""


class _Mean(NamedTuple):
    """float64[points] each, NaN where there is none."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """Between runs; NaN for fewer than two."""
    error: NDArray[np.float64]
    """The standard error of the mean that measurement alone makes."""


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    title: str,
    x_axis: str,
    y_axis: str,
    *,
    columns: int = 2,
    units: str = "runs",
) -> Figure:
    """Draw a panel per title and a line per series, which has its colour in all panels.

    The band is one standard deviation between runs on either side of their mean, thin bars are the
    error of measuring that mean. `units` says what has a number each, where it is not runs.
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
    legend_below(figure, _keys(panels, series, units))
    return figure


def _draw_curve(axes: Axes, curve: Curve, number: int, lines: int) -> None:
    found, x, shade = _mean(curve), np.asarray(curve.x, np.float64), colour(number)
    low, high = found.mean - found.deviation, found.mean + found.deviation
    axes.fill_between(x, low, high, color=shade, alpha=BAND, linewidth=0)
    points: dict[str, Any] = {"marker": "o", "markersize": 3} if len(x) <= 2 * _MOST_BARS else {}
    axes.plot(x, found.mean, color=shade, linewidth=1.6, **points)
    if len(curve.errors):
        step = -(-len(x) // _MOST_BARS)
        chosen = slice(number * step // lines, None, step)  # bars of two lines do not coincide
        axes.errorbar(
            x[chosen], found.mean[chosen], yerr=Z95 * found.error[chosen], linestyle="",
            color=shade, elinewidth=0.8, capsize=1.5,
        )  # fmt: skip


def _mean(curve: Curve) -> _Mean:
    """Return mean, deviation and error at each point over the runs that have a number there."""
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


def _keys(
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
