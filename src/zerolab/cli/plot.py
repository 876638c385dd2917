"""`zerolab plot`: training curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import say
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.core.figures import check_ending, save_figure
from zerolab.store.run_folder import RunFolder
from zerolab.training.curves import XAxis, draw_curves


def plot(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    x: XAxis = "iterations",
    output: Path | None = None,
) -> None:
    """Draw the losses, training Elo, game lengths, times and accuracy of runs, a colour per run.

    Examples:
      zerolab plot runs/demo
      zerolab plot runs/warm runs/plain --x hours --output curves.svg

    Args:
        runs: Folders of runs.
        x: What to draw over: iterations, games of self-play, or hours of training.
        output: The file to write; its ending names the format. By default curves.png, in the
            folder of the run if there is one alone.
    """
    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    target = output or (runs[0] / "curves.png" if len(runs) == 1 else Path("curves.png"))
    check_ending(target)
    save_figure(draw_curves([RunFolder.open(path) for path in runs], x), target)
    say(target)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and draw."""
    call(plot, "plot", arguments)
