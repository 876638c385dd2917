"""Training curves of runs as a figure, over iterations, games or hours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zerolab.core.errors import UserError
from zerolab.report.figures import COLOURS, colour, legend_below, new_figure, shortened
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import (
    FINAL_RECORDS,
    AccuracyRecord,
    GateRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
    SupervisedRecord,
)
from zerolab.training.reporting import read_records

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

XAxis = Literal["iterations", "games", "hours"]
"""The x axis: iterations, games of self-play, or hours of training."""

_LABELS = {
    "iterations": "iteration",
    "games": "games of self-play",
    "hours": "hours of training",
}
_LAST = GateRecord, SupervisedRecord
"""The last record of an iteration."""
_DASHES = {"network": "-", "search": "--"}
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


class Curves(NamedTuple):
    """The records of a run with their positions on the x axis."""

    title: str
    records: list[Record]
    x: list[float]
    colour: str

    def of(self, kind: type[Record]) -> Curves:
        """Return the records of one kind."""
        chosen = [i for i, record in enumerate(self.records) if isinstance(record, kind)]
        return self._replace(
            records=[self.records[i] for i in chosen], x=[self.x[i] for i in chosen]
        )


def draw_curves(runs: Sequence[RunFolder], x: XAxis = "iterations") -> Figure:
    """Draw losses, training Elo, game length, time and any accuracy, with one colour per run.

    Raises UserError for a run without a finished iteration.
    """
    curves = [_curves(run, x, colour(number)) for number, run in enumerate(runs)]
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
    legend_below(figure, _handles(curves))
    if len(runs) == 1:
        config = runs[0].config
        figure.suptitle(f"{config['game']}, preset {config['preset']}", parse_math=False)
    return figure


def _curves(run: RunFolder, x: XAxis, shade: str) -> Curves:
    records = read_records(run)
    if not any(isinstance(record, _LAST) for record in records):
        raise UserError(f"{run.path} has no finished iteration yet: nothing to draw")
    return Curves(shortened(run.path.as_posix()), records, x_positions(records, x), shade)


def x_positions(records: Sequence[Record], x: XAxis) -> list[float]:
    """Return the position of each record on the x axis."""
    if x == "hours":
        return [seconds / 3600 for seconds in accumulate(each.wall_seconds for each in records)]
    if x == "games":
        played = (each.games if isinstance(each, SelfPlayRecord) else 0 for each in records)
        return [float(games) for games in accumulate(played)]
    return [float(record.iteration) for record in records]


_Draw = Callable[["Axes", Curves], None]
_Style = Any  # what matplotlib takes for a line style


def _panels(curves: Sequence[Curves]) -> Mapping[str, _Draw]:
    """Return the functions that draw a run in each panel, by title."""
    panels: dict[str, _Draw] = {"loss in the last epoch": _draw_losses(curves)}
    if any(each.of(GateRecord).records for each in curves):
        panels["training Elo of the best network (biased)"] = _draw_elo
        panels["plies per game of self-play"] = _draw_length
    panels["seconds per iteration"] = _draw_stages if len(curves) == 1 else _draw_seconds
    if any(each.of(SupervisedRecord).records for each in curves):
        panels["best move found (validation)"] = _draw_validation("strong")
        panels["result known (validation)"] = _draw_validation("result")
    if any(each.of(AccuracyRecord).records for each in curves):
        panels["strong accuracy on solved positions"] = _draw_accuracy("strong")
        panels["weak accuracy on solved positions"] = _draw_accuracy("weak")
    return panels


def _draw_losses(curves: Sequence[Curves]) -> _Draw:
    """Return a function that draws the losses of all heads, each in its line style."""
    styles = _head_styles(curves)

    def draw(axes: Axes, curves: Curves) -> None:
        learned = curves.of(LearnRecord)
        rows = [each.loss for each in learned.records if isinstance(each, LearnRecord)]
        for name, style in styles.items():
            if any(name in row for row in rows):
                losses = [row.get(name, math.nan) for row in rows]
                axes.plot(learned.x, losses, linestyle=style, marker=".", color=learned.colour)

    return draw


def _head_styles(curves: Sequence[Curves]) -> dict[str, _Style]:
    """Return the line styles of all heads in these runs."""
    learned = [record for each in curves for record in each.of(LearnRecord).records]
    names = [name for each in learned if isinstance(each, LearnRecord) for name in each.heads]
    return dict(zip(dict.fromkeys(names), cycle(_STYLES), strict=False))


def _draw_elo(axes: Axes, curves: Curves) -> None:
    gates = curves.of(GateRecord)
    _draw_line(axes, gates, [each.elo for each in gates.records if isinstance(each, GateRecord)])


def _draw_length(axes: Axes, curves: Curves) -> None:
    played = curves.of(SelfPlayRecord)
    lengths = [
        each.plies_per_game or math.nan  # without a finished game there is none
        for each in played.records
        if isinstance(each, SelfPlayRecord)
    ]
    _draw_line(axes, played, lengths)


def _draw_accuracy(measure: str) -> _Draw:
    """Return a function that draws accuracy without and with search, with intervals."""

    def draw(axes: Axes, curves: Curves) -> None:
        measured = curves.of(AccuracyRecord)
        for player in ("network", "search"):
            key = f"{player}_{measure}"
            mean, low, high = (
                [getattr(each, key + end) for each in measured.records]
                for end in ("", "_low", "_high")
            )
            _draw_line(axes, measured, mean, _DASHES[player])
            axes.fill_between(measured.x, low, high, color=curves.colour, alpha=0.15, linewidth=0)

    return draw


def _draw_validation(measure: str) -> _Draw:
    """Return a function that draws a measure on the validation positions, with intervals."""

    def draw(axes: Axes, curves: Curves) -> None:
        found = curves.of(SupervisedRecord)
        chosen = [
            (x, each)
            for x, each in zip(found.x, found.records, strict=True)
            if isinstance(each, SupervisedRecord) and each.part == "validation"
        ]
        places = [x for x, _ in chosen]
        mean, low, high = (
            [getattr(each, measure + end) for _, each in chosen] for end in ("", "_low", "_high")
        )
        axes.plot(places, mean, marker=".", color=curves.colour)
        axes.fill_between(places, low, high, color=curves.colour, alpha=0.15, linewidth=0)

    return draw


def _draw_seconds(axes: Axes, curves: Curves) -> None:
    """Draw the total seconds of each iteration."""
    totals = _seconds(curves.records)
    ends = {record.iteration: x for record, x in zip(curves.records, curves.x, strict=True)}
    x = [ends[iteration] for iteration in totals]
    seconds = [sum(stages.values()) for stages in totals.values()]
    axes.plot(x, seconds, marker=".", color=curves.colour)


def _draw_stages(axes: Axes, curves: Curves) -> None:
    """Draw the seconds of each iteration as bars stacked by stage, with a legend."""
    totals = _seconds(curves.records)
    ends = {record.iteration: x for record, x in zip(curves.records, curves.x, strict=True)}
    x = [ends[iteration] for iteration in totals]
    starts = [0.0, *x[:-1]] if len(x) > 1 else [x[0] - 1.0]
    widths = [0.8 * (end - start) for start, end in zip(starts, x, strict=True)]
    floor = [0.0] * len(x)
    for number, stage in enumerate(dict.fromkeys(name for row in totals.values() for name in row)):
        heights = [row.get(stage, 0.0) for row in totals.values()]
        shade = COLOURS[(number + 1) % len(COLOURS)]
        axes.bar(x, heights, widths, bottom=floor, color=shade, label=stage.replace("_", " "))
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def _seconds(records: Sequence[Record]) -> dict[int, dict[str, float]]:
    """Return the seconds of each stage of the finished iterations."""
    finished = {record.iteration for record in records if isinstance(record, _LAST)}
    totals: dict[int, dict[str, float]] = {}
    for record in records:
        if record.iteration in finished and not isinstance(record, FINAL_RECORDS):
            stages = totals.setdefault(record.iteration, {})
            stages[record.stage] = stages.get(record.stage, 0.0) + record.wall_seconds
    return totals


def _draw_line(axes: Axes, curves: Curves, y: Sequence[float], dashes: str = "-") -> None:
    axes.plot(curves.x, y, dashes, marker=".", color=curves.colour)


def _handles(curves: Sequence[Curves]) -> list[Artist]:
    """Return legend entries for the colours of runs and for line styles."""
    from matplotlib.lines import Line2D

    runs = [Line2D([], [], color=each.colour, label=each.title) for each in curves]
    measured = any(each.of(AccuracyRecord).records for each in curves)
    labels = list(_head_styles(curves)) or ["policy", "value"]
    if measured:
        labels[0] += "; network alone"
        labels[1] += "; with search"
    styles = [
        Line2D([], [], color="gray", linestyle=style, label=label.replace("_", " "))
        for style, label in zip(cycle(_STYLES), labels, strict=False)
    ]
    return [*runs, *styles]
