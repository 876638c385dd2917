"""What a loss is: one number from the policy's and the value's parts (FACTS 1, H and L)."""

from __future__ import annotations

import torch
from torch import Tensor

from zerolab.core.config import Choice
from zerolab.core.registry import Registry


class Loss(Choice):
    """Settings that combine the parts into what is minimised."""

    def __call__(self, policy: Tensor, value: Tensor) -> Tensor:
        """Return the loss from l_p and l_v, both scalars."""
        raise NotImplementedError


LOSSES: Registry[type[Loss]] = Registry("loss")


def policy_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return l_p: the mean cross-entropy of logits and target policies, both [N, actions]."""
    return -(targets * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()


def value_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Return l_v: the mean squared error of values, both [N]."""
    return (values - targets).square().mean()


def all_losses(policy: Tensor, value: Tensor) -> dict[str, Tensor]:
    """Return the four losses that H and L compare, logged whichever is minimised."""
    return {"policy": policy, "value": value, "sum": policy + value, "product": policy * value}
