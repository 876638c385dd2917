"""Uniformly random games from a leaf as its value: plain MCTS, Rollout of [Wang2020b]."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.rules.playouts import mean_playout
from zerolab.search.interface import register_leaf_evaluator


class RandomPlayout(NamedTuple):
    """v = mean outcome of random playouts; priors stay the evaluator's [Wang2020b].

    playouts: per leaf, averaged. [Wang2020b]: 1.
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
