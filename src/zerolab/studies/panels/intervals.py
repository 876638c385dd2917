"""Estimates below one another, with their intervals and the runs behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.studies.panels.samples import (
    ERROR,
    RUN,
    finish,
    key_error,
    key_run,
    margins,
    with_minus,
)
from zerolab.studies.report.cells import Interval, cell_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _ROW_WITH_RUNS = 0.34, 0.62  # inches
_LETTER = 0.075
_BELOW = (0.15, 0.37)  # rows between an estimate and the first and the last of its runs


class Row(NamedTuple):
    """A line of the figure."""

    estimate: Interval
    runs: Sequence[float] = ()
    """Where the estimate is made of numbers on the same scale, these: one per run."""
    errors: Sequence[float] = ()
    """The standard errors of measuring them."""


def draw_intervals(
    rows: Mapping[str, Row],
    title: str,
    axis: str,
    *,
    threshold: float | None = None,
    number_format: str = "",
) -> Figure:
    """Draw a line per name with its 95 % interval over runs; numbers stand on the right.

    An estimate without an interval, such as that of one run, is a hollow square.
    """
    names = list(rows)
    texts = [with_minus(cell_text(row.estimate, number_format)) for row in rows.values()]
    letters = max(map(len, names)) + max(map(len, texts))
    height = _ROW_WITH_RUNS if any(row.runs for row in rows.values()) else _ROW
    figure = new_figure(5.0 + _LETTER * letters, 1.7 + height * len(rows))
    axes = figure.subplots()
    if threshold is not None:
        axes.axvline(threshold, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    for place, row in enumerate(rows.values()):
        _draw_row(axes, place, row)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(axis, parse_math=False)
    finish(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    for place, text in enumerate(texts):
        axes.text(
            1.02, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5,
            parse_math=False,
        )  # fmt: skip
    figure.suptitle(title, parse_math=False)
    legend_below(figure, _keys(rows, threshold))
    return figure


def _draw_row(axes: Axes, place: float, row: Row) -> None:
    found = row.estimate
    if row.runs:
        step = (_BELOW[1] - _BELOW[0]) / len(row.runs)
        places = [place + _BELOW[0] + step * (i + 0.5) for i in range(len(row.runs))]
        axes.errorbar(
            row.runs, places, xerr=margins(row.errors) or None,
            linestyle="", color="0.55", **RUN, **ERROR,
        )  # fmt: skip
    known = math.isfinite(found.low) and math.isfinite(found.high)
    if known:
        axes.plot([found.low, found.high], [place] * 2, color=colour(0), linewidth=2.2)
    axes.plot(
        [found.value], [place], marker="s", markersize=6, color=colour(0),
        mfc=colour(0) if known else "white",
    )  # fmt: skip


def _keys(rows: Mapping[str, Row], threshold: float | None) -> list[Artist]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    every = rows.values()
    square: dict[str, Any] = {"marker": "s", "markersize": 6, "color": colour(0)}
    keys: list[Artist] = [
        Line2D([], [], linewidth=2.2, label="estimate, 95 % interval over runs", **square)
    ]
    if any(math.isinf(row.estimate.high) for row in every):
        keys.append(Line2D([], [], linestyle="", mfc="white", label="no interval", **square))
    keys += [key_run("0.55")] if any(row.runs for row in every) else []
    keys += [key_error()] if any(row.errors for row in every) else []
    if threshold is not None:
        keys.append(
            Line2D([], [], color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="threshold")
        )
    return keys
