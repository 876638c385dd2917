"""A window of the latest iterations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.replay.interface import WINDOWS, WindowSize


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
