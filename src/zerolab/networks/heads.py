"""Policy, value, outcome and action-value heads, and auxiliary heads.

The auxiliary heads (reply, plies left and features) only help to train the trunk. Searches do not
use their outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from zerolab.networks.objectives import (
    HEADS,
    EvaluatorOutputName,
    Head,
    TargetOptions,
    cross_entropy,
    mean_squared_error,
    mix_value_targets,
    squared_error,
)
from zerolab.rules.facts import Facts

if TYPE_CHECKING:
    from torch import Tensor


class PolicyHead(Head):
    """A probability for every action [Silver2018]; `selfplay.policy_target` selects the target."""

    name: Literal["policy"] = "policy"

    is_per_action: ClassVar[bool] = True
    evaluator_outputs: ClassVar[tuple[EvaluatorOutputName, ...]] = ("priors",)
    prediction_meaning: ClassVar[str] = "logits of the actions; their softmax is the policy"

    def target_vector_columns(self, options: TargetOptions) -> frozenset[str]:
        by_target: dict[str, tuple[str, ...]] = {
            "visits": ("policies",),
            "values": ("policies", "action_values"),
            "move": ("played_actions",),
        }
        targets = options.policy_target, options.late_policy_target
        return frozenset(column for target in targets for column in by_target[target])

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the target policies, float32[N, actions]."""
        early = _TARGETS[options.policy_target](facts, options)
        if options.policy_target == options.late_policy_target:
            return early
        is_early = facts.plies < options.temperature_plies
        late = _TARGETS[options.late_policy_target](facts, options)
        return np.where(is_early[:, None], early, late)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies, float32[N]."""
        return cross_entropy(prediction.float(), target)

    def compute_evaluator_outputs(self, prediction: Tensor) -> dict[EvaluatorOutputName, Tensor]:
        """Return the priors, including those of illegal actions, which the search masks."""
        return {"priors": prediction.float().softmax(dim=1)}


def _visit_policies(facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
    """Return pi^(1 / t), normalised, for the search's policy pi and the target temperature t."""
    policies = facts.policies.astype(np.float32, copy=False)
    if options.policy_target_temperature == 1:
        return policies
    shares = policies / policies.max(axis=1, keepdims=True)  # small powers could underflow to 0
    powers: NDArray[np.float32] = shares ** np.float32(1 / options.policy_target_temperature)
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def _move_policies(facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
    return facts.played_actions.astype(np.float32, copy=False)


def _value_policies(facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
    """Return (Q + 1) / 2, normalised, or the visit distribution if every searched action loses."""
    weights = (np.nan_to_num(facts.action_values, nan=-1.0) + 1) / 2
    total = weights.sum(axis=1, keepdims=True)
    all_lost = total <= 0
    normalised = weights / np.where(all_lost, 1, total)
    return np.where(all_lost, facts.policies, normalised).astype(np.float32)


_TARGETS = {"visits": _visit_policies, "values": _value_policies, "move": _move_policies}

HEADS.add("policy", PolicyHead)


class ValueHead(Head):
    """The expected outcome for the side to move, in [-1, 1], with squared error [Silver2018]."""

    name: Literal["value"] = "value"

    evaluator_outputs: ClassVar[tuple[EvaluatorOutputName, ...]] = ("values",)
    uses_search_weight: ClassVar[bool] = True
    prediction_meaning: ClassVar[str] = "expected outcome for the side to move, in [-1, 1]"

    def apply_activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N]; tanh is float32 because bfloat16 is too coarse near 1 and -1."""
        return outputs.float().tanh().squeeze(1)

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the outcomes, mixed with the root values of the search, float32[N]."""
        return mix_value_targets(
            facts.values, facts.root_values, options.value_target_search_weight
        )

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the squared errors, float32[N]."""
        return squared_error(prediction.float(), target)

    def compute_evaluator_outputs(self, prediction: Tensor) -> dict[EvaluatorOutputName, Tensor]:
        """Return the values, float32[N]."""
        return {"values": prediction}


HEADS.add("value", ValueHead)


class OutcomeHead(Head):
    """Probabilities of a win, a draw and a loss for the side to move, with cross-entropy.

    Searches use the value P(win) - P(loss) and the probability of a draw.
    """

    name: Literal["outcome"] = "outcome"

    weight: float = Field(default=1.5, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 0.01. [AlphaZeroArcade]: 1.5."""

    evaluator_outputs: ClassVar[tuple[EvaluatorOutputName, ...]] = ("values", "draws")
    uses_search_weight: ClassVar[bool] = True
    prediction_meaning: ClassVar[str] = "logits of win, draw and loss for the side to move"

    def output_size(self, action_count: int) -> int:
        """Return 3, for the logits of win, draw and loss."""
        return 3

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the target probabilities, float32[N, 3].

        Their value P(win) - P(loss) equals the target of the scalar value head. A win discounted to
        v counts as a win with probability v and otherwise as a draw. If the search provides no draw
        probability, the outcome's is used. Draw probabilities are limited to 1 - |value|.
        """
        weight = options.value_target_search_weight
        values = mix_value_targets(facts.values, facts.root_values, weight)
        draws = mix_value_targets(facts.draws, facts.root_draws, weight)
        draws = np.where(np.isnan(draws), facts.draws, draws)
        draws = np.clip(draws, 0, 1 - np.abs(values))
        decided = 1 - draws
        return np.stack([(decided + values) / 2, draws, (decided - values) / 2], axis=1)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies, float32[N]."""
        return cross_entropy(prediction.float(), target)

    def compute_evaluator_outputs(self, prediction: Tensor) -> dict[EvaluatorOutputName, Tensor]:
        """Return P(win) - P(loss) and P(draw), both float32[N]."""
        win, draw, loss = prediction.float().softmax(dim=1).unbind(dim=1)
        return {"values": win - loss, "draws": draw}


HEADS.add("outcome", OutcomeHead)


class ActionValuesHead(Head):
    """The expected outcome of each action for the side to move, in [-1, 1], with squared error.

    The targets are the search values of visited actions; other actions have no target. A search can
    use the predictions as values of unvisited children.
    """

    name: Literal["action_values"] = "action_values"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss. [AlphaZeroArcade]: 5.0."""

    is_per_action: ClassVar[bool] = True
    evaluator_outputs: ClassVar[tuple[EvaluatorOutputName, ...]] = ("action_values",)
    prediction_meaning: ClassVar[str] = (
        "expected outcome for the side to move by action, in [-1, 1]"
    )

    def apply_activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N, actions]; tanh is float32, as in the value head."""
        return outputs.float().tanh()

    def target_vector_columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("action_values",))

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the search values, float32[N, actions]; NaN for unvisited actions."""
        return facts.action_values.astype(np.float32, copy=False)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of visited actions, float32[N]; NaN if there are none."""
        return mean_squared_error(prediction.float(), target)

    def compute_evaluator_outputs(self, prediction: Tensor) -> dict[EvaluatorOutputName, Tensor]:
        """Return the values of all actions, including illegal ones, float32[N, actions]."""
        return {"action_values": prediction}


HEADS.add("action_values", ActionValuesHead)


class ReplyHead(Head):
    """The search policy for the opponent's reply to the played move [Wu2019].

    The last position of a game has no target, nor does a position whose reply was not fully
    searched: a random move, or one after a quick search of `playout_cap`. The head teaches the
    trunk to anticipate the opponent's plans.
    """

    name: Literal["reply"] = "reply"

    weight: float = Field(default=0.35, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 0.35. [Wu2019]: 0.15.
    [AlphaZeroArcade]: 0.03."""

    is_per_action: ClassVar[bool] = True
    prediction_meaning: ClassVar[str] = "logits of the opponent's next action"

    def target_vector_columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("reply_policies",))

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the search policies of the next positions, float32[N, actions]."""
        return facts.reply_policies.astype(np.float32, copy=False)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies, float32[N]; NaN if there is no reply."""
        masked = target.isnan().any(dim=1)
        errors = cross_entropy(prediction.float(), target.nan_to_num(0))
        return errors.masked_fill(masked, float("nan"))


HEADS.add("reply", ReplyHead)


_PLIES_PER_UNIT = 20.0
"""Plies per unit of the predictions, chosen so that the errors are about as large as those of other
heads."""
_HUBER_THRESHOLD = 0.5
"""Largest difference, in units of 20 plies, with a quadratic error. Beyond it, the error is linear,
so that surprisingly long games and games cut short by a blunder do not dominate."""


class PliesLeftHead(Head):
    """Remaining plies of the game in units of 20, with a Huber error (threshold 0.5).

    The head teaches the trunk to recognise the approaching end of the game.
    """

    name: Literal["plies_left"] = "plies_left"

    prediction_meaning: ClassVar[str] = (
        f"plies to the end of the game, divided by {_PLIES_PER_UNIT:g}"
    )

    def apply_activation(self, outputs: Tensor) -> Tensor:
        """Return the predicted plies left in units of 20, float32[N]."""
        return outputs.float().squeeze(1)

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the plies left in units of 20, float32[N]."""
        return (facts.plies_left / _PLIES_PER_UNIT).astype(np.float32, copy=False)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the Huber errors: e^2 / 2 up to the threshold t, t * (|e| - t / 2) beyond."""
        distance = (prediction.float() - target).abs()
        clipped = distance.clamp(max=_HUBER_THRESHOLD)
        return clipped * (distance - clipped / 2)


HEADS.add("plies_left", PliesLeftHead)


class FeaturesHead(Head):
    """Features that another, trained network computes for this and later positions.

    The features are the activations of the convolutions before that network's heads [Clausen2021].
    The error is the mean squared error. Plies after the end of the game have no target. The head
    teaches the trunk to anticipate the other network's features (docs/auxiliary-features.md).
    """

    name: Literal["features"] = "features"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 1."""

    source: str = ""
    """Network whose features are predicted, as RUN or RUN@N, for example runs/small. It must play
    the same game. The run keeps a copy of it."""

    digest: str = ""
    """Digest of the weights of `source`. Set when the run starts."""

    heads: tuple[str, ...] = ()
    """Heads of `source` whose features are predicted; empty for all. [Clausen2021]: policy and
    outcome; the best choice in supervised learning was policy [ClausenCode]."""

    width: int = Field(default=0, ge=0)
    """Number of features per position. Set when the run starts. [Clausen2021]: 42 for each head of
    the small network."""

    plies: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(default=(0, 2, 4), min_length=1)
    """Numbers of plies to look ahead; the features are those of positions that many plies later.
    [Clausen2021]: 2, 4; [ClausenCode]: 0, 2, 4."""

    is_equivariant: ClassVar[bool] = False
    prediction_meaning: ClassVar[str] = (
        "features computed by another network for this and later positions"
    )
    fields_set_by_run: ClassVar[tuple[str, ...]] = ("digest", "width")

    @field_validator("plies")
    @classmethod
    def _reject_duplicates(cls, plies: tuple[int, ...]) -> tuple[int, ...]:
        if duplicates := [ply for ply in plies if plies.count(ply) > 1]:
            raise ValueError(f"{duplicates[0]} is listed twice: expected distinct numbers of plies")
        return plies

    @property
    def plies_ahead(self) -> int:
        return max(self.plies)

    def output_size(self, action_count: int) -> int:
        """Return the total number of features over all plies."""
        return self.width * len(self.plies)

    def target_vector_columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("features",))

    def compute_targets(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the features, float32[N, plies * width]; NaN after the end of the game."""
        return facts.features.astype(np.float32, copy=False)

    def compute_errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of known features, float32[N]; NaN if there are none."""
        return mean_squared_error(prediction.float(), target)


HEADS.add("features", FeaturesHead)
