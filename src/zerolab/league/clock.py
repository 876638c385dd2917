"""Thinking time from a clock: each player has its own threshold, and a stock of simulations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.errors import quoted
from zerolab.search.budgets.interface import Allowance
from zerolab.search.budgets.settle import Settle, SettleSettings
from zerolab.search.interface import plans
from zerolab.search.settings import SearchSettings


class ClockSettings(SettleSettings):
    """Thinking time by Kullback-Leibler divergence, from a clock [Clausen2021].

    A player has a clock in every game. Each of its turns adds `increment` simulations to it, and
    the move takes off what it was searched with; it may take all that is left, up to `most`.
    """

    start: int = Field(default=4650, ge=0, le=1_000_000_000)
    """Simulations on a player's clock at the start of a game. [Clausen2021]: 4650."""

    increment: int = Field(default=50, ge=1, le=1_000_000)
    """Simulations that each turn of the player adds, so that every move gets some.
    [Clausen2021]: 50."""

    def check(self, search: SearchSettings) -> None:
        """See `BudgetSettings.check`."""
        if plans(search.root.build()):
            raise ValueError(
                f"parameters = threshold: search.root = {quoted(search.root.name)} plans the"
                " simulations of a move ahead; expected parameters without threshold, or another"
                " search.root"
            )

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> Clock:
        """See `BudgetSettings.new_budget`."""
        return Clock(self, slots, actions)


class Clock(Settle):
    """See `ClockSettings`; a slot is one player in one game."""

    def __init__(self, settings: ClockSettings, slots: int, actions: int) -> None:
        super().__init__(settings, slots, actions)
        self._start, self._increment, self._most = settings.start, settings.increment, settings.most
        self.left = np.full(slots, settings.start, np.int64)
        """int64[slots]: what was left at the last turn, its own increment included."""

    def reset(self, slots: NDArray[np.int64]) -> None:
        """Wind up the clocks for new games."""
        self.left[slots] = self._start
        self.spent[slots] = 0

    def begin(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> Allowance:
        """See `Budget.begin`."""
        self.left[slots] += self._increment - self.spent[slots]
        self.most[slots] = np.minimum(self.left[slots], self._most)
        return super().begin(slots, keys)
