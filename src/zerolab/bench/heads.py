"""Heads that know no size of board, compared with fully connected ones on the same trunk."""

from __future__ import annotations

from collections.abc import Iterator

from zerolab.bench.learning import Learning
from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.bench.selfplay import ContinuousSelfPlay
from zerolab.search.settings import SearchSettings

_TRUNK = {"blocks": 4, "filters": 32}
_HEADS = {"name": "fully_convolutional", **_TRUNK}
_LIMIT = {"name": "resnet", **_TRUNK}
_SEARCH = SearchSettings(simulations=16, deduplicate=False, cache=0)
_LANES, _PLIES = 512, 2
_BATCH, _BATCHES = 64, 20
_TURNS = 8
"""For each of the user's rounds: turns are short, so that noise falls on both networks alike."""


def measure_heads(rounds: int) -> Iterator[Measurement]:
    """Measure self-play and an epoch of learning with both kinds of heads.

    Games outlive iterations, so that all batches are large, however long the games of a network
    are. Evaluations are counted: how many simulations end in a decided position differs, too.
    """
    for name in GAMES:
        players = (
            ContinuousSelfPlay(name, network, _PLIES, _SEARCH, lanes=_LANES, counting="evaluated")
            for network in (_HEADS, _LIMIT)
        )
        subject, limit = (player.play for player in players)
        rate, best = in_turns(subject, limit, _TURNS * rounds)
        label = f"heads/fully_convolutional4x32/{name}"
        yield Measurement(f"{label}/selfplay", "evaluations/s", rate, best, "heads of resnet")
        learners = (Learning(name, network, _BATCH, _BATCHES) for network in (_HEADS, _LIMIT))
        subject, limit = (learner.learn for learner in learners)
        rate, best = in_turns(subject, limit, _TURNS * rounds)
        yield Measurement(f"{label}/learn", "samples/s", rate, best, "heads of resnet")
