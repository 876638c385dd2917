"""What a network alone says about solved positions: the best move, and who wins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.evaluation.positions import Positions
from zerolab.networks.threads import torch_threads
from zerolab.search.interface import Answer, Evaluator, read

_BATCH = 1024
_LEAST = 1e-30  # of a probability whose logarithm is taken


class Prediction(NamedTuple):
    """What a network says about n positions."""

    actions: NDArray[np.int64]
    """[n] the legal action of the highest prior"""
    results: NDArray[np.int8]
    """[n] the most probable outcome for the mover: -1, 0 or 1"""
    values: NDArray[np.float32]
    """[n] the expected outcome for the mover"""
    policy_errors: NDArray[np.float64]
    """[n] cross-entropy of the priors with the policy that is uniform over the best moves"""


def predict(evaluator: Evaluator, positions: Positions, knows_draws: bool) -> Prediction:
    """Ask a network; `knows_draws` says whether a head of it gives the probability of a draw.

    Without such a head the most probable outcome is that next to the expected one.
    """
    wanted: tuple[Answer, ...] = ("draws",) if knows_draws else ()
    parts = []
    with torch_threads(1):  # as in games: on several cores last bits may differ
        for begin in range(0, len(positions), _BATCH):
            rows = slice(begin, begin + _BATCH)
            priors, values, draws, _ = read(evaluator, positions.states[rows], wanted)
            results = np.rint(values) if draws is None else _most_probable(values, draws)
            best = positions.values[rows] == positions.best[rows, None]
            logs = np.where(best, np.log(np.maximum(priors, _LEAST)), 0.0).sum(axis=1)
            actions = np.where(positions.legal[rows], priors, -1.0).argmax(axis=1)
            parts.append((actions, results.astype(np.int8), values, -logs / best.sum(axis=1)))
    return Prediction(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _most_probable(values: NDArray[np.float32], draws: NDArray[np.float32]) -> NDArray[np.float64]:
    decided = 1 - draws
    chances = np.stack([(decided - values) / 2, draws, (decided + values) / 2])
    return np.asarray(chances.argmax(axis=0) - 1.0)
