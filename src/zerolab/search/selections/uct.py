"""UCT: upper confidence bounds applied to trees (Kocsis and Szepesvari 2006)."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import Selection, register_selection


class Uct(NamedTuple):
    """U = Q + c * sqrt(ln N(s) / N(s, a)); priors are ignored.

    Every child is tried once before any a second time, so first-play urgency rules have no effect.
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("uct", Uct)
class UctRule(Selection):
    """Section 2.3 of the paper, with values in [-1, 1]."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        return np.float32(rule.c * math.sqrt(math.log(tree.visits[b, node])))

    @staticmethod
    def score(rule, tree, b, child, shared):
        visits = tree.visits[b, child]
        if visits == 0:
            return np.float32(np.inf)
        return shared / math.sqrt(np.float32(visits)) - tree.value[b, child]
