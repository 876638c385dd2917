"""What an oracle says about many positions, some of which may be equal or too hard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.oracles.interface import ILLEGAL, NotSolvedError, Oracle
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of


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
    solved = _ask(oracle.action_values, different, values, report)
    places = where.reshape(-1)
    return values[places], solved[places]


def solve_best(game: Game, oracle: Oracle, states: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return the best actions of ongoing states uint64[n, words], equal ones solved once.

    bool[n, actions]; where the oracle's budget is spent, there are none.
    """
    different, where = np.unique(states, axis=0, return_inverse=True)
    best = np.zeros((len(different), actions_of(game)), np.bool_)
    _ask(oracle.best_actions, different, best)
    return best[where.reshape(-1)]


def _ask(
    answer: Callable[[NDArray[np.uint64]], NDArray[Any]],
    states: NDArray[np.uint64],
    out: NDArray[Any],
    report: Callable[[int], None] = lambda _: None,
) -> NDArray[np.bool_]:
    """Fill in the answers to states one by one; return which are solved."""
    solved = np.ones(len(states), np.bool_)
    for row, state in enumerate(states):
        try:
            out[row] = answer(state[None])[0]
        except NotSolvedError:
            solved[row] = False
        report(row + 1)
    return solved
