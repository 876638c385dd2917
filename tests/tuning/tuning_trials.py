"""Helpers for tuning tests: settings, plans and a worker that dies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from zerolab.core.processes import exit_with_parent
from zerolab.tuning.plan import TuningPlan, TuningSettings
from zerolab.tuning.search import work_on_trials
from zerolab.tuning.trials import ClaimedTrial, TrialStore

ASSIGNMENTS = (
    "search.selection=puct", "search.selection.c=0.5..4", "learn.loss=sum|product",
    "learn.epochs=1..5",
)  # fmt: skip


GAME = "gobang:3x3:3"
TINY = (
    "selfplay.episodes=2",
    "search.simulations=4",
    "learn.epochs=1",
    "search.selection=puct",
    "search.selection.c=0.5..4",
)


def settings(objective, *assignments, **options):
    return TuningSettings(
        game=GAME, preset="smoke", objective=objective, assignments=assignments or TINY, **options
    )


def plan(*assignments, **options):
    data = {"game": GAME, "preset": "smoke", "objective": "loss", **options}
    return TuningPlan(TuningSettings(assignments=assignments or ASSIGNMENTS, **data))


def distance(claimed: ClaimedTrial) -> None:
    """Finish a trial with its distance from the optimum (c = 2, sum, 3 epochs)."""
    c, loss, epochs = (
        claimed.values[key] for key in ("search.selection.c", "learn.loss", "learn.epochs")
    )
    claimed.complete([(c - 2) ** 2 + (loss == "product") + 0.2 * abs(epochs - 3)], {"hours": 1.0})


def work_and_die(folder: Path, trials: int, dies_at: int) -> None:
    """Work on trials, leaving a file for each one, and die in trial `dies_at`."""
    exit_with_parent()

    def run(claimed: ClaimedTrial) -> None:
        (folder / "runs" / f".{claimed.number}-{os.getpid()}.ran").touch()
        if claimed.number == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        distance(claimed)

    work_on_trials(TrialStore(folder, plan()), trials, run)
