"""Shared parts of the tests of tuning: settings, a plan without training, a process that dies."""

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
    "selfplay.episodes=4",
    "learn.epochs=1",
    "search.selection=puct",
    "search.selection.c=0.5..4",
)


def settings(objective, *assignments, **more):
    return TuningSettings(
        game=GAME, preset="smoke", objective=objective, assignments=assignments or TINY, **more
    )


def plan(*assignments, **more):
    given = {"game": GAME, "preset": "smoke", "objective": "loss", **more}
    return TuningPlan(TuningSettings(assignments=assignments or ASSIGNMENTS, **given))


def distance(claimed: ClaimedTrial) -> None:
    """Finish a trial with its distance to (c = 2, sum, 3 epochs), the optimum."""
    c, loss, epochs = (
        claimed.values[key] for key in ("search.selection.c", "learn.loss", "learn.epochs")
    )
    claimed.finish([(c - 2) ** 2 + (loss == "product") + 0.2 * abs(epochs - 3)], {"hours": 1.0})


def work_and_die(folder: Path, trials: int, dies_at: int) -> None:
    """Work as one process of several: leave a file for every trial, and die with one."""
    exit_with_parent()

    def run(claimed: ClaimedTrial) -> None:
        (folder / "runs" / f".{claimed.number}-{os.getpid()}.ran").touch()
        if claimed.number == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        distance(claimed)

    work_on_trials(TrialStore(folder, plan()), trials, run)
