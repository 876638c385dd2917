"""The sum of both losses, as in AlphaZero."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from zerolab.losses.interface import LOSSES, Loss


class SumLoss(Loss):
    """l_+ = l_p + l_v (W; the default of H)."""

    name: Literal["sum"] = "sum"

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """See `Loss.__call__`."""
        return policy + value


LOSSES.add("sum", SumLoss)
