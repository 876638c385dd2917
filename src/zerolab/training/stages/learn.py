"""Learning: the best network is trained further and becomes the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zerolab.core.threads import available_cores
from zerolab.networks.threads import torch_threads
from zerolab.training.context import TrainingContext
from zerolab.training.growing import load_best
from zerolab.training.learning_log import Learned
from zerolab.training.records import LearnRecord, Record
from zerolab.training.settings import LearnSettings
from zerolab.training.stages.interface import Stage


class Learn(Stage):
    """Trains a candidate on the window.

    Learning continues from the weights and the optimiser state of the best network, not from those
    of a candidate that was rejected. Where weights are averaged these are the weights behind the
    best network, of its latest step.
    """

    name = "learn"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`; there may be too few examples for a batch norm yet."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        progress = context.progress
        load_best(context)
        batches = context.learner.steps(context.window)
        seconds = context.begin("learn", batches, "batches")
        with torch_threads(available_cores()):
            learned = context.learner.learn(
                context.window,
                context.settings.seed,
                progress.iteration,
                context.reporter.progress,
                iterations=context.settings.iterations,
            )
        context.save_network(progress.iteration)
        return [
            LearnRecord(
                iteration=context.iteration,
                wall_seconds=seconds(),
                samples=learned.samples,
                window=len(context.window),
                merged=context.window.merged,
                parameters=context.learner.parameters if context.settings.growth.last else None,
                loss=learned.losses,
                **_details(context.settings.learn, learned),
            )
        ]


def _details(settings: LearnSettings, learned: Learned) -> dict[str, Any]:
    """Return what is worth a field only where settings let it differ from what others say."""
    details: dict[str, Any] = {"gradient_norm": learned.gradient_norm}
    if len(learned.epoch_losses) > 1:
        details["epoch_losses"] = learned.epoch_losses
    if settings.schedule.name != "constant":
        rates = learned.learning_rates
        details |= {"learning_rate": rates[-1], "peak_learning_rate": max(rates)}
    return details
