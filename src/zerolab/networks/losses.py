"""Losses: what learning minimises, from the errors of the heads [Wang2019], [Wang2020a].

Errors come per sample, so that a loss may weigh samples or combine heads as it likes. A loss of
another package is a class like those below, in a module that the entry point ``zerolab.networks``
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zerolab.core.config import Choice
from zerolab.core.registry import Registry
from zerolab.networks.settings import POLICY, VALUE

if TYPE_CHECKING:
    from torch import Tensor

Errors = Mapping[str, "Tensor"]
"""By the name of the head, the error of every sample, float32[N]."""


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -sum_a pi(a) * log p(a), [N], of logits and target policies, both [N, actions]."""
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1)


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Return (v - z)^2, [N], of values and target values, both [N]."""
    return (values - targets).square()


class Loss(Choice):
    """Settings of a loss; calling it gives what is minimised.

    With l_p the mean over the batch of the policy's errors and l_v that of the value's.
    """

    def __call__(self, errors: Errors) -> Tensor:
        """Return the scalar to minimise."""
        raise NotImplementedError

    def logged(self, errors: Errors) -> dict[str, Tensor]:
        """Return the scalars to log, by name.

        By default l_p, l_v, their sum and their product, which the papers log whichever of them is
        minimised. The names must not depend on the batch.
        """
        policy, value = _means(errors)
        return {"policy": policy, "value": value, "sum": policy + value, "product": policy * value}


LOSSES: Registry[type[Loss]] = Registry("loss")


def _means(errors: Errors) -> tuple[Tensor, Tensor]:
    return errors[POLICY].mean(), errors[VALUE].mean()


class PolicyLoss(Loss):
    """l_p, the cross-entropy of the policy alone."""

    name: Literal["policy"] = "policy"

    def __call__(self, errors: Errors) -> Tensor:
        """Return l_p."""
        return errors[POLICY].mean()


class ValueLoss(Loss):
    """l_v, the squared error of the value alone."""

    name: Literal["value"] = "value"

    def __call__(self, errors: Errors) -> Tensor:
        """Return l_v."""
        return errors[VALUE].mean()


class SumLoss(Loss):
    """l_sum = l_p + l_v [Silver2018], [Wang2020b]; the default of [Wang2020a]."""

    name: Literal["sum"] = "sum"

    def __call__(self, errors: Errors) -> Tensor:
        """Return l_p + l_v."""
        policy, value = _means(errors)
        return policy + value


class ProductLoss(Loss):
    """l_product = l_p * l_v [Wang2019], the product of the means over the batch [WangCode]."""

    name: Literal["product"] = "product"

    def __call__(self, errors: Errors) -> Tensor:
        """Return l_p * l_v."""
        policy, value = _means(errors)
        return policy * value


class WeightedLoss(Loss):
    """l_lambda = lambda * l_p + (1 - lambda) * l_v [Wang2019], [Wang2020a]."""

    name: Literal["weighted"] = "weighted"

    balance: float = Field(default=0.5, ge=0, le=1)
    """lambda: the weight of the policy's loss; 1 is l_p alone."""

    def __call__(self, errors: Errors) -> Tensor:
        """Return lambda * l_p + (1 - lambda) * l_v."""
        policy, value = _means(errors)
        return self.balance * policy + (1 - self.balance) * value

    def logged(self, errors: Errors) -> dict[str, Tensor]:
        """Return what all losses log, and l_lambda as "weighted"."""
        return {**super().logged(errors), "weighted": self(errors)}


for _loss in (PolicyLoss, ValueLoss, SumLoss, ProductLoss, WeightedLoss):
    LOSSES.add(_loss.model_fields["name"].default, _loss)
