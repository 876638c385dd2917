"""Rules of the replay window: its size, and the merging of equal positions.

Both are chosen in a run's settings. Another package adds a kind by registering it in `WINDOWS` or
`MERGINGS` from a module named by the entry-point group ``zerolab.training``.
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
    """Base of window sizes: the positions kept after an iteration, counted from 1.

    The positions of a window are ordered by when they were last played, and the oldest leave.
    """

    @property
    def last(self) -> int | None:
        """The iteration of the window's final size; None if not known in advance."""
        return None

    def oldest(self, iteration: int) -> int:
        """Return the earliest iteration whose positions are kept."""
        return 1

    def positions(self, iteration: int, total: int) -> int | None:
        """Return the maximum number of positions kept, or None for no limit.

        `total` positions were played in the run so far, equal ones counted separately.
        """
        return None

    def first_needed(self, iteration: int, total: int, played: Callable[[int], int]) -> int:
        """Return the earliest iteration with positions in the window after `iteration`.

        `played` gives the positions of an iteration; it is called only where needed. Where equal
        positions are merged, earlier iterations left traces in the window, too.
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
    """Base of mergings: the influence of a position on the facts of an equal one.

    Games of self-play reach the same openings again and again. Unmerged, these fill the window, and
    a network has to learn several different targets for one and the same input.

    Every column of a row, such as its policy, becomes (1 - share) * old + share * new.
    """

    is_on: ClassVar[bool] = True
    """True if anything is merged."""
    is_precise: ClassVar[bool] = False
    """True if shares become so small that columns of float16 would lose them."""

    @property
    def is_symmetric(self) -> bool:
        """True if positions count as equal that a symmetry of the game maps to each other."""
        return False

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the shares of new positions, float32[N].

        `counts` numbers each among the equal ones, in the order of arrival: 2 or more.
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
        return max(1, iteration - self.iterations + 1)


WINDOWS.add("iterations", Iterations)


class Positions(WindowSize):
    """A constant number of positions, the latest ones [Clausen2021]."""

    name: Literal["positions"] = "positions"

    size: int = Field(default=2_000_000, ge=1, le=1_000_000_000)
    """Number of positions kept. [Clausen2021], baseline: 2,000,000."""

    def positions(self, iteration: int, total: int) -> int:
        return self.size


WINDOWS.add("positions", Positions)


class PowerLaw(WindowSize):
    """c * (1 + beta * ((N / c)^alpha - 1) / alpha) of the N positions played so far [Wu2019].

    This is N^alpha, scaled so that all of the first c positions are kept, and beta of each position
    that comes next.
    """

    name: Literal["power_law"] = "power_law"

    c: int = Field(default=250_000, ge=1, le=1_000_000_000)
    """Number of positions up to which all are kept. [Wu2019]: 250,000."""

    alpha: float = Field(default=0.75, gt=0, le=1)
    """Exponent of the window's growth: 1 for a constant share of all positions. [Wu2019]: 0.75."""

    beta: float = Field(default=0.4, gt=0, le=1)
    """Share of new positions by which the window grows when it holds c of them. [Wu2019]: 0.4."""

    def positions(self, iteration: int, total: int) -> int:
        """Return the maximum number of positions; fractions are rounded down."""
        if total <= self.c:
            return self.c
        growth = ((total / self.c) ** self.alpha - 1) / self.alpha
        return int(self.c * (1 + self.beta * growth))


WINDOWS.add("power_law", PowerLaw)


_MOST = 1_000_000_000


class Slow(WindowSize):
    """A number of positions that grows linearly between two iterations [Clausen2021].

    The examples of the first, weak networks leave early.
    """

    name: Literal["slow"] = "slow"

    first: int = Field(default=500_000, ge=1, le=_MOST)
    """Positions kept up to the iteration `begin`. [Clausen2021]: 500,000."""

    final: int = Field(default=2_000_000, ge=1, le=_MOST)
    """Positions kept from the iteration `end` on. [Clausen2021]: 2,000,000."""

    begin: int = Field(default=5, ge=1, le=1_000_000)
    """The iteration from which the window grows. [Clausen2021]: 5."""

    end: int = Field(default=15, ge=1, le=1_000_000)
    """The iteration in which it reaches its final size. [Clausen2021]: 15."""

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
        return self.end

    def positions(self, iteration: int, total: int) -> int:
        """Return the maximum number of positions; fractions are rounded down."""
        grown = min(max(iteration, self.begin), self.end) - self.begin
        return self.first + (self.final - self.first) * grown // (self.end - self.begin)


WINDOWS.add("slow", Slow)


class NoMerging(Merging):
    """Every position is a separate row."""

    name: Literal["none"] = "none"
    is_on = False


class _On(Merging):
    """Base of types that merge."""

    across_symmetries: bool = False
    """Also merge positions that a symmetry of the game turns into each other; `learn.symmetries`
    then has to show the network the other images. [Clausen2021]: false."""

    @property
    def is_symmetric(self) -> bool:
        return self.across_symmetries


class Newest(_On):
    """z = (1 - weight) * z_old + weight * z_new, in order of appearance [Clausen2021].

    The latest positions, played by the strongest network, count most.
    """

    name: Literal["newest"] = "newest"

    weight: float = Field(default=0.8, gt=0, le=1)
    """Share of a new position in the merged row; 1 keeps the newest alone. [Clausen2021]: 0.8."""

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        return np.full(len(counts), self.weight, np.float32)


class Mean(_On):
    """The plain mean of all positions that a row stands for.

    Facts missing at some positions, such as replies, are means weighted by positions: a value after
    positions without one counts as if these had one, too.
    """

    name: Literal["mean"] = "mean"
    is_precise = True

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        return (1 / counts).astype(np.float32)


for _kind in (NoMerging, Newest, Mean):
    MERGINGS.add(_kind.model_fields["name"].default, _kind)
