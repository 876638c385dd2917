"""What a budget is asked: how many simulations a move gets, and whether it needs more.

Budgets know slots, as searches do, and neither games nor players, so that self-play, matches and a
player with a clock can all ask them. Another package adds one by registering its settings in
`BUDGETS` from a module that the entry-point group ``zerolab.search`` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import Choice
from zerolab.core.registry import Registry

if TYPE_CHECKING:
    from zerolab.search.search import Search
    from zerolab.search.settings import SearchSettings


class Allowance(NamedTuple):
    """What some moves may spend before `Budget.more` is asked."""

    simulations: NDArray[np.int32]
    """int32[n]"""
    full: NDArray[np.bool_]
    """bool[n]: whether the search is a full one: with root noise, and good enough to learn from."""


class Budget:
    """Decides about the moves of one search, whose slots it shares."""

    may_extend: ClassVar[bool] = False
    """Whether `more` is to be asked when the simulations of a move have run."""

    def begin(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> Allowance:
        """Return what moves may spend whose searches begin; `keys` uint64[n] are their streams."""
        raise NotImplementedError

    def more(self, slots: NDArray[np.int64], search: Search) -> NDArray[np.int32]:
        """Return how many simulations moves get beyond those that have run, int32[n]; 0: enough."""
        raise NotImplementedError


class BudgetSettings(Choice):
    """Base of the settings of budgets."""

    def check(self, search: SearchSettings) -> None:
        """Raise ValueError, naming values, where the budget does not fit a search."""

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> Budget:
        """Return a budget for a search with as many slots, in a game of as many actions."""
        raise NotImplementedError


BUDGETS: Registry[type[BudgetSettings]] = Registry("budget")
