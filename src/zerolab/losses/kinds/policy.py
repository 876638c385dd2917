"""The policy's loss alone."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from zerolab.losses.interface import LOSSES, Loss


class PolicyLoss(Loss):
    """l_p, the policy's cross-entropy."""

    name: Literal["policy"] = "policy"

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """See `Loss.__call__`."""
        return policy


LOSSES.add("policy", PolicyLoss)
