"""PUCT [Rosin2011] in the form of [Silver2018] and [Wang2019, Alg. 4]."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import Selection, first_play, fpu_value, register_selection
from zerolab.search.utility import action_value


class Puct(NamedTuple):
    """U(s, a) = Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)), with Q in [-1, 1].

    N(s) counts the node's own evaluation, so that the prior takes effect at the first visit.

    c: exploration constant. [Wang2019], [Wang2020a], [Wang2020b]: 1.0 ([Wang2020a] sweeps 0.5 to
    2). [Clausen2021]: 3.09, published as 1.545 for Q in [0, 1]; evolved within [0.5, 8].
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("puct", Puct)
class PuctRule(Selection):
    """See `Puct`."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(fpu_value(fpu, tree, b, node))

    @staticmethod
    def score(rule, tree, b, child, shared):
        exploration, fpu, shared_value = shared
        visits = tree.visits[b, child]
        unvisited = first_play(fpu, tree, b, child, shared_value)
        value = action_value(tree.utility, tree, b, child) if visits > 0 else unvisited
        return value + exploration * tree.prior[b, child] / np.float32(1 + visits)
