"""UCT, upper confidence bounds applied to trees [Kocsis2006]."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.methods import SelectionRule, register_selection
from zerolab.search.values import action_value


class Uct(NamedTuple):
    """U(s, a) = Q(s, a) + c * sqrt(ln N(s) / N(s, a)), with Q in [-1, 1]; priors are ignored.

    U is infinite for unvisited children, so every child is visited once before any child is visited
    twice, and first-play urgency has no effect.

    c: exploration constant. [Kocsis2006]: 2 * C_p = 1.41, with C_p = 1 / sqrt(2), for Q in [0, 1],
    which is 2.83 for Q in [-1, 1].
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("uct", Uct)
class _UctRule(SelectionRule):
    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        return np.float32(rule.c * math.sqrt(math.log(tree.visits[b, node])))

    @staticmethod
    def selection_score(rule, tree, b, child, shared):
        visits = tree.visits[b, child]
        if visits == 0:
            return np.float32(np.inf)
        return shared / math.sqrt(np.float32(visits)) + action_value(tree.utility, tree, b, child)
