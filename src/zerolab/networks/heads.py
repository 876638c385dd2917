"""Heads that a search reads: policy, value, outcome and action values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.networks.head import HEADS, Head, HeadOutput, TargetOptions, mixed
from zerolab.networks.losses import cross_entropy, mean_squared_error, squared_error
from zerolab.rules.facts import Facts

if TYPE_CHECKING:
    from torch import Tensor


class PolicyHead(Head):
    """A probability for every action [Silver2018]; `selfplay.policy_target` selects the target."""

    name: Literal["policy"] = "policy"

    per_action: ClassVar[bool] = True
    outputs: ClassVar[tuple[HeadOutput, ...]] = ("priors",)
    predicts: ClassVar[str] = "logits of the actions; their softmax is the policy"

    def columns(self, options: TargetOptions) -> frozenset[str]:
        needed: dict[str, tuple[str, ...]] = {
            "visits": ("policies",),
            "values": ("policies", "action_values"),
            "move": ("moves",),
        }
        return frozenset((*needed[options.policy_target], *needed[options.late_policy_target]))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the policies to learn, float32[N, actions]."""
        if options.policy_target == options.late_policy_target:
            return _TARGETS[options.policy_target](facts)
        is_early = facts.plies < options.temperature_plies
        early, late = (
            _TARGETS[options.policy_target](facts),
            _TARGETS[options.late_policy_target](facts),
        )
        return np.where(is_early[:, None], early, late)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return cross_entropy(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[HeadOutput, Tensor]:
        """Return the priors, those of illegal actions included: the search masks them."""
        return {"priors": prediction.float().softmax(dim=1)}


def _visits(facts: Facts) -> NDArray[np.float32]:
    return facts.policies.astype(np.float32, copy=False)


def _moves(facts: Facts) -> NDArray[np.float32]:
    return facts.moves.astype(np.float32, copy=False)


def _values(facts: Facts) -> NDArray[np.float32]:
    """Return (Q + 1) / 2 normalised, or the visits where every searched action loses."""
    weights = (np.nan_to_num(facts.action_values, nan=-1.0) + 1) / 2
    total = weights.sum(axis=1, keepdims=True)
    all_lost = total <= 0
    normalised = weights / np.where(all_lost, 1, total)
    return np.where(all_lost, facts.policies, normalised).astype(np.float32)


_TARGETS = {"visits": _visits, "values": _values, "move": _moves}

HEADS.add("policy", PolicyHead)


class ValueHead(Head):
    """The expected outcome for the mover, in [-1, 1], with the squared error [Silver2018]."""

    name: Literal["value"] = "value"

    outputs: ClassVar[tuple[HeadOutput, ...]] = ("values",)
    predicts: ClassVar[str] = "expected outcome for the mover, in [-1, 1]"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N]; tanh is float32, since bfloat16 is coarse next to 1 and -1."""
        return outputs.float().tanh().squeeze(1)

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the outcomes, mixed with what the search expected, float32[N]."""
        return mixed(facts.values, facts.root_values, options.value_target_search_weight)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the squared errors."""
        return squared_error(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[HeadOutput, Tensor]:
        """Return the values."""
        return {"values": prediction}


HEADS.add("value", ValueHead)


class OutcomeHead(Head):
    """Probabilities of a win, a draw and a loss for the mover, with the cross-entropy.

    A search reads the value P(win) - P(loss) and the probability of a draw.
    """

    name: Literal["outcome"] = "outcome"

    weight: float = Field(default=1.5, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 0.01. [AlphaZeroArcade]: 1.5."""

    outputs: ClassVar[tuple[HeadOutput, ...]] = ("values", "draws")
    predicts: ClassVar[str] = "logits of win, draw and loss for the mover"

    def output_size(self, actions: int) -> int:
        """Return three: logits of win, draw and loss."""
        return 3

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the probabilities, float32[N, 3], whose value is the target of a scalar value.

        A win discounted to v is a win with probability v, else a draw. Where the search has no
        probability of a draw, the outcome's is taken, up to the limit that the value leaves.
        """
        weight = options.value_target_search_weight
        values = mixed(facts.values, facts.root_values, weight)
        draws = mixed(facts.draws, facts.root_draws, weight)
        draws = np.where(np.isnan(draws), facts.draws, draws)
        draws = np.clip(draws, 0, 1 - np.abs(values))
        decided = 1 - draws
        return np.stack([(decided + values) / 2, draws, (decided - values) / 2], axis=1)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return cross_entropy(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[HeadOutput, Tensor]:
        """Return P(win) - P(loss) and P(draw)."""
        win, draw, loss = prediction.float().softmax(dim=1).unbind(dim=1)
        return {"values": win - loss, "draws": draw}


HEADS.add("outcome", OutcomeHead)


class ActionValuesHead(Head):
    """The mover's expected outcome by action, in [-1, 1], with the squared error.

    It learns the search's values of the actions visited, and nothing about the others. A search may
    use it as the value of children not visited yet.
    """

    name: Literal["action_values"] = "action_values"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss. [AlphaZeroArcade]: 5.0."""

    per_action: ClassVar[bool] = True
    outputs: ClassVar[tuple[HeadOutput, ...]] = ("action_values",)
    predicts: ClassVar[str] = "expected outcome for the mover by action, in [-1, 1]"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N, actions]; tanh is float32, as that of the value."""
        return outputs.float().tanh()

    def columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("action_values",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the search's values, float32[N, actions]; NaN where it did not visit."""
        return facts.action_values.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of the actions that were visited."""
        return mean_squared_error(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[HeadOutput, Tensor]:
        """Return the values of actions, illegal ones included."""
        return {"action_values": prediction}


HEADS.add("action_values", ActionValuesHead)
