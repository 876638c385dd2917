"""Accuracy by ply as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zerolab.core.figures import colour, legend_below, new_figure, save_figure
from zerolab.evaluation.accuracy import AccuracyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST = 10
"""Plies with fewer positions are not drawn: their intervals say nothing."""

_APART = 0.25  # plies between the intervals of two players


def draw_accuracy(title: str, reports: Sequence[AccuracyReport]) -> Figure:
    """Draw strong and weak accuracy by ply with 95 % intervals, one line per player."""
    figure = new_figure(9, 4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind in zip(panels, ("strong", "weak"), strict=True):
        for number, report in enumerate(reports):
            _draw(axes, report, kind, number)
        axes.set(title=f"{kind} accuracy", ylim=(0, 1.02))
        axes.set_xlabel(f"ply (those with at least {FEWEST} positions)")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("moves")
    panels[0].yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f} %")
    legend_below(figure, panels[1].get_legend_handles_labels()[0])
    figure.suptitle(title, parse_math=False)
    return figure


def save_accuracy(path: Path, title: str, reports: Sequence[AccuracyReport]) -> None:
    """Write the figure to a file whose ending names its format, such as .png or .svg."""
    save_figure(draw_accuracy(title, reports), path)


def _draw(axes: Axes, report: AccuracyReport, kind: str, number: int) -> None:
    """Draw one player; intervals of players are side by side, and exact numbers a dashed line."""
    known = {
        ply: estimate
        for ply, accuracy in report.by_ply.items()
        if (estimate := getattr(accuracy, kind)) is not None and estimate.samples >= FEWEST
    }
    means = [each.mean for each in known.values()]
    if not report.is_measured:
        axes.plot(list(known), means, linestyle="--", color="0.5", label=report.name)
        return
    # A rate of 0 or 1 may lie outside its interval by the last bit.
    below = [max(0.0, each.mean - each.low) for each in known.values()]
    above = [max(0.0, each.high - each.mean) for each in known.values()]
    axes.errorbar(
        [ply + _APART * number for ply in known], means, yerr=[below, above], marker=".",
        linewidth=1, elinewidth=0.7, capsize=1.5, color=colour(number), label=report.name,
    )  # fmt: skip
