"""Leaf evaluators: network value, random playouts, or a weighted mixture of both."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.rules.rules import mean_playout
from zerolab.search.methods import LeafEvaluator, register_leaf_evaluator


class Mixed(NamedTuple):
    """v = (1 - w) * v_network + w * v_playout, as in WRo and WRoRa of [Wang2020b].

    weight: w. [Wang2020b]: 1 - i / I' in iteration i + 1 of a warm start over I' iterations; the
    warm start sets it. playouts: number of playouts to average per leaf. [Wang2020b]: 1.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("mixed", Mixed)
class _MixedRule:
    """Bitwise equal to the network value at weight 0, and to the playout value at weight 1."""

    @staticmethod
    def playouts(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        played = mean_playout(game, state, rule.playouts, key, scratch, moves)
        return (1.0 - rule.weight) * estimate + rule.weight * played


class NetworkValue(NamedTuple):
    """v = v_network."""


@register_leaf_evaluator("network", NetworkValue)
class _NetworkValueRule(LeafEvaluator):
    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        return estimate


class RandomPlayout(NamedTuple):
    """v = mean outcome of random playouts; priors still come from the evaluator [Wang2020b].

    Used by plain MCTS and by Rollout of [Wang2020b]. playouts: number of playouts to average per
    leaf. [Wang2020b]: 1.
    """

    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("playout", RandomPlayout)
class _RandomPlayoutRule:
    @staticmethod
    def playouts(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        return mean_playout(game, state, rule.playouts, key, scratch, moves)
