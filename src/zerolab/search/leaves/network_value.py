"""The evaluator's value as the value of a leaf, as in AlphaZero."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.search.interface import Leaf, register_leaf


class NetworkValue(NamedTuple):
    """A leaf is worth what the evaluator says."""


@register_leaf("network", NetworkValue)
class NetworkValueRule(Leaf):
    """See `NetworkValue`."""

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, trace):
        return estimate
