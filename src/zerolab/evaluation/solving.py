"""What an oracle says about many positions, some of which may be equal or too hard."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from zerolab.oracles.interface import ILLEGAL, NotSolvedError, Oracle
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of

UNSOLVED = -1
"""Instead of an action, where none is known to be best."""


def solve(
    game: Game,
    oracle: Oracle,
    states: NDArray[np.uint64],
    report: Callable[[int], None] = lambda _: None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Solve ongoing states uint64[n, words], equal ones once.

    Returns the values int32[n, actions] and which states are solved, bool[n]; where the oracle's
    budget is spent, every value is ILLEGAL. `report` gets the number of different states done.
    """
    different, where = np.unique(states, axis=0, return_inverse=True)
    values = np.full((len(different), actions_of(game)), ILLEGAL, np.int32)
    solved = np.ones(len(different), np.bool_)
    for row, state in enumerate(different):
        try:
            values[row] = oracle.action_values(state[None])[0]
        except NotSolvedError:
            solved[row] = False
        report(row + 1)
    places = where.reshape(-1)
    return values[places], solved[places]


def solve_first_best(
    oracle: Oracle, states: NDArray[np.uint64], orders: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first best action of each order (see `Oracle.first_best`) in ongoing states.

    int64[n]; UNSOLVED where the oracle's budget is spent.
    """
    found = np.full(len(states), UNSOLVED, np.int64)
    for row in range(len(states)):
        with suppress(NotSolvedError):
            found[row] = oracle.first_best(states[row : row + 1], orders[row : row + 1])[0]
    return found
