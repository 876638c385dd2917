"""Uniformly random games from a leaf as its value (W, Rollout; plain MCTS)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.rules.playouts import mean_playout
from zerolab.search.interface import register_leaf_evaluator


class RandomPlayout(NamedTuple):
    """A leaf is worth the mean result of random playouts; priors stay the evaluator's (FACTS 2).

    playouts: a leaf; 1 in W.
    """

    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("playout", RandomPlayout)
class RandomPlayoutRule:
    """See `RandomPlayout`."""

    @staticmethod
    def playouts(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        return mean_playout(game, state, rule.playouts, key, scratch, moves)
