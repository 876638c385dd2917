"""Custom selection rule that is compiled into the search kernels without changing zerolab.

To make the rule available in all commands, a package lists its module in the entry-point group
``zerolab.search``. A script imports the module before its first search.
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
    """Q + c * P * sqrt(N(s)) * ln(2 + N(s)) / (1 + N(s, a)), which explores large trees more."""

    c: Annotated[float, Field(ge=0)] = 0.5


@register_selection("log_puct", LogPuct)
class LogPuctRule(PuctRule):
    """PUCT score with a different exploration term, compiled like the built-in rules."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        """Return the quantities shared by the scores of a node's children."""
        visits = tree.visits[b, node]
        exploration = np.float32(rule.c * math.sqrt(visits) * math.log(2.0 + visits))
        return exploration, fpu, np.float32(fpu_value(fpu, tree, b, node))


if __name__ == "__main__":
    position = zerolab.Position.start("gobang:4x4:3")
    agent = "mcts:500?selection=log_puct&selection.c=0.3"
    print(zerolab.analyse(position, agent).best)
