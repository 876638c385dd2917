"""The product of both losses."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from zerolab.losses.interface import LOSSES, Loss


class ProductLoss(Loss):
    """l_x = l_p * l_v, the product of batch means (L)."""

    name: Literal["product"] = "product"

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """See `Loss.__call__`."""
        return policy * value


LOSSES.add("product", ProductLoss)
