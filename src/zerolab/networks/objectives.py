"""Training objectives: the base class of heads, and the losses that combine the heads' errors.

A head defines the size of its output layer, its training target, its error, and its outputs for a
search. The setting ``network.heads`` lists the heads of a network. Other packages can add heads as
classes like those in `networks.heads`, in a module named by the ``zerolab.networks`` entry point.

A loss combines the policy error l_p and the value error l_v. The value error is the error of the
head that provides the values for a search: ``value`` (squared error) or ``outcome``
(cross-entropy), whichever comes first in the settings. Every other head adds its weighted mean
error, regardless of the loss. Errors are per sample, so a loss can weight samples or combine heads.
Other packages can add losses as classes like those below, in a module named by the
``zerolab.networks`` entry point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import VariantSettings
from zerolab.core.errors import quoted
from zerolab.core.registry import Registry
from zerolab.rules.facts import Facts, FloatArray

if TYPE_CHECKING:
    from torch import Tensor

POLICY_HEAD = "policy"
"""Name of the policy head, which every network has."""
VALUE_HEAD = "value"
"""Name of the scalar value head. Losses use this name for the head that provides the values for a
search."""

EvaluatorOutputName = Literal["priors", "values", "draws", "action_values"]
"""Outputs for a search: priors float32[N, actions], summing to 1; values float32[N], the expected
outcomes for the side to move; draws float32[N], probabilities of a draw; action_values
float32[N, actions], the expected outcome of each action."""


class TargetOptions(NamedTuple):
    """Run settings that targets depend on."""

    temperature_plies: int
    """`selfplay.temperature_plies`"""
    policy_target: str
    """`selfplay.policy_target`"""
    late_policy_target: str
    """`selfplay.late_policy_target`"""
    value_target_search_weight: float
    """`learn.value_target_search_weight`"""
    policy_target_temperature: float = 1.0
    """`selfplay.policy_target_temperature`"""


class Head(VariantSettings):
    """Base class of heads."""

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss."""

    is_per_action: ClassVar[bool] = False
    """True if the head has one output per action. Architectures give these heads no hidden
    layer."""
    evaluator_outputs: ClassVar[tuple[EvaluatorOutputName, ...]] = ()
    """Outputs that a search can use."""
    is_equivariant: ClassVar[bool] = True
    """True if a symmetry of the board maps the target of a position to the target of its image. A
    run with a head that is not equivariant uses positions only as they were played."""
    uses_search_weight: ClassVar[bool] = False
    """True if the target depends on `learn.value_target_search_weight`."""
    prediction_meaning: ClassVar[str] = ""
    """Meaning of the prediction, written into exported models."""
    fields_set_by_run: ClassVar[tuple[str, ...]] = ()
    """Fields that are set when a run starts, not by the user."""

    @property
    def plies_ahead(self) -> int:
        """Number of plies by which the target looks ahead from the position."""
        return 0

    def output_size(self, action_count: int) -> int:
        """Return the width of the output layer in a game with `action_count` actions."""
        return action_count if self.is_per_action else 1

    def apply_activation(self, outputs: Tensor) -> Tensor:
        """Return the predictions [N, ...] from the values of the output layer, [N, width].

        Activations for which bfloat16 is too coarse are computed in float32.
        """
        return outputs

    def target_vector_columns(self, options: TargetOptions) -> frozenset[str]:
        """Return the names of the vector columns of `Facts` that the target depends on.

        Vector columns that no head returns here are empty in batches.
        """
        return frozenset()

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the targets of a batch, float32[N, ...]; NaN where there is no target."""
        raise NotImplementedError

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the error of every sample, float32[N]; NaN where there is no target.

        Every error that is not NaN must have a finite gradient.
        """
        raise NotImplementedError

    def compute_evaluator_outputs(self, prediction: Tensor) -> dict[EvaluatorOutputName, Tensor]:
        """Return the outputs in `evaluator_outputs` by name, float32."""
        raise NotImplementedError


HEADS: Registry[type[Head]] = Registry("head")


def missing_output_message(output: EvaluatorOutputName, heads: Iterable[Head]) -> str:
    """Return the error message for an output that no head of a network provides."""
    owners = [quoted(name) for name, kind in HEADS.items() if output in kind.evaluator_outputs]
    names = ", ".join(quoted(head.name) for head in heads)
    return (
        f"no head provides {output.replace('_', ' ')}: expected {' or '.join(owners)} in"
        f" network.heads, which has {names or 'none'}"
    )


def mix_value_targets(
    outcomes: FloatArray, search_values: FloatArray, search_weight: float
) -> NDArray[np.float32]:
    """Return (1 - w) * outcomes + w * search_values, float32, where w is `search_weight`.

    `search_values` can be NaN if the weight is 0.
    """
    if search_weight == 0:
        mixture = outcomes
    else:
        mixture = (1 - search_weight) * outcomes + search_weight * search_values
    return mixture.astype(np.float32, copy=False)


ErrorsByHead = Mapping[str, "Tensor"]
"""Error of every sample by head name, float32[N]; NaN where masked."""


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -sum_a pi(a) * log p(a), [N], for logits and target policies, both [N, actions]."""
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1)


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Return (v - z)^2, [N], for values v and target values z, both [N]."""
    return (values - targets).square()


def mean_squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of (x_k - t_k)^2 over the known targets t_k of each row, [N].

    Predictions and targets are [N, K]. Unknown targets are NaN, and so is the error of a row that
    has only unknown targets.
    """
    known = ~targets.isnan()
    squares = (predictions - targets.nan_to_num(0)).square().masked_fill(~known, 0)
    count = known.sum(dim=1)
    return (squares.sum(dim=1) / count.clamp(min=1)).masked_fill(count == 0, float("nan"))


class Loss(VariantSettings):
    """Loss; calling it returns the scalar to minimise.

    l_p and l_v are the batch means of the policy and value errors, each multiplied by the weight of
    its head.
    """

    used_heads: ClassVar[tuple[str, ...]] = (POLICY_HEAD, VALUE_HEAD)
    """Heads whose errors the loss combines. VALUE_HEAD is the head that provides the values for a
    search. The weighted mean errors of all other heads are added to the loss."""

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return the scalar to minimise, given the weighted errors of the heads in `used_heads`."""
        raise NotImplementedError

    def logged_scalars(self, errors: ErrorsByHead) -> dict[str, Tensor]:
        """Return scalars to log, by name, in addition to the mean error of every head.

        The default is the sum and the product of l_p and l_v: the papers log both, whichever is
        minimised. The names must not depend on the batch.
        """
        policy, value = _means(errors)
        return {"sum": policy + value, "product": policy * value}


LOSSES: Registry[type[Loss]] = Registry("loss")


class HeadErrors:
    """Errors of a network's heads in a batch, and the loss that combines them."""

    def __init__(self, loss: Loss, heads: Sequence[Head], errors: ErrorsByHead) -> None:
        self._loss = loss
        used = {name: _find_head(name, heads) for name in loss.used_heads}
        self._used = {
            name: errors[head.name] if head.weight == 1 else head.weight * errors[head.name]
            for name, head in used.items()
        }
        self._others = {head.name: head for head in heads if head not in used.values()}
        self._errors = errors

    def total_loss(self) -> Tensor:
        """Return the scalar to minimise, the loss plus the other heads' weighted mean errors."""
        total = self._loss(self._used)
        for name, head in self._others.items():
            total = total + head.weight * _mean_known(self._errors[name])
        return total

    def logged_scalars(self) -> dict[str, Tensor]:
        """Return the mean error of every head and the scalars of `Loss.logged_scalars`, by name.

        If the loss does not use all heads, "total" is the scalar to minimise.
        """
        means = {
            name: _mean_known(error) if name in self._others else error.mean()
            for name, error in self._errors.items()
        }
        total = {"total": self.total_loss()} if self._others else {}
        return {**means, **self._loss.logged_scalars(self._used), **total}


def missing_heads(loss: Loss, heads: Sequence[Head]) -> list[str]:
    """Return the names of heads that the loss uses but the network lacks."""
    names = {head.name for head in heads}
    return [name for name in loss.used_heads if name != VALUE_HEAD and name not in names]


def trained_heads(loss: Loss, heads: Sequence[Head]) -> list[str]:
    """Return the names of the heads in whose errors the loss has a nonzero gradient."""
    import torch

    # Errors of 1, since the gradient of a product of errors is 0 at 0.
    errors = {head.name: torch.ones(1, requires_grad=True) for head in heads}
    total = HeadErrors(loss, heads, errors).total_loss()
    gradients = torch.autograd.grad(total, list(errors.values()), allow_unused=True)
    return [
        name
        for name, gradient in zip(errors, gradients, strict=True)
        if gradient is not None and gradient.item()
    ]


def _find_head(name: str, heads: Sequence[Head]) -> Head:
    """Return a head by name; VALUE_HEAD is the first head with values, as in a search."""
    if name == VALUE_HEAD:
        return next(head for head in heads if "values" in head.evaluator_outputs)
    return next(head for head in heads if head.name == name)


def _mean_known(error: Tensor) -> Tensor:
    """Return the mean of the unmasked errors, or 0 if all are masked."""
    known = ~error.isnan()
    return error.where(known, 0).sum() / known.sum().clamp(min=1)


def _means(errors: ErrorsByHead) -> tuple[Tensor, Tensor]:
    return errors[POLICY_HEAD].mean(), errors[VALUE_HEAD].mean()


class PolicyLoss(Loss):
    """l_p, the policy error alone."""

    name: Literal["policy"] = "policy"

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return l_p."""
        return errors[POLICY_HEAD].mean()


class ValueLoss(Loss):
    """l_v, the value error alone."""

    name: Literal["value"] = "value"

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return l_v."""
        return errors[VALUE_HEAD].mean()


class SumLoss(Loss):
    """l_sum = l_p + l_v [Silver2018], [Wang2020b]; the default of [Wang2020a]."""

    name: Literal["sum"] = "sum"

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return l_p + l_v."""
        policy, value = _means(errors)
        return policy + value


class ProductLoss(Loss):
    """l_product = l_p * l_v [Wang2019], the product of the batch means [WangCode]."""

    name: Literal["product"] = "product"

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return l_p * l_v."""
        policy, value = _means(errors)
        return policy * value


class WeightedLoss(Loss):
    """l_lambda = lambda * l_p + (1 - lambda) * l_v [Wang2019], [Wang2020a]."""

    name: Literal["weighted"] = "weighted"

    balance: float = Field(default=0.5, ge=0, le=1)
    """lambda: weight of the policy error; 1 is l_p alone."""

    def __call__(self, errors: ErrorsByHead) -> Tensor:
        """Return lambda * l_p + (1 - lambda) * l_v."""
        policy, value = _means(errors)
        return self.balance * policy + (1 - self.balance) * value

    def logged_scalars(self, errors: ErrorsByHead) -> dict[str, Tensor]:
        """Return the usual scalars, and l_lambda as "weighted"."""
        return {**super().logged_scalars(errors), "weighted": self(errors)}


for _loss in (PolicyLoss, ValueLoss, SumLoss, ProductLoss, WeightedLoss):
    LOSSES.add(_loss.model_fields["name"].default, _loss)
