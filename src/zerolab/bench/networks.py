"""Speed of fully convolutional heads beside fully connected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.bench.learning import Learning
from zerolab.bench.measurement import GAMES, Measurement, in_turns
from zerolab.bench.selfplay import ContinuousSelfPlay
from zerolab.rules import rules
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings

_TRUNK = {"blocks": 4, "filters": 32}
_HEADS = {"name": "fully_convolutional", **_TRUNK}
_LIMIT = {"name": "resnet", **_TRUNK}
_SEARCH = SearchSettings(simulations=16, deduplicate=False, cache=0)
_LANES, _PLIES = 512, 2
_BATCH, _BATCHES = 64, 20
_TURNS = 8
"""For each of the user's rounds: turns are short, so that noise falls on both networks alike."""


def measure_heads(rounds: int) -> Iterator[Measurement]:
    """Measure self-play and an epoch of learning with both kinds of heads."""
    for name in GAMES:
        players = (_EqualSelfPlay(name, network) for network in (_HEADS, _LIMIT))
        subject, limit = (player.play for player in players)
        rate, best = in_turns(subject, limit, _TURNS * rounds)
        label = f"heads/fully_convolutional4x32/{name}"
        yield Measurement(f"{label}/selfplay", "positions/s", rate, best, "heads of resnet")
        learners = (Learning(name, network, _BATCH, _BATCHES) for network in (_HEADS, _LIMIT))
        subject, limit = (learner.learn for learner in learners)
        rate, best = in_turns(subject, limit, _TURNS * rounds)
        yield Measurement(f"{label}/learn", "samples/s", rate, best, "heads of resnet")


class _EqualSelfPlay(ContinuousSelfPlay):
    """Games that are the same for all networks, so that all evaluate the same positions."""

    def __init__(self, name: str, network: dict[str, Any]) -> None:
        super().__init__(name, network, _PLIES, _SEARCH, lanes=_LANES)
        self._evaluator = _Unheard(self._evaluator, rules.actions(self._game))


class _Unheard:
    """A network that is asked and not listened to: the search goes on with equal priors."""

    def __init__(self, network: Evaluator, actions: int) -> None:
        self._network = network
        self._uniform = UniformEvaluator(actions)

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Evaluator.evaluate`."""
        self._network.evaluate(states)
        return self._uniform.evaluate(states)
