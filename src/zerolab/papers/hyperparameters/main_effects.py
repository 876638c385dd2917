"""Effects of all twelve hyper-parameters on a measure, from one linear model of all runs.

The model is linear in log2 of the values, so that effects are per doubling::

    measure = seed constant + pair constant + sum of b x over the twelve hyper-parameters

In the screening, a pair is a run and its mirror image. Its constant absorbs the interactions of two
hyper-parameters, which are equal in both runs [Box1951]. In the sweep, a pair has the smallest and
the largest value of one hyper-parameter, and its constant absorbs the curvature. Neither biases the
effects or inflates the errors. With one seed, the sweep has no degrees of freedom left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.hyperparameters.study import HYPERPARAMETERS, PAIR, scaled_values
from zerolab.studies.design import Level
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import StudentEstimate, linear_regression

RunMeasure = Callable[[TrainedRun], float]
"""Function that measures a run, such as `final_loss`."""


def final_loss(run: TrainedRun) -> float:
    """Return policy loss plus value loss in the last epoch of the last iteration."""
    return loss_after(run, len(run.last_epoch_losses))


def loss_after(run: TrainedRun, iterations: int) -> float:
    """Return policy loss plus value loss in the last epoch of an iteration, counted from 1."""
    losses = run.last_epoch_losses[iterations - 1]
    return losses["policy"] + losses["value"]


def training_seconds(run: TrainedRun) -> float:
    """Return the training time of a run in seconds."""
    return run.total_seconds


def log2_seconds(run: TrainedRun) -> float:
    """Return log2 of the training time of a run in seconds."""
    return math.log2(training_seconds(run))


class VariedRun(NamedTuple):
    """Finished run with the values of all twelve hyper-parameters."""

    trained_run: TrainedRun
    values: Mapping[str, float]
    """Values by symbol."""
    pair: Level
    """Number of the mirrored pair in the screening; name of the part in the sweep."""


def screened_runs(results: Results) -> list[VariedRun]:
    """Return the finished runs of the screening with their values."""
    return [
        VariedRun(
            run, {symbol: float(run.factors[symbol]) for symbol in HYPERPARAMETERS},
            run.factors[PAIR],
        )
        for run in results.runs
    ]  # fmt: skip


def doubling_effects(runs: Sequence[VariedRun], measure: RunMeasure) -> dict[str, StudentEstimate]:
    """Return the change of a measure per doubling of each hyper-parameter, by symbol.

    Effects that the runs do not determine have infinite intervals. Empty `runs` raise ValueError.
    """
    values = np.log2([[run.values[symbol] for symbol in HYPERPARAMETERS] for run in runs])
    constants = np.hstack([
        _indicators([run.trained_run.seed for run in runs]),
        _indicators([run.pair for run in runs]),
    ])  # fmt: skip
    names = [*HYPERPARAMETERS, *(f"constant {i}" for i in range(constants.shape[1]))]
    y = [measure(run.trained_run) for run in runs]
    fitted = linear_regression(np.hstack([values, constants]), y, names)
    return {symbol: fitted[symbol] for symbol in HYPERPARAMETERS}


def range_effects(
    scale: str, runs: Sequence[VariedRun], measure: RunMeasure
) -> dict[str, StudentEstimate]:
    """Return the change of a measure from the smallest to the largest value, by symbol."""
    effects = doubling_effects(runs, measure)
    return {symbol: _times(effect, doublings(scale, symbol)) for symbol, effect in effects.items()}


def doublings(scale: str, symbol: str) -> float:
    """Return log2 of the largest value divided by the smallest."""
    low, _, high = scaled_values(scale, symbol)
    return math.log2(high / low)


def _times(estimate: StudentEstimate, factor: float) -> StudentEstimate:
    return StudentEstimate(factor * estimate.value, abs(factor) * estimate.error, estimate.freedom)


def _indicators(labels: Sequence[Level]) -> NDArray[np.float64]:
    """Return float64[runs, distinct labels - 1], with 1 for the label of a run."""
    others = list(dict.fromkeys(labels))[1:]
    return np.array([[float(label == each) for each in others] for label in labels]).reshape(
        len(labels), len(others)
    )
