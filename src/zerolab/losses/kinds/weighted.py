"""A weighted sum of both losses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from zerolab.losses.interface import LOSSES, Loss


class WeightedLoss(Loss):
    """l_lambda = lambda * l_p + (1 - lambda) * l_v (H and L; 1 is l_p alone)."""

    name: Literal["weighted"] = "weighted"

    balance: float = Field(default=0.5, ge=0, le=1)
    """lambda: the share of the policy's loss."""

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """See `Loss.__call__`."""
        return self.balance * policy + (1 - self.balance) * value


LOSSES.add("weighted", WeightedLoss)
