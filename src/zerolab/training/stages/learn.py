"""Learning: the best network is trained further and becomes the candidate."""

from __future__ import annotations

from collections.abc import Sequence

from zerolab.core.threads import available_cores
from zerolab.networks.threads import torch_threads
from zerolab.training.context import TrainingContext
from zerolab.training.records import LearnRecord, Record
from zerolab.training.stages.interface import Stage


class Learn(Stage):
    """Trains a candidate on the window.

    Learning continues from the weights and the optimiser state of the best network, not from those
    of a candidate that was rejected.
    """

    name = "learn"

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        settings, progress = context.settings.learn, context.progress
        batches = context.window.batches_per_epoch(settings.batch_size, settings.symmetries)
        seconds = context.begin("learn", batches * settings.epochs, "batches")
        best = progress.best
        context.learner.load(context.run.load_weights(best), context.run.load_optimizer(best))
        with torch_threads(available_cores()):
            learned = context.learner.learn(
                context.window, context.settings.seed, progress.iteration, context.reporter.progress
            )
        context.save_network(progress.iteration)
        return [
            LearnRecord(
                iteration=context.iteration,
                wall_seconds=seconds(),
                samples=learned.samples,
                window=len(context.window),
                loss=learned.losses,
            )
        ]
