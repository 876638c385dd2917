"""Exhaustive oracle for tiny games."""

from __future__ import annotations

import numpy as np

from zerolab.oracles.oracle import ILLEGAL_VALUE, NotSolvedError, Oracle
from zerolab.oracles.solver import UNLIMITED_BUDGET
from zerolab.rules import compiled_rules, rules
from zerolab.rules.rules import ONGOING

_VALUES: dict[tuple, dict[bytes, int]] = {}
"""Values of states by game and largest number of moves, so that each game is solved once."""


class Exhaustive(Oracle):
    """Plain negamax, which refuses positions with more than `max_moves` legal moves."""

    def __init__(self, game, max_moves=1000):
        self.game = game
        self.max_moves = max_moves
        self.values_by_state = _VALUES.setdefault((game, max_moves), {})

    def action_values(self, states):
        return np.array([self._values(state) for state in states], np.int32)

    def values_at(self, position):
        """Return the exact value of every action at a position."""
        return self.action_values(position.state[None])[0]

    def _values(self, state):
        mask = compiled_rules.legal(self.game, state)
        if mask.sum() > self.max_moves:
            raise NotSolvedError("too hard")
        values = np.full(rules.action_count(self.game), ILLEGAL_VALUE, np.int64)
        for action in np.flatnonzero(mask):
            values[action] = -self.value(compiled_rules.apply(self.game, state, int(action)))
        return values

    def value(self, state):
        key = state.tobytes()
        if key not in self.values_by_state:
            is_finished = compiled_rules.outcome(self.game, state) != ONGOING
            score = (
                compiled_rules.final_score(self.game, state)
                if is_finished
                else self._values(state).max()
            )
            self.values_by_state[key] = int(score)
        return self.values_by_state[key]


def check_perfect_play(oracle, position, moves):
    """Assert that each of the moves has the best exact value; return the position after them."""
    for move in moves:
        values = oracle.values_at(position)
        assert values[position.parse_action(move)] == values.max()
        position = position.play(move)
    return position


def exhaustive(game, budget=UNLIMITED_BUDGET):
    """Return an oracle, as `oracle_for` does; it is a function so that it can be pickled.

    With a small budget, the oracle refuses positions with many moves.
    """
    return Exhaustive(game, max_moves=6 if budget.nodes and budget.nodes < 1000 else 1000)
