"""The evaluator's value and random playouts, weighted (W, WRo)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.rules.playouts import mean_playout
from zerolab.search.interface import register_leaf_evaluator


class Mixed(NamedTuple):
    """A leaf is worth (1 - w) * v_network + w * v_playout (FACTS 2, WRo and WRoRa).

    weight: w, 1 - i / I' in W, where the warm start sets it anew for every iteration.
    playouts: a leaf; 1 in W.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("mixed", Mixed)
class MixedRule:
    """With the weight 0 this is the evaluator's value, with 1 the playouts', to the bit."""

    @staticmethod
    def playouts(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        played = mean_playout(game, state, rule.playouts, key, scratch, moves)
        return (1.0 - rule.weight) * estimate + rule.weight * played
