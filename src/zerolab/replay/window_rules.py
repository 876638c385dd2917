"""Rules of the replay window: its size, and the merging of equal positions.

Both are chosen in a run's settings. Another package adds a kind by registering it in `WINDOWS` or
`MERGINGS` from a module that the entry-point group ``zerolab.training`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core.config import Variant
from zerolab.core.registry import Registry


class WindowSize(Variant):
    """Base of windows: which positions are kept after an iteration, counted from 1.

    The positions of a window are ordered by when they were last played, and the oldest leave.
    """

    @property
    def last(self) -> int | None:
        """The iteration in which the window has its final size, if it is known in advance."""
        return None

    def oldest(self, iteration: int) -> int:
        """Return the earliest iteration whose positions are kept."""
        return 1

    def positions(self, iteration: int, total: int) -> int | None:
        """Return the most positions that are kept, or None for any number of them.

        `total` positions were played in the run so far, equal ones counted each.
        """
        return None

    def first_needed(self, iteration: int, total: int, played: Callable[[int], int]) -> int:
        """Return the earliest iteration of which positions are in the window after `iteration`.

        `played` gives the positions of an iteration; it is asked for no more of them than needed.
        Where equal positions are merged, earlier iterations left traces in the window, too.
        """
        oldest, kept, since = self.oldest(iteration), float("inf"), 0
        while iteration >= oldest and since < kept:
            limit = self.positions(iteration, total - since)
            if limit is not None:
                kept = min(kept, since + limit)
            since += played(iteration)
            iteration -= 1
        return iteration + 1


class Merging(Variant):
    """Base of mergings: how much a position changes what is known of an equal one.

    Every column of a row, such as its policy, becomes (1 - share) * old + share * new.
    """

    is_on: ClassVar[bool] = True
    """Whether anything is merged."""
    is_precise: ClassVar[bool] = False
    """Whether shares become so small that columns of float16 would lose them."""

    @property
    def is_symmetric(self) -> bool:
        """Whether positions are equal that a symmetry of the game turns into each other."""
        return False

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the shares of new positions, float32[N].

        `counts` numbers each among the equal ones, in the order in which they came: 2 or more.
        """
        raise NotImplementedError


WINDOWS: Registry[type[WindowSize]] = Registry("window")
MERGINGS: Registry[type[Merging]] = Registry("merging")


class Iterations(WindowSize):
    """The positions of the latest iterations; a plain number is short for it."""

    name: Literal["iterations"] = "iterations"

    iterations: int = Field(default=20, ge=1, le=1_000_000)
    """rs: iterations whose examples are kept. [Wang2019], [Wang2020a], [Wang2020b]: 20 ([Wang2020a]
    sweeps 1 to 40); [Hongcharoen2018]: 20."""

    def oldest(self, iteration: int) -> int:
        """See `WindowSize.oldest`."""
        return max(1, iteration - self.iterations + 1)


WINDOWS.add("iterations", Iterations)


class Positions(WindowSize):
    """A constant number of positions, the latest ones [Clausen2021]."""

    name: Literal["positions"] = "positions"

    size: int = Field(default=2_000_000, ge=1, le=1_000_000_000)
    """Positions that are kept. [Clausen2021], baseline: 2,000,000."""

    def positions(self, iteration: int, total: int) -> int:
        """See `WindowSize.positions`."""
        return self.size


WINDOWS.add("positions", Positions)


class PowerLaw(WindowSize):
    """c * (1 + beta * ((N / c)^alpha - 1) / alpha) of the N positions played so far [Wu2019].

    This is N^alpha, scaled so that all of the first c positions are kept, and beta of each position
    that comes next.
    """

    name: Literal["power_law"] = "power_law"

    c: int = Field(default=250_000, ge=1, le=1_000_000_000)
    """Positions up to which all are kept. [Wu2019]: 250,000."""

    alpha: float = Field(default=0.75, gt=0, le=1)
    """How fast the window grows: 1 for a constant share of all positions. [Wu2019]: 0.75."""

    beta: float = Field(default=0.4, gt=0, le=1)
    """The share of new positions by which it grows when it holds c of them. [Wu2019]: 0.4."""

    def positions(self, iteration: int, total: int) -> int:
        """See `WindowSize.positions`; fractions are rounded down."""
        if total <= self.c:
            return self.c
        growth = ((total / self.c) ** self.alpha - 1) / self.alpha
        return int(self.c * (1 + self.beta * growth))


WINDOWS.add("power_law", PowerLaw)


_MOST = 1_000_000_000


class Slow(WindowSize):
    """A number of positions that grows linearly between two iterations [Clausen2021]."""

    name: Literal["slow"] = "slow"

    first: int = Field(default=500_000, ge=1, le=_MOST)
    """Positions that are kept up to the iteration `begin`. [Clausen2021]: 500,000."""

    final: int = Field(default=2_000_000, ge=1, le=_MOST)
    """Positions that are kept from the iteration `end` on. [Clausen2021]: 2,000,000."""

    begin: int = Field(default=5, ge=1, le=1_000_000)
    """The iteration from which on the window grows. [Clausen2021]: 5."""

    end: int = Field(default=15, ge=1, le=1_000_000)
    """The iteration in which it has grown. [Clausen2021]: 15."""

    @model_validator(mode="after")
    def _grows(self) -> Slow:
        if self.final < self.first:
            raise ValueError(
                f"final = {self.final} positions are fewer than first = {self.first}: a window"
                " does not shrink; expected at least as many"
            )
        if self.end <= self.begin:
            raise ValueError(
                f"end = {self.end} is not after begin = {self.begin}: expected a later iteration"
            )
        return self

    @property
    def last(self) -> int:
        """See `WindowSize.last`."""
        return self.end

    def positions(self, iteration: int, total: int) -> int:
        """See `WindowSize.positions`; fractions are rounded down."""
        grown = min(max(iteration, self.begin), self.end) - self.begin
        return self.first + (self.final - self.first) * grown // (self.end - self.begin)


WINDOWS.add("slow", Slow)
