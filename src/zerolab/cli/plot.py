"""`zerolab plot`: training curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.parse import call
from zerolab.store.run_folder import RunFolder
from zerolab.training.curves import save_curves


def plot(run: tyro.conf.Positional[Path], *, output: Path | None = None) -> None:
    """Draw the losses, training Elo, game lengths and times of a run.

    Example: zerolab plot runs/demo --output curves.svg

    Args:
        run: The folder of a run.
        output: Where to write; RUN/curves.png by default.
    """
    target = output or run / "curves.png"
    save_curves(RunFolder.open(run), target)
    print(target)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and draw."""
    call(plot, "plot", arguments)
