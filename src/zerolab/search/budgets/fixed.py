"""Every move gets the same number of simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.search.budgets.interface import BUDGETS, Allowance, Budget, BudgetSettings

if TYPE_CHECKING:
    from zerolab.search.settings import SearchSettings


class FixedSettings(BudgetSettings):
    """`search.simulations` for every move. [Wang2019], [Wang2020a], [Wang2020b]: this budget."""

    name: Literal["fixed"] = "fixed"

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> Budget:
        """See `BudgetSettings.new_budget`."""
        return _Fixed(search.simulations)


class _Fixed(Budget):
    def __init__(self, simulations: int) -> None:
        self._simulations = simulations

    def begin(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> Allowance:
        """See `Budget.begin`."""
        count = len(slots)
        return Allowance(np.full(count, self._simulations, np.int32), np.ones(count, np.bool_))


BUDGETS.add("fixed", FixedSettings)
