"""Base class of heads, which make a network's predictions about a position.

A head defines the size of its last layer, its training target, its error, and its outputs for a
search. It is a variant of the setting ``network.heads``. Other packages can add heads as classes
like those in `networks.heads`, in a module named by the entry point ``zerolab.networks``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import VariantSettings
from zerolab.core.errors import quoted
from zerolab.core.registry import Registry
from zerolab.rules.facts import Facts, Numbers

if TYPE_CHECKING:
    from torch import Tensor


POLICY = "policy"
"""Name of the policy head, which every network has."""
VALUE = "value"
"""Name of the scalar value head. In losses, it stands for the head that provides the values for a
search."""

SearchOutput = Literal["priors", "values", "draws", "action_values"]
"""Outputs for a search: priors float32[N, actions], summing to 1; values float32[N], the expected
outcomes for the side to move; draws float32[N], probabilities of a draw; action_values
float32[N, actions], the expected outcomes by action."""


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


class Head(VariantSettings):
    """Base class of heads."""

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss."""

    is_per_action: ClassVar[bool] = False
    """True if the head has one output per action. Architectures give these heads no hidden
    layer."""
    search_outputs: ClassVar[tuple[SearchOutput, ...]] = ()
    """Outputs that a search can use."""
    is_equivariant: ClassVar[bool] = True
    """True if a symmetry of the board maps the target of a position to the target of its image. If
    a head is not equivariant, runs with the head train on positions only as they were played."""
    prediction_meaning: ClassVar[str] = ""
    """Meaning of the prediction, written into exported models."""
    fields_set_by_run: ClassVar[tuple[str, ...]] = ()
    """Fields that are set when a run begins, not by the user."""

    @property
    def plies_ahead(self) -> int:
        """Number of plies by which the target looks ahead of the position."""
        return 0

    def output_size(self, actions: int) -> int:
        """Return the width of the last layer in a game with `actions` actions."""
        return actions if self.is_per_action else 1

    def activation(self, outputs: Tensor) -> Tensor:
        """Return the predictions [N, ...] from the outputs of the last layer, [N, width].

        Activations for which bfloat16 is too coarse are computed in float32.
        """
        return outputs

    def vector_columns(self, options: TargetOptions) -> frozenset[str]:
        """Return the names of the vector columns of `Facts` that the target depends on.

        Vector columns that no head names are empty in batches.
        """
        return frozenset()

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the targets of a batch, float32[N, ...]; NaN where there is no target."""
        raise NotImplementedError

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the error of every sample, float32[N]; NaN where there is no target.

        The gradients of all other errors must be finite.
        """
        raise NotImplementedError

    def compute_search_outputs(self, prediction: Tensor) -> dict[SearchOutput, Tensor]:
        """Return the outputs in `search_outputs` by name, float32."""
        raise NotImplementedError


HEADS: Registry[type[Head]] = Registry("head")


def missing_output_message(output: SearchOutput, heads: Iterable[Head]) -> str:
    """Return the error message for an output that no head of a network provides."""
    owners = [quoted(name) for name, kind in HEADS.items() if output in kind.search_outputs]
    names = ", ".join(quoted(head.name) for head in heads)
    return (
        f"no head gives {output.replace('_', ' ')}: expected {' or '.join(owners)} in"
        f" network.heads, which has {names or 'none'}"
    )


def mix_with_search(
    outcomes: Numbers, search_values: Numbers, search_weight: float
) -> NDArray[np.float32]:
    """Return (1 - w) * outcomes + w * search_values, float32, where w is `search_weight`.

    `search_values` can be NaN if the weight is 0.
    """
    if search_weight == 0:
        mixture = outcomes
    else:
        mixture = (1 - search_weight) * outcomes + search_weight * search_values
    return mixture.astype(np.float32, copy=False)
