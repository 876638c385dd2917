"""The value's loss alone."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from zerolab.losses.interface import LOSSES, Loss


class ValueLoss(Loss):
    """l_v, the value's squared error."""

    name: Literal["value"] = "value"

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """See `Loss.__call__`."""
        return value


LOSSES.add("value", ValueLoss)
