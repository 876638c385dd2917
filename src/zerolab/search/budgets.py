"""Simulation budgets: the number of simulations per move.

Budgets work on trees and are independent of games and players, so self-play, matches and players
with a clock can all use them. To add a budget from another package, register its settings in
`BUDGETS` from a module named in the ``zerolab.search`` entry-point group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.config import VariantSettings
from zerolab.core.errors import quoted
from zerolab.core.registry import Registry
from zerolab.search.methods import has_fixed_schedule

if TYPE_CHECKING:
    from zerolab.search.search import Search
    from zerolab.search.search_settings import SearchSettings


class SimulationAllowance(NamedTuple):
    """Simulations that n searches may run before the next call to `Budget.grant_more`."""

    simulations: NDArray[np.int32]
    """int32[n]: number of simulations."""
    is_full_search: NDArray[np.bool_]
    """bool[n]: True for full searches, which have root noise and provide training targets."""


class Budget:
    """Budget for the trees of one search."""

    may_extend: ClassVar[bool] = False
    """True if the search must call `grant_more` when it has used up its simulations."""

    def initial_allowance(
        self, trees: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> SimulationAllowance:
        """Return the allowance of new searches; `keys` uint64[n] are their random streams."""
        raise NotImplementedError

    def grant_more(self, trees: NDArray[np.int64], search: Search) -> NDArray[np.int32]:
        """Grant searches more simulations; return their numbers, int32[n], 0 to end a search."""
        raise NotImplementedError


class BudgetSettings(VariantSettings):
    """Base class of budget settings."""

    scales_with_simulations: ClassVar[bool] = True
    """True if larger values of `search.simulations` make searches larger."""

    def check(self, search: SearchSettings) -> None:
        """Raise ValueError, naming the settings, if the budget cannot be used with the search."""

    def new_budget(self, search: SearchSettings, tree_count: int, action_count: int) -> Budget:
        """Return a budget for `tree_count` trees in a game with `action_count` actions."""
        raise NotImplementedError


BUDGETS: Registry[type[BudgetSettings]] = Registry("budget")


class PlayoutCapSettings(BudgetSettings):
    """Playout cap randomization [Wu2019, Section 3.1].

    Value targets need many games, but policy targets need many simulations per move. Most moves are
    therefore searched with few simulations and without root noise. A random share of moves is
    searched fully, and only fully searched moves provide policy and value targets.
    """

    name: Literal["playout_cap"] = "playout_cap"

    share: float = Field(default=0.25, gt=0, lt=1)
    """Share of fully searched moves, each with `search.simulations`. [Wu2019]: 0.25, with 600
    simulations growing to 1000; [ClausenCode] lists 0.25 as an option."""

    simulations: int = Field(default=20, ge=1, le=1_000_000)
    """Simulations per move for the other moves. [Wu2019]: 100 growing to 200; [ClausenCode]: 30."""

    def check(self, search: SearchSettings) -> None:
        if self.simulations >= search.simulations:
            raise ValueError(
                f"selfplay.budget.simulations = {self.simulations} is not below search.simulations"
                f" = {search.simulations}: expected fewer simulations for moves that are not"
                " searched fully"
            )

    def new_budget(self, search: SearchSettings, tree_count: int, action_count: int) -> Budget:
        return _PlayoutCap(self.share, self.simulations, search.simulations)


class _PlayoutCap(Budget):
    def __init__(self, share: float, quick: int, full: int) -> None:
        self._share = share
        self._quick = quick
        self._full = full

    def initial_allowance(
        self, trees: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> SimulationAllowance:
        full = np.empty(len(trees), np.bool_)
        _draw(keys, self._share, full)
        return SimulationAllowance(np.where(full, self._full, self._quick).astype(np.int32), full)


@kernel
def _draw(keys, share, drawn):
    """Draw one event with probability `share` from each of the random streams `keys`, uint64[n]."""
    for i in range(keys.shape[0]):
        drawn[i] = streams.uniform(keys[i], 0) < share


BUDGETS.add("playout_cap", PlayoutCapSettings)


class FixedBudgetSettings(BudgetSettings):
    """The same number of simulations, `search.simulations`, for every move.

    [Wang2019], [Wang2020a] and [Wang2020b] use this budget.
    """

    name: Literal["fixed"] = "fixed"

    def new_budget(self, search: SearchSettings, tree_count: int, action_count: int) -> Budget:
        return _Fixed(search.simulations)


class _Fixed(Budget):
    def __init__(self, simulations: int) -> None:
        self._simulations = simulations

    def initial_allowance(
        self, trees: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> SimulationAllowance:
        count = len(trees)
        return SimulationAllowance(
            np.full(count, self._simulations, np.int32), np.ones(count, np.bool_)
        )


BUDGETS.add("fixed", FixedBudgetSettings)


class KlGainSettings(BudgetSettings):
    """Thinking time controlled by the Kullback-Leibler divergence [Clausen2021].

    After every `every` simulations, the root policy is compared with the root policy at the
    previous comparison, or at first with the priors of the visited actions [ClausenCode]. The
    search of a move ends when the divergence falls to a threshold. League players in [Clausen2021]
    use this budget with 50 to 2,000 nodes per move and a clock. With this budget,
    `search.simulations` applies only to matches and measurements, and as the default of RAVE's
    `equivalence`.
    """

    name: Literal["kl_gain"] = "kl_gain"
    scales_with_simulations: ClassVar[bool] = False

    every: int = Field(default=50, ge=1, le=1_000_000)
    """Number of simulations between comparisons. [Clausen2021]: 50."""

    least: int = Field(default=50, ge=1, le=1_000_000)
    """Minimum number of simulations per move. [Clausen2021]: 50."""

    most: int = Field(default=2000, ge=1, le=1_000_000)
    """Maximum number of simulations per move. [Clausen2021]: 2000."""

    threshold: float = Field(default=-8.0, ge=-64, le=64)
    """Base-2 logarithm of the divergence, in bits, at or below which the search ends.
    On Connect Four, with a network trained for four iterations and at most 1,000 simulations, -6,
    -8 and -10 led to 196, 337 and 594 simulations per move. [Clausen2021]: evolved between -14 and
    1."""

    @model_validator(mode="after")
    def _in_order(self) -> KlGainSettings:
        if self.least > self.most:
            raise ValueError(
                f"least = {self.least} exceeds most = {self.most}: expected at most {self.most}"
            )
        if self.every > self.most:
            raise ValueError(
                f"every = {self.every} exceeds most = {self.most}: expected at most {self.most}"
            )
        return self

    def check(self, search: SearchSettings) -> None:
        if has_fixed_schedule(search.root.build()):
            raise ValueError(
                f'selfplay.budget = "kl_gain": search.root = {quoted(search.root.name)} plans all'
                ' simulations of a move in advance; expected a different budget, such as "fixed"'
            )

    def new_budget(
        self, search: SearchSettings, tree_count: int, action_count: int
    ) -> KlGainBudget:
        return KlGainBudget(self, tree_count, action_count)


class KlGainBudget(Budget):
    """Budget of `KlGainSettings`; trees may have different thresholds and maxima."""

    may_extend: ClassVar[bool] = True

    def __init__(self, settings: KlGainSettings, trees: int, actions: int) -> None:
        self._settings = settings
        self.thresholds = np.full(trees, settings.threshold)
        """float64[trees]: `KlGainSettings.threshold` of each tree."""
        self.max_simulations = np.full(trees, settings.most, np.int32)
        """int32[trees]: maximum number of simulations per move of each tree."""
        self.spent_simulations = np.zeros(trees, np.int32)
        """int32[trees]: simulations allowed so far for the current move of each tree."""
        self._previous = np.zeros((trees, actions), np.float32)
        self._compared = np.zeros(trees, np.bool_)

    def initial_allowance(
        self, trees: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> SimulationAllowance:
        self._compared[trees] = False
        self.spent_simulations[trees] = np.minimum(
            self._settings.every, self.max_simulations[trees]
        )
        return SimulationAllowance(self.spent_simulations[trees], np.ones(len(trees), np.bool_))

    def grant_more(self, trees: NDArray[np.int64], search: Search) -> NDArray[np.int32]:
        settings, spent = self._settings, self.spent_simulations[trees]
        remaining = self.max_simulations[trees] - spent
        current = search.policies(trees)
        previous = self._previous_policies(trees, current, search)
        converged = kl_divergence(previous, current) <= 2.0 ** self.thresholds[trees]
        self._previous[trees] = current
        finished = (converged & (spent >= settings.least)) | (remaining <= 0)
        more = np.where(finished, 0, np.minimum(settings.every, remaining)).astype(np.int32)
        self.spent_simulations[trees] += more
        return more

    def _previous_policies(
        self, trees: NDArray[np.int64], current: NDArray[np.float32], search: Search
    ) -> NDArray[np.float32]:
        """Return the policies at the last comparison, initially the priors of visited actions."""
        previous = self._previous[trees]
        new = ~self._compared[trees]
        if new.any():
            previous[new] = np.where(current[new] > 0, search.root_priors(trees[new]), 0)
            self._compared[trees] = True
        return previous


def kl_divergence(previous: NDArray[Any], current: NDArray[Any]) -> NDArray[np.float64]:
    """Return D_KL(previous || current) of distributions [n, actions] in bits, float64[n].

    Only actions with weight in both distributions are compared. If there are none, the result is 0.
    """
    both = (previous > 0) & (current > 0)
    p, q = (np.where(both, each, 0).astype(np.float64) for each in (previous, current))
    p, q = (each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300) for each in (p, q))
    ratios = np.divide(p, q, out=np.ones_like(p), where=both)
    total: NDArray[np.float64] = (p * np.log2(ratios)).sum(axis=1)
    return total


BUDGETS.add("kl_gain", KlGainSettings)
