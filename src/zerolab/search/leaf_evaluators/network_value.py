"""The evaluator's value as the value of a leaf [Silver2018]."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.search.interface import LeafEvaluator, register_leaf_evaluator


class NetworkValue(NamedTuple):
    """v = v_network."""


@register_leaf_evaluator("network", NetworkValue)
class NetworkValueRule(LeafEvaluator):
    """See `NetworkValue`."""

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, moves):
        return estimate
