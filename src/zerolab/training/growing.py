"""What learning begins with, in runs whose network grows and in all others."""

from __future__ import annotations

from zerolab.core import streams
from zerolab.networks.catalogue import build_network
from zerolab.training.context import TrainingContext
from zerolab.training.learner import Learner


def load_best(context: TrainingContext) -> None:
    """Load what an iteration's learning begins with: the best network, grown where it is time to.

    That depends on the best network and the iteration alone: where a candidate that had grown was
    rejected, the next one grows anew from the best network (docs/decisions/0045). The optimiser and
    the average of weights begin anew with a larger network.
    """
    run, settings, best = context.run, context.settings, context.progress.best
    weights = run.load_weights(best)
    former, network = (settings.network_of(each) for each in (best, context.iteration))
    is_larger = network != former
    if settings.growth.last is not None:
        context.learner = _new_learner(
            context, settings.growth.epochs_when_new if is_larger else None
        )
    if not is_larger:
        context.learner.load(weights, context.defects.carried(run.load_optimizer(best)))
        return
    random = streams.generator(settings.seed, context.iteration, streams.GROWTH)
    fresh = context.learner.weight_arrays()
    context.learner.load(settings.growth.weights(network, fresh, weights, random), {})


def _new_learner(context: TrainingContext, epochs: int | None) -> Learner:
    """Return a learner for a new network of the iteration's size.

    `epochs` take the place of what the run's settings say of passes over the window, unless None.
    """
    settings, iteration = context.settings, context.iteration
    network = build_network(settings.network_of(iteration), context.game, settings.seed, iteration)
    learn = context.defects.learning(settings.learn)
    if epochs is not None:
        learn = learn.model_copy(update={"epochs": epochs, "reuse": None})
    return Learner(network, learn, settings.targets, context.learner.device)
