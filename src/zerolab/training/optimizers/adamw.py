"""AdamW: Adam with decoupled weight decay [Loshchilov2019]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from zerolab.training.optimizers.interface import OPTIMIZERS, OptimizerSettings

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class AdamW(OptimizerSettings):
    """Adam whose steps also shrink every parameter by learning rate * weight decay.

    [Loshchilov2019, Algorithm 2].
    """

    name: Literal["adamw"] = "adamw"

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay per step of the mean of gradients; what a schedule of the momentum changes.
    [Loshchilov2019]: 0.9."""

    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay per step of the mean of squared gradients. [Loshchilov2019]: 0.999."""

    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Share of every parameter, biases and batch norms included, that a step at learning rate 1
    would take away."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """See `OptimizerSettings.optimizer`."""
        import torch

        return torch.optim.AdamW(
            parameters,
            lr=learning_rate,
            betas=(self.beta1, self.beta2),
            weight_decay=self.weight_decay,
            foreach=True,
        )

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """See `OptimizerSettings.momentum_option`: the momentum of Adam is beta1."""
        return {"betas": (momentum, self.beta2)}


OPTIMIZERS.add("adamw", AdamW)
