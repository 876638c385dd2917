"""PUCT: value plus an exploration term in proportion to the prior (FACTS 1, L Algorithm 4)."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import Selection, fpu_value, register_selection


class Puct(NamedTuple):
    """U = Q + c * P * sqrt(N(s)) / (1 + N(s, a)), N(s) counting the node's own evaluation too.

    c: 1.0 in the papers (H sweeps 0.5 to 2), 1.545 in C.
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("puct", Puct)
class PuctRule(Selection):
    """Because N(s) is at least 1, the prior counts at the very first visit."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c * math.sqrt(tree.visits[b, node]))
        return exploration, np.float32(fpu_value(fpu, tree, b, node))

    @staticmethod
    def score(rule, tree, b, child, shared):
        exploration, unvisited = shared
        visits = tree.visits[b, child]
        value = -tree.value[b, child] if visits > 0 else unvisited
        return value + exploration * tree.prior[b, child] / np.float32(1 + visits)
