"""Training curves of runs as a figure, over iterations, games or hours, and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.core.errors import UserError
from zerolab.report.figures import (
    COLOURS,
    add_legend_below,
    new_figure,
    series_colour,
    shorten_name,
)
from zerolab.report.table import Cell, Column, Table
from zerolab.store.run_folder import RunFolder
from zerolab.training.panels import BEST_NETWORK_SERIES, Panel, XAxis, metric_panels, x_coordinates
from zerolab.training.records import (
    AccuracyRecord,
    GateRecord,
    HeldOutRecord,
    LearnRecord,
    OpponentRecord,
    Record,
    SelfPlayRecord,
)
from zerolab.training.reporting import read_records

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {
    "iterations": "iteration",
    "games": "games of self-play",
    "hours": "hours of training",
}
_LAST_RECORDS = GateRecord, HeldOutRecord
"""Records that end an iteration; only a warm-start match and measurements can follow them."""
_TITLES = {
    "loss": "loss in the last epoch",
    "elo": "training Elo of the best network (biased)",
    "length": "plies per game of self-play",
    "seconds": "seconds per iteration",
    "validation-strong": "best move predicted (validation)",
    "validation-result": "result predicted (validation)",
    "accuracy-strong": "strong accuracy on solved positions",
    "accuracy-weak": "weak accuracy on solved positions",
}
"""Titles of the plotted panels, in order, by key."""
_STYLES: tuple[Any, ...] = (
    "solid",
    "dashed",
    "dotted",
    "dashdot",
    (0, (5, 1)),
    (0, (1, 4)),
    (0, (8, 2, 1, 2)),
)
"""Line styles for the losses of heads, in order of appearance."""


class RunCurves(NamedTuple):
    """The records of a run with their x coordinates, and the panels plotted from them."""

    title: str
    records: list[Record]
    x_coordinates: list[float]
    """One coordinate per record."""
    colour: str
    panels: dict[str, Panel]
    """Panels by key."""


def draw_curves(runs: Sequence[RunFolder], x: XAxis = "iterations") -> Figure:
    """Draw losses, training Elo, game length, time and accuracy, with one colour per run.

    Raises UserError for a run without a finished iteration.
    """
    curves = [_curves(run, x, series_colour(number)) for number, run in enumerate(runs)]
    panels = _panels(curves)
    rows = -(-len(panels) // 2)
    figure = new_figure(9, 2.9 * rows + 0.7)
    every = figure.subplots(rows, 2, squeeze=False).flat
    for axes, (title, draw) in zip(every, panels.items(), strict=False):
        for each in curves:
            draw(axes, each)
        axes.set_title(title)
        axes.set_xlabel(_LABELS[x])
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    for axes in list(every)[len(panels) :]:
        axes.set_axis_off()
    add_legend_below(figure, _handles(curves))
    if len(runs) == 1:
        game, preset = (runs[0].config.get(name, "") for name in ("game", "preset"))
        figure.suptitle(f"{game}, preset {preset}", parse_math=False)
    return figure


def _curves(run: RunFolder, x: XAxis, shade: str) -> RunCurves:
    records = read_records(run)
    if not any(isinstance(record, _LAST_RECORDS) for record in records):
        raise UserError(f"{run.path} has no finished iteration yet: nothing to draw")
    panels = {each.key: each for each in metric_panels(records, x)}
    return RunCurves(
        shorten_name(run.path.as_posix()), records, x_coordinates(records, x), shade, panels
    )


_Draw = Callable[["Axes", RunCurves], None]
_Style = Any  # a line style of matplotlib


def _panels(curves: Sequence[RunCurves]) -> Mapping[str, _Draw]:
    """Return the functions that draw a run in a panel, by panel title."""
    available = {key for each in curves for key in each.panels}
    panels: dict[str, _Draw] = {}
    for key, title in _TITLES.items():
        if key == "seconds":
            panels[title] = _draw_stages if len(curves) == 1 else _draw_seconds
        elif key in available:
            panels[title] = _draw_panel(key, _series_styles(key, curves))
    return panels


def _series_styles(key: str, curves: Sequence[RunCurves]) -> dict[str, _Style]:
    """Return the line styles of the plotted series of a panel, by series name."""
    if key == "elo":
        return {BEST_NETWORK_SERIES: "solid"}
    panels = [each.panels[key] for each in curves if key in each.panels]
    names = dict.fromkeys(series.name for panel in panels for series in panel.series)
    return dict(zip(names, cycle(_STYLES), strict=False))


def _draw_panel(key: str, styles: Mapping[str, _Style]) -> _Draw:
    """Return a function that draws the series of a run's panel in their styles, with bands."""

    def draw(axes: Axes, curves: RunCurves) -> None:
        for series in curves.panels[key].series if key in curves.panels else ():
            if series.name not in styles:
                continue
            x, y = zip(*series.points, strict=True)
            numbers = [math.nan if each is None else each for each in y]
            style, shade = styles[series.name], curves.colour
            axes.plot(x, numbers, linestyle=style, marker=".", color=shade)
            if series.band:
                ends, low, high = zip(*series.band, strict=True)
                axes.fill_between(ends, low, high, color=shade, alpha=0.15, linewidth=0)

    return draw


def _draw_seconds(axes: Axes, curves: RunCurves) -> None:
    """Draw the total seconds of each iteration."""
    totals = _seconds(curves.records)
    x = _iteration_ends(curves, totals)
    seconds = [sum(stages.values()) for stages in totals.values()]
    axes.plot(x, seconds, marker=".", color=curves.colour)


def _draw_stages(axes: Axes, curves: RunCurves) -> None:
    """Draw the seconds of each iteration as bars stacked by stage, with a legend."""
    totals = _seconds(curves.records)
    x = _iteration_ends(curves, totals)
    starts = [0.0, *x[:-1]] if len(x) > 1 else [x[0] - 1.0]
    widths = [0.8 * (end - start) for start, end in zip(starts, x, strict=True)]
    floor = [0.0] * len(x)
    for number, stage in enumerate(dict.fromkeys(name for row in totals.values() for name in row)):
        heights = [row.get(stage, 0.0) for row in totals.values()]
        shade = COLOURS[(number + 1) % len(COLOURS)]
        axes.bar(x, heights, widths, bottom=floor, color=shade, label=stage.replace("_", " "))
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def _iteration_ends(curves: RunCurves, iterations: Iterable[int]) -> list[float]:
    """Return the x coordinate of the last record of each iteration."""
    coordinates = zip(curves.records, curves.x_coordinates, strict=True)
    ends = {record.iteration: x for record, x in coordinates}
    return [ends[iteration] for iteration in iterations]


def _seconds(records: Sequence[Record]) -> dict[int, dict[str, float]]:
    """Return the seconds of each stage of the finished iterations."""
    finished = {record.iteration for record in records if isinstance(record, _LAST_RECORDS)}
    totals: dict[int, dict[str, float]] = {}
    for record in records:
        if record.iteration in finished and not isinstance(record, OpponentRecord):
            stages = totals.setdefault(record.iteration, {})
            stages[record.stage] = stages.get(record.stage, 0.0) + record.wall_seconds
    return totals


def _handles(curves: Sequence[RunCurves]) -> list[Artist]:
    """Return legend entries for the runs' colours and for the line styles."""
    from matplotlib.lines import Line2D

    runs = [Line2D([], [], color=each.colour, label=each.title) for each in curves]
    measured = any("accuracy-strong" in each.panels for each in curves)
    labels = list(_series_styles("loss", curves)) or ["policy", "value"]
    if measured:
        labels[0] += "; network alone"
        labels[1] += "; with search"
    styles = [
        Line2D([], [], color="gray", linestyle=style, label=label.replace("_", " "))
        for style, label in zip(cycle(_STYLES), labels, strict=False)
    ]
    return [*runs, *styles]


_COLUMNS: tuple[tuple[str, str, type[Record], Callable[[Any], Cell]], ...] = (
    ("games", "", SelfPlayRecord, lambda record: record.games),
    ("plies per game", ".1f", SelfPlayRecord, lambda record: record.plies_per_game),
    ("policy loss", ".3f", LearnRecord, lambda record: record.loss.get("policy")),
    ("value loss", ".3f", LearnRecord, lambda record: record.loss.get("value")),
    ("gate", "", GateRecord, lambda record: "accepted" if record.accepted else "rejected"),
    ("training Elo", "+.0f", GateRecord, lambda record: record.elo),
    ("strong accuracy", ".1%", AccuracyRecord, lambda record: record.search_strong),
)
"""Title, number format, record and value of the columns after the iteration."""


def iteration_table(run: RunFolder) -> Table:
    """Return a table with one row per iteration, without columns that would be empty."""
    records = read_records(run)
    iterations = sorted({record.iteration for record in records})
    cells: dict[Column, list[Cell]] = {Column("iteration"): list(iterations)}
    for title, number_format, kind, value in _COLUMNS:
        found = {each.iteration: value(each) for each in records if isinstance(each, kind)}
        if any(each is not None for each in found.values()):
            cells[Column(title, number_format)] = [found.get(number) for number in iterations]
    seconds = [
        sum(each.wall_seconds for each in records if each.iteration == number)
        for number in iterations
    ]
    cells[Column("seconds", ".1f")] = list(seconds)
    return Table("iterations", "", list(cells), list(zip(*cells.values(), strict=True)))
