"""`zerolab tensorboard`: metrics for TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import say
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.training.tensorboard import export_events


def export(runs: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Write the metrics of runs as TensorBoard events, into the folder tensorboard of each.

    Training does the same after every stage; this is for runs whose events were deleted.

    Example: zerolab tensorboard runs/demo && tensorboard --logdir runs

    Args:
        runs: Folders of runs.
    """
    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    for path in runs:
        say(export_events(RunFolder.open(path)))
    say(f"look at them with: tensorboard --logdir {runs[0].parent}")


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and export."""
    call(export, "tensorboard", arguments)
