"""A window of the latest positions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.replay.interface import WINDOWS, WindowSize


class Positions(WindowSize):
    """A constant number of positions, the latest ones [Clausen2021]."""

    name: Literal["positions"] = "positions"

    size: int = Field(default=2_000_000, ge=1, le=1_000_000_000)
    """Positions that are kept. [Clausen2021], baseline: 2,000,000."""

    def positions(self, iteration: int, total: int) -> int:
        """See `WindowSize.positions`."""
        return self.size


WINDOWS.add("positions", Positions)
