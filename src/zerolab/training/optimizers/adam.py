"""Adam [Kingma2015]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from zerolab.training.optimizers.interface import OPTIMIZERS, OptimizerSettings

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class Adam(OptimizerSettings):
    """Steps in proportion to m / sqrt(v): running means of the gradient and of its square.

    [Kingma2015, Algorithm 1], without weight decay, as in the papers that use it.
    """

    name: Literal["adam"] = "adam"

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay per step of the mean of gradients; what a schedule of the momentum changes.
    [Kingma2015]: 0.9."""

    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay per step of the mean of squared gradients. [Kingma2015]: 0.999."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """See `OptimizerSettings.optimizer`."""
        import torch

        betas = self.beta1, self.beta2
        return torch.optim.Adam(parameters, lr=learning_rate, betas=betas, foreach=True)

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """See `OptimizerSettings.momentum_option`: the momentum of Adam is beta1."""
        return {"betas": (momentum, self.beta2)}


OPTIMIZERS.add("adam", Adam)
