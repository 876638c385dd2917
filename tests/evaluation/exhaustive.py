"""Oracles for tiny games that look at every continuation, in the simplest way."""

from __future__ import annotations

import numpy as np

from zerolab.oracles.oracle import ILLEGAL, NotSolvedError, Oracle
from zerolab.oracles.solver import UNLIMITED
from zerolab.rules import python, rules
from zerolab.rules.rules import ONGOING


class Exhaustive(Oracle):
    """Negamax over everything; `hardest` is the most legal moves it can cope with."""

    def __init__(self, game, hardest=1000):
        self.game = game
        self.hardest = hardest
        self.known = {}

    def action_values(self, states):
        return np.array([self._values(state) for state in states], np.int32)

    def _values(self, state):
        mask = python.legal(self.game, state)
        if mask.sum() > self.hardest:
            raise NotSolvedError("too hard")
        values = np.full(rules.actions(self.game), ILLEGAL, np.int64)
        for action in np.flatnonzero(mask):
            values[action] = -self.value(python.apply(self.game, state, int(action)))
        return values

    def value(self, state):
        key = state.tobytes()
        if key not in self.known:
            over = python.outcome(self.game, state) != ONGOING
            score = python.score(self.game, state) if over else self._values(state).max()
            self.known[key] = int(score)
        return self.known[key]


def exhaustive(game, budget=UNLIMITED):
    """Make an oracle, as `oracle_for` does; processes find it by its name.

    One with a small budget cannot cope with many moves.
    """
    return Exhaustive(game, hardest=6 if budget.nodes and budget.nodes < 1000 else 1000)
