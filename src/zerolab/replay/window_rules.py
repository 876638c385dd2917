"""Sizes of the replay window, and merging of equal positions.

Both are selected in the settings of a run. Other packages can register other types in `WINDOWS` or
`MERGINGS`, in a module declared in the ``zerolab.training`` entry-point group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core.config import VariantSettings
from zerolab.core.registry import Registry

_MAX_POSITIONS = 1_000_000_000


class WindowRule(VariantSettings):
    """Base class of window sizes, which determine the positions kept after an iteration.

    Iterations are counted from 1. The positions played longest ago leave the window first.
    """

    @property
    def last_scheduled_iteration(self) -> int | None:
        """Iteration in which the window reaches its final size; None if unknown in advance."""
        return None

    def oldest_iteration(self, iteration: int) -> int:
        """Return the earliest iteration whose positions are kept."""
        return 1

    def max_positions(self, iteration: int, total_positions: int) -> int | None:
        """Return the maximum number of positions kept; None for no limit.

        `total_positions` is the number of positions played in the run so far, before merging.
        """
        return None

    def first_needed_iteration(
        self, iteration: int, total_positions: int, count_positions: Callable[[int], int]
    ) -> int:
        """Return the earliest iteration with positions in the window after `iteration`.

        `count_positions` returns the number of positions of an iteration and is called only if
        necessary. If equal positions are merged, earlier iterations also affect the window.
        """
        oldest, size, later = self.oldest_iteration(iteration), float("inf"), 0
        while iteration >= oldest and later < size:
            limit = self.max_positions(iteration, total_positions - later)
            if limit is not None:
                size = min(size, later + limit)
            later += count_positions(iteration)
            iteration -= 1
        return iteration + 1


class Merging(VariantSettings):
    """Base class of merging rules, which combine the facts of equal positions in one row.

    Self-play games often share their openings. Without merging, these positions fill the window,
    and the network has to learn different targets for the same input.

    Every column of a row, such as its policy, becomes (1 - weight) * old + weight * new.
    """

    is_active: ClassVar[bool] = True
    """True if positions are merged."""
    needs_float32: ClassVar[bool] = False
    """True if columns must be float32 because weights can be too small for float16."""

    @property
    def merges_across_symmetries(self) -> bool:
        """True if symmetric positions count as equal."""
        return False

    def new_position_weights(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weights of new positions in their rows, float32[N], at most 1.

        `counts` are the numbers of positions in the rows, including the new one, so at least 2.
        """
        raise NotImplementedError


WINDOWS: Registry[type[WindowRule]] = Registry("window")
MERGINGS: Registry[type[Merging]] = Registry("merging")


class IterationsWindow(WindowRule):
    """Keep the latest iterations' positions; a plain number in the settings selects this window."""

    name: Literal["iterations"] = "iterations"

    iterations: int = Field(default=20, ge=1, le=1_000_000)
    """rs: number of iterations whose examples are kept. [Wang2019], [Wang2020a], [Wang2020b]: 20
    ([Wang2020a] sweeps 1 to 40); [Hongcharoen2018]: 20."""

    def oldest_iteration(self, iteration: int) -> int:
        return max(1, iteration - self.iterations + 1)


WINDOWS.add("iterations", IterationsWindow)


class PositionsWindow(WindowRule):
    """Keep a constant number of the latest positions [Clausen2021]."""

    name: Literal["positions"] = "positions"

    size: int = Field(default=2_000_000, ge=1, le=_MAX_POSITIONS)
    """Number of positions kept. [Clausen2021], baseline: 2,000,000."""

    def max_positions(self, iteration: int, total_positions: int) -> int:
        return self.size


WINDOWS.add("positions", PositionsWindow)


class PowerLawWindow(WindowRule):
    """Keep c * (1 + beta * ((N / c)^alpha - 1) / alpha) of the N positions so far [Wu2019].

    The size is a linear function of N^alpha. The window keeps all of the first c positions, and
    then initially grows by beta per new position.
    """

    name: Literal["power_law"] = "power_law"

    c: int = Field(default=250_000, ge=1, le=_MAX_POSITIONS)
    """Number of played positions up to which the window keeps all of them. [Wu2019]: 250,000."""

    alpha: float = Field(default=0.75, gt=0, le=1)
    """Exponent of the window's growth; 1 for linear growth. [Wu2019]: 0.75."""

    beta: float = Field(default=0.4, gt=0, le=1)
    """Growth of the window per new position when it contains c positions. [Wu2019]: 0.4."""

    def max_positions(self, iteration: int, total_positions: int) -> int:
        """Return the maximum number of positions; fractions are rounded down."""
        if total_positions <= self.c:
            return self.c
        growth = ((total_positions / self.c) ** self.alpha - 1) / self.alpha
        return int(self.c * (1 + self.beta * growth))


WINDOWS.add("power_law", PowerLawWindow)


class LinearGrowthWindow(WindowRule):
    """Keep a number of positions that grows linearly between two iterations [Clausen2021].

    The examples of the first, weak networks leave the window early.
    """

    name: Literal["slow"] = "slow"

    first: int = Field(default=500_000, ge=1, le=_MAX_POSITIONS)
    """Number of positions kept up to iteration `begin`. [Clausen2021]: 500,000."""

    final: int = Field(default=2_000_000, ge=1, le=_MAX_POSITIONS)
    """Number of positions kept from iteration `end` onwards. [Clausen2021]: 2,000,000."""

    begin: int = Field(default=5, ge=1, le=1_000_000)
    """Iteration after which the window starts to grow. [Clausen2021]: 5."""

    end: int = Field(default=15, ge=1, le=1_000_000)
    """Iteration in which the window reaches its final size. [Clausen2021]: 15."""

    @model_validator(mode="after")
    def _require_growth(self) -> LinearGrowthWindow:
        if self.final < self.first:
            raise ValueError(
                f"final = {self.final} is less than first = {self.first}: expected at least"
                f" {self.first}, since a window cannot shrink"
            )
        if self.end <= self.begin:
            raise ValueError(
                f"end = {self.end} is not after begin = {self.begin}: expected a later iteration"
            )
        return self

    @property
    def last_scheduled_iteration(self) -> int:
        return self.end

    def max_positions(self, iteration: int, total_positions: int) -> int:
        """Return the maximum number of positions; fractions are rounded down."""
        elapsed = min(max(iteration, self.begin), self.end) - self.begin
        return self.first + (self.final - self.first) * elapsed // (self.end - self.begin)


WINDOWS.add("slow", LinearGrowthWindow)


class NoMerging(Merging):
    """Store every position in a separate row."""

    name: Literal["none"] = "none"
    is_active = False


class _ActiveMerging(Merging):
    """Base class of rules that merge positions."""

    across_symmetries: bool = False
    """Also merge symmetric positions; the network then sees other images of a position only through
    `learn.symmetries`. [Clausen2021]: false."""

    @property
    def merges_across_symmetries(self) -> bool:
        return self.across_symmetries


class NewestMerging(_ActiveMerging):
    """z = (1 - weight) * z_old + weight * z_new, in order of play [Clausen2021].

    The latest positions, played by the strongest network, have the largest influence.
    """

    name: Literal["newest"] = "newest"

    weight: float = Field(default=0.8, gt=0, le=1)
    """Weight of a new position in the merged row; 1 keeps only the newest. [Clausen2021]: 0.8."""

    def new_position_weights(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        return np.full(len(counts), self.weight, np.float32)


class MeanMerging(_ActiveMerging):
    """Mean over all positions merged into a row.

    Some facts, such as replies, are missing for some positions. The weight of a known value depends
    on the number of all positions in the row, including those without the fact.
    """

    name: Literal["mean"] = "mean"
    needs_float32 = True

    def new_position_weights(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        return (1 / counts).astype(np.float32)


for _kind in (NoMerging, NewestMerging, MeanMerging):
    MERGINGS.add(_kind.model_fields["name"].default, _kind)
