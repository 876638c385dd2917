"""Custom selection rule, compiled into the search kernels without any change to zerolab.

To make the rule available in all commands, a package lists its module in the entry-point group
``zerolab.search``. A script imports the module before its first search.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

import zerolab
from zerolab.search.methods import node_fpu_value, register_selection
from zerolab.search.puct import PuctRule


class LogPuct(NamedTuple):
    """Q + c * P * sqrt(N(s)) * ln(2 + N(s)) / (1 + N(s, a)): more exploration in large trees."""

    c: Annotated[float, Field(ge=0)] = 0.5


@register_selection("log_puct", LogPuct)
class LogPuctRule(PuctRule):
    """PUCT score with a different exploration term, compiled like the built-in rules."""

    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        """Return the terms shared by the scores of all children of a node."""
        visits = tree.visits[b, node]
        exploration = np.float32(rule.c * math.sqrt(visits) * math.log(2.0 + visits))
        return exploration, fpu, np.float32(node_fpu_value(fpu, tree, b, node))


if __name__ == "__main__":
    position = zerolab.Position.start("gobang:4x4:3")
    agent = "mcts:500?selection=log_puct&selection.c=0.3"
    print(zerolab.analyse(position, agent).chosen_move)
