"""A window that grows slowly, so that the examples of the first, weak networks leave early."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from zerolab.replay.interface import WINDOWS, WindowSize

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
