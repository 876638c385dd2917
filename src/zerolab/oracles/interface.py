"""What an oracle is: it knows the exact value of every legal move."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError

ILLEGAL = np.iinfo(np.int32).min
"""The value of an action that is not legal."""


class NotSolvedError(UserError):
    """A position was not solved within the budget of nodes or seconds."""


class Oracle(Protocol):
    """Knows the value of every move of a game under perfect play.

    A value is a score for the player to move: positive if the move wins, 0 if it draws, negative
    if it loses. Larger is better: more discs in Othello, in other games a faster win or a slower
    loss. The best moves are those of the highest value.
    """

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the values int32[n, actions] of ongoing states uint64[n, words].

        Actions that are not legal have the value ILLEGAL. Raises NotSolvedError when a budget of
        nodes or seconds is spent; an oracle never guesses.
        """
        ...

    def first_best(
        self, states: NDArray[np.uint64], orders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the first action of each order that has the highest value, int64[n].

        `orders` int64[n, actions] are permutations of the actions; random ones make each of the
        best actions equally likely. An oracle that knows it sooner than the values of all actions
        says so here. Raises NotSolvedError as `action_values` does.
        """
        best = np.take_along_axis(best_of(self.action_values(states)), orders, axis=1)
        rows = np.arange(len(orders))
        first: NDArray[np.int64] = orders[rows, best.argmax(axis=1)]
        return first


def best_of(values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return where values [n, actions] are the highest of their row, bool[n, actions]."""
    best: NDArray[np.bool_] = values == values.max(axis=1, keepdims=True)
    return best
