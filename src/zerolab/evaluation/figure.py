"""Accuracy by ply as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import Assessment

FEWEST = 10
"""Plies with fewer positions are not drawn: their intervals say nothing."""


def draw_accuracy(title: str, assessments: Sequence[Assessment]) -> Figure:
    """Draw strong and weak accuracy by ply, with intervals, one line a player."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, kind in zip(figure.subplots(1, 2), ("strong", "weak"), strict=True):
        for assessment in assessments:
            _draw(axes, assessment, kind)
        axes.set(title=f"{kind} accuracy", ylim=(0, 1.02))
        axes.set_xlabel(f"ply (where there are at least {FEWEST} positions)")
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(title)
    return figure


def check_ending(path: Path) -> None:
    """Raise UserError unless a file's ending names a format that figures can have."""
    if path.suffix[1:] not in Figure().canvas.get_supported_filetypes():
        raise UserError(f'"{path}": expected an ending such as .png, .svg or .pdf')


def save_accuracy(path: Path, title: str, assessments: Sequence[Assessment]) -> None:
    """Write the figure to a file whose ending names its format, such as .png or .svg."""
    check_ending(path)
    try:
        draw_accuracy(title, assessments).savefig(path, dpi=120)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def _draw(axes: Axes, assessment: Assessment, kind: str) -> None:
    known = {
        ply: estimate
        for ply, accuracy in assessment.by_ply.items()
        if (estimate := getattr(accuracy, kind)) is not None and estimate.positions >= FEWEST
    }
    means = [each.mean for each in known.values()]
    # A share of 0 or 1 may lie outside its interval by the last bit.
    below = [max(0.0, each.mean - each.low) for each in known.values()]
    above = [max(0.0, each.high - each.mean) for each in known.values()]
    axes.errorbar(
        list(known), means, yerr=[below, above], marker=".", capsize=2, label=assessment.name
    )
