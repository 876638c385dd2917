"""What an optimiser is to the learner.

Another package adds one by registering it in `OPTIMIZERS` from a module that the entry-point group
``zerolab.training`` names. The learner saves whatever tensors its optimiser keeps for a parameter,
so that a resumed run continues bit for bit.

Weight decay, where an optimiser has it, acts on every parameter, biases and batch norms included:
so it is in [ClausenCode], and [Silver2017] adds the squares of all parameters to the loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zerolab.core.config import Choice
from zerolab.core.registry import Registry

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class OptimizerSettings(Choice):
    """Base of the settings of optimisers; they load no torch before one is made."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """Return torch's optimiser of all parameters of a network."""
        raise NotImplementedError

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """Return the options of torch's optimiser that give it a momentum from [0, 1)."""
        raise NotImplementedError


OPTIMIZERS: Registry[type[OptimizerSettings]] = Registry("optimizer")
