"""Few moves are searched fully and learnt from, the others are played quickly [Wu2019]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.search.budgets.interface import BUDGETS, Allowance, Budget, BudgetSettings

if TYPE_CHECKING:
    from zerolab.search.settings import SearchSettings


class CapsSettings(BudgetSettings):
    """Playout cap randomization [Wu2019, Section 3.1].

    A game needs many moves to give one result, which teaches the value; a policy target needs many
    simulations of one move. So most moves are searched with few simulations and without root noise,
    and only the others, drawn at random for every move, become policy and value targets.
    """

    name: Literal["caps"] = "caps"

    share: float = Field(default=0.25, gt=0, lt=1)
    """The share of moves that are searched fully, with `search.simulations`. [Wu2019]: 0.25, with
    600 simulations growing to 1000; [Clausen2021] lists 0.25 as an option."""

    simulations: int = Field(default=20, ge=1, le=1_000_000)
    """Simulations of the other moves. [Wu2019]: 100 growing to 200; [Clausen2021]: 30."""

    def check(self, search: SearchSettings) -> None:
        """See `BudgetSettings.check`."""
        if self.simulations >= search.simulations:
            raise ValueError(
                f"selfplay.budget.simulations = {self.simulations} is not below search.simulations"
                f" = {search.simulations}: expected fewer, for the moves that are not searched"
                " fully"
            )

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> Budget:
        """See `BudgetSettings.new_budget`."""
        return _Caps(self.share, self.simulations, search.simulations)


class _Caps(Budget):
    def __init__(self, share: float, quick: int, full: int) -> None:
        self._share = share
        self._quick = quick
        self._full = full

    def begin(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> Allowance:
        """See `Budget.begin`."""
        full = np.empty(len(slots), np.bool_)
        _draw(keys, self._share, full)
        return Allowance(np.where(full, self._full, self._quick).astype(np.int32), full)


@kernel
def _draw(keys, share, drawn):
    """Draw whether each of some events of a probability happens, from streams uint64[n]."""
    for i in range(keys.shape[0]):
        drawn[i] = streams.uniform(keys[i], 0) < share


BUDGETS.add("caps", CapsSettings)
