"""The figure of a search: its history or its front, and which settings matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from zerolab.core.figures import colour, legend_below, new_figure, shortened
from zerolab.studies.tuning.report import Result, TuningReport

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {
    "accuracy": "strong accuracy with search",
    "elo": "Elo against {opponent}",
    "loss": "loss of the last iteration, all heads",
}
_FAINT = "#999999"


def draw(report: TuningReport) -> Figure:
    """Draw the objective over trials, or over hours where time is an objective; and importance.

    There is a complete trial.
    """
    parts = 2 if report.importance else 1
    figure = new_figure(5.6 * parts, 4.2)
    panels = figure.subplots(1, parts, squeeze=False)[0]
    draw_trials = _draw_front if report.settings.and_time else _draw_history
    handles = draw_trials(panels[0], report)
    panels[0].set_ylabel(_AXES[report.settings.objective].format(opponent=report.settings.opponent))
    panels[0].grid(alpha=0.3)
    if report.importance:
        _draw_importance(panels[1], report.importance)
    legend_below(figure, handles)
    figure.suptitle(f"{report.settings.game}, {len(report.results)} trials", parse_math=False)
    return figure


def _draw_history(axes: Axes, report: TuningReport) -> list[Artist]:
    complete = _measured(report.results, "complete")
    numbers = [each.number for each in complete]
    handles = [_draw_points(axes, numbers, complete, colour(0), "complete, 95 % interval")]
    better = max if report.settings.is_maximised else min
    best = list(accumulate((each.value for each in complete), better))
    handles += axes.step(numbers, best, where="post", color=colour(2), label="best so far")
    if pruned := _measured(report.results, "pruned"):
        handles += axes.plot(
            [each.number for each in pruned], [each.value for each in pruned], "x",
            color=colour(1), label="pruned, at its last measurement",
        )  # fmt: skip
    axes.set_title("history")
    axes.set_xlabel("trial")
    axes.locator_params(axis="x", integer=True)
    return handles


def _draw_front(axes: Axes, report: TuningReport) -> list[Artist]:
    front = report.front
    others = [each for each in _measured(report.results, "complete") if each not in front]
    handles = []
    if others:
        hours = [each.time for each in others]
        handles.append(_draw_points(axes, hours, others, _FAINT, "beaten by another"))
    hours = [each.time for each in front]
    label = "Pareto front, 95 % interval"
    handles.append(_draw_points(axes, hours, front, colour(0), label))
    values = [each.value for each in front]
    axes.step(hours, values, where="post", color=colour(0), alpha=0.6)
    for each, x, y in zip(front, hours, values, strict=True):
        axes.annotate(f" {each.number}", (x, y), va="bottom", fontsize=8)
    axes.set_title("Pareto front, by trial")
    axes.set_xlabel("hours of training")
    return handles


def _draw_importance(axes: Axes, importance: dict[str, float]) -> None:
    names = [shortened(each) for each in importance]
    axes.barh(range(len(names)), list(importance.values()), color=colour(0))
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_title("importance (PED-ANOVA)")
    axes.set_xlabel("share")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _measured(results: Sequence[Result], state: str) -> list[Result]:
    return [each for each in results if each.state == state and each.objective is not None]


def _draw_points(
    axes: Axes, x: Sequence[float], results: Sequence[Result], shade: str, label: str
) -> Any:
    """Draw objectives with their intervals, where they have some; return what a legend shows."""
    y = [each.value for each in results]
    low = [value if each.low is None else each.low for each, value in zip(results, y, strict=True)]
    high = [
        value if each.high is None else each.high for each, value in zip(results, y, strict=True)
    ]
    below = [max(0.0, value - end) for value, end in zip(y, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(y, high, strict=True)]
    return axes.errorbar(
        x, y, yerr=[below, above], fmt="o", markersize=4, capsize=2.5, color=shade, label=label
    )
