"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from zerolab.training.optimizers.interface import OPTIMIZERS, OptimizerSettings

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class Sgd(OptimizerSettings):
    """Steps along a running sum b of gradients: b <- momentum * b + g, then p <- p - rate * b.

    g is the gradient of the loss plus weight decay * p. Learning rates are far larger than Adam's:
    0.2 at first in [Silver2018] and [Clausen2021].
    """

    name: Literal["sgd"] = "sgd"

    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Share of the sum that the next step keeps. [Clausen2021], [Silver2017]: 0.9."""

    weight_decay: float = Field(default=1e-4, ge=0, lt=1)
    """What is added to the gradient in units of every parameter, biases and batch norms included:
    half of its square, times this, joins the loss. [Clausen2021]: 1e-4; [Silver2017]: 2e-4, as 1e-4
    times the whole square."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """See `OptimizerSettings.optimizer`."""
        import torch

        return torch.optim.SGD(
            parameters,
            lr=learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            foreach=True,
        )

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """See `OptimizerSettings.momentum_option`."""
        return {"momentum": momentum}


OPTIMIZERS.add("sgd", Sgd)
