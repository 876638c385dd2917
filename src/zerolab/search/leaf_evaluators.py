"""Leaf evaluators: network value, random playouts, or a weighted mixture of both."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.rules.rules import mean_playout_outcome
from zerolab.search.methods import LeafEvaluatorRule, register_leaf_evaluator


class MixedValue(NamedTuple):
    """v = (1 - w) * v_network + w * v_playout, as in WRo and WRoRa of [Wang2020b].

    weight: w. [Wang2020b]: 1 - i / I' in iteration i + 1 of a warm start over I' iterations, which
    sets it. playouts: number of playouts to average per leaf. [Wang2020b]: 1.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("mixed", MixedValue)
class _MixedValueRule(LeafEvaluatorRule):
    """Bitwise equal to the network value at weight 0, and to the playout value at weight 1."""

    @staticmethod
    def playouts_per_leaf(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        played = mean_playout_outcome(game, state, rule.playouts, key, playout_state, playout_moves)
        return (1.0 - rule.weight) * evaluator_value + rule.weight * played


class NetworkValue(NamedTuple):
    """v = v_network."""


@register_leaf_evaluator("network", NetworkValue)
class _NetworkValueRule(LeafEvaluatorRule):
    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        return evaluator_value


class RandomPlayout(NamedTuple):
    """v = mean outcome of random playouts; priors still come from the evaluator [Wang2020b].

    Used by plain MCTS and by Rollout of [Wang2020b]. playouts: number of playouts to average per
    leaf. [Wang2020b]: 1.
    """

    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("playout", RandomPlayout)
class _RandomPlayoutRule(LeafEvaluatorRule):
    @staticmethod
    def general_leaf_evaluator(rule):
        return MixedValue(1.0, rule.playouts)

    @staticmethod
    def playouts_per_leaf(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        return mean_playout_outcome(game, state, rule.playouts, key, playout_state, playout_moves)
