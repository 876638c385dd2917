"""A window that grows with the run, but ever more slowly."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.replay.interface import WINDOWS, WindowSize


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
