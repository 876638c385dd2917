"""A selection rule of your own, compiled into the search's kernels without touching zerolab.

A package announces such a module in the entry-point group ``zerolab.search``, and every command
knows the rule; a script imports it before the first search.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

import zerolab
from zerolab.search.methods import fpu_value, register_selection
from zerolab.search.puct import PuctRule


class LogPuct(NamedTuple):
    """U = Q + c * P * sqrt(N(s)) * ln(2 + N(s)) / (1 + N(s, a)): explores more in large trees."""

    c: Annotated[float, Field(ge=0)] = 0.5


@register_selection("log_puct", LogPuct)
class LogPuctRule(PuctRule):
    """PUCT's score with another exploration term, compiled like the built-in rules."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        """Return what the scores of all children of a node have in common."""
        visits = tree.visits[b, node]
        exploration = np.float32(rule.c * math.sqrt(visits) * math.log(2.0 + visits))
        return exploration, fpu, np.float32(fpu_value(fpu, tree, b, node))


if __name__ == "__main__":
    position = zerolab.Position.start("gobang:4x4:3")
    agent = "mcts:500?selection=log_puct&selection.c=0.3"
    print(zerolab.analyse(position, agent).best)
