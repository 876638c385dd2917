"""Losses, the functions of the heads' errors that learning minimises [Wang2019], [Wang2020a].

A loss combines l_p, the policy's error, and l_v, that of the head from which a search reads values:
the squared error of ``value`` or the cross-entropy of ``outcome``, whichever comes first. Further
heads add the same to all losses: their mean errors, weighted. Errors are per sample, so that a loss
may weigh samples or combine heads. Another package adds a loss as a class like those below, in a
module named by the entry point ``zerolab.networks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from zerolab.core.config import Variant
from zerolab.core.registry import Registry
from zerolab.networks.head import POLICY, VALUE, Head

if TYPE_CHECKING:
    from torch import Tensor

Errors = Mapping[str, "Tensor"]
"""By head name, the error of every sample, float32[N]; NaN where masked."""


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -sum_a pi(a) * log p(a), [N], of logits and target policies, both [N, actions]."""
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1)


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Return (v - z)^2, [N], of values and target values, both [N]."""
    return (values - targets).square()


def mean_squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over k of (x_k - t_k)^2, [N], over the known targets t, both [N, K].

    Unknown targets are NaN; so is the error of a row without known ones.
    """
    known = ~targets.isnan()
    squares = (predictions - targets.nan_to_num(0)).square().masked_fill(~known, 0)
    count = known.sum(dim=1)
    return (squares.sum(dim=1) / count.clamp(min=1)).masked_fill(count == 0, float("nan"))


class Loss(Variant):
    """Settings of a loss; calling it gives the scalar to minimise.

    With l_p the mean over the batch of the policy's errors and l_v that of the value's, each times
    the weight of its head.
    """

    uses: ClassVar[tuple[str, ...]] = (POLICY, VALUE)
    """Heads whose errors the loss combines; VALUE stands for the one from which a search reads
    values. The weighted mean errors of all others are added to the loss."""

    def __call__(self, errors: Errors) -> Tensor:
        """Return the scalar to minimise, from the weighted errors of the heads that it `uses`."""
        raise NotImplementedError

    def logged(self, errors: Errors) -> dict[str, Tensor]:
        """Return the scalars to log beside the mean error of every head, by name.

        By default the sum and the product of l_p and l_v, which the papers log whichever of them is
        minimised. The names must not depend on the batch.
        """
        policy, value = _means(errors)
        return {"sum": policy + value, "product": policy * value}


LOSSES: Registry[type[Loss]] = Registry("loss")


class HeadErrors:
    """Errors of a network's heads in a batch, and their combination by a loss."""

    def __init__(self, loss: Loss, heads: Sequence[Head], errors: Errors) -> None:
        self._loss = loss
        used = {name: _head_called(name, heads) for name in loss.uses}
        self._used = {
            name: _weighted(head.weight, errors[head.name]) for name, head in used.items()
        }
        self._others = {head.name: head for head in heads if head not in used.values()}
        self._errors = errors

    def total(self) -> Tensor:
        """Return the scalar to minimise: the loss plus the other heads' weighted mean errors."""
        total = self._loss(self._used)
        for name, head in self._others.items():
            total = total + head.weight * _mean_known(self._errors[name])
        return total

    def logged(self) -> dict[str, Tensor]:
        """Return the mean error of every head by its name, and the scalars that the loss logs.

        Where the loss does not use all heads, also the scalar to minimise, as "total".
        """
        means = {
            name: _mean_known(error) if name in self._others else error.mean()
            for name, error in self._errors.items()
        }
        total = {"total": self.total()} if self._others else {}
        return {**means, **self._loss.logged(self._used), **total}


def missing_heads(loss: Loss, heads: Sequence[Head]) -> list[str]:
    """Return the heads that a loss uses and a network lacks."""
    known = {head.name for head in heads}
    return [name for name in loss.uses if name != VALUE and name not in known]


def learnt_heads(loss: Loss, heads: Sequence[Head]) -> list[str]:
    """Return the heads that learn by a loss: those whose errors have a gradient."""
    import torch

    errors = {head.name: torch.ones(1, requires_grad=True) for head in heads}
    total = HeadErrors(loss, heads, errors).total()
    gradients = torch.autograd.grad(total, list(errors.values()), allow_unused=True)
    found = zip(errors, gradients, strict=True)
    return [name for name, gradient in found if gradient is not None and gradient.item()]


def _head_called(name: str, heads: Sequence[Head]) -> Head:
    """Return the head of a name; VALUE is the first with values, as for a search."""
    if name == VALUE:
        return next(head for head in heads if "values" in head.outputs)
    return next(head for head in heads if head.name == name)


def _weighted(weight: float, error: Tensor) -> Tensor:
    return error if weight == 1 else weight * error


def _mean_known(error: Tensor) -> Tensor:
    """Return the mean of the unmasked errors, 0 where all are masked."""
    known = ~error.isnan()
    return error.where(known, 0).sum() / known.sum().clamp(min=1)


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
        """Return the scalars that all losses log, and l_lambda as "weighted"."""
        return {**super().logged(errors), "weighted": self(errors)}


for _loss in (PolicyLoss, ValueLoss, SumLoss, ProductLoss, WeightedLoss):
    LOSSES.add(_loss.model_fields["name"].default, _loss)
