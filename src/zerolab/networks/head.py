"""Base of heads, the predictions of a network about a position.

A head defines its last layer, its target as a function of the facts of a batch, its error, and its
outputs for a search. It is a variant of the setting ``network.heads``. Another package adds a head
as a class like those of `networks.heads`, in a module named by the entry point
``zerolab.networks``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import Variant
from zerolab.core.errors import quoted
from zerolab.core.registry import Registry
from zerolab.rules.facts import Facts, Numbers

if TYPE_CHECKING:
    from torch import Tensor


POLICY = "policy"
"""Name of the head that every network has."""
VALUE = "value"
"""Name of the head with the expected outcome as one number; to losses, that of the error of the
head from which a search reads values."""

HeadOutput = Literal["priors", "values", "draws", "action_values"]
"""Outputs that a search reads: float32[N, actions] priors that sum to 1; float32[N] expected
outcomes for the mover; float32[N] probabilities of a draw; float32[N, actions] expected outcomes by
action."""


class TargetOptions(NamedTuple):
    """Settings of a run that targets depend on."""

    temperature_plies: int
    """`selfplay.temperature_plies`"""
    policy_target: str
    """`selfplay.policy_target`"""
    late_policy_target: str
    """`selfplay.late_policy_target`"""
    value_target_search_weight: float
    """`learn.value_target_search_weight`"""


class Head(Variant):
    """Base of heads."""

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss."""

    per_action: ClassVar[bool] = False
    """True if the head has an output for every action. Architectures with a hidden layer before the
    last one omit it for such heads."""
    outputs: ClassVar[tuple[HeadOutput, ...]] = ()
    """Outputs for a search."""
    turns: ClassVar[bool] = True
    """True if the target of a position's image under a symmetry follows from that of the position.
    Runs with a head of which this is not true learn positions as they were played."""
    predicts: ClassVar[str] = ""
    """Meaning of its prediction, for users of the network outside zerolab."""
    found: ClassVar[tuple[str, ...]] = ()
    """Fields that are not chosen but determined when a run begins."""

    @property
    def ahead(self) -> int:
        """Greatest number of plies after the position on which the target depends."""
        return 0

    def output_size(self, actions: int) -> int:
        """Return the width of the last layer in a game with `actions` actions."""
        return actions if self.per_action else 1

    def activation(self, outputs: Tensor) -> Tensor:
        """Return the predictions [N, ...] from the last layer, [N, width].

        Activations that bfloat16 would make coarse are float32.
        """
        return outputs

    def columns(self, options: TargetOptions) -> frozenset[str]:
        """Return the vector columns of `Facts` that the target depends on."""
        return frozenset()

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the targets of a batch, float32[N, ...]; NaN where there is nothing to learn."""
        raise NotImplementedError

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the error of every sample, float32[N]; NaN where there is nothing to learn.

        The gradient of all others must be finite.
        """
        raise NotImplementedError

    def read(self, prediction: Tensor) -> dict[HeadOutput, Tensor]:
        """Return the outputs for a search from a prediction: float32, by name."""
        raise NotImplementedError


HEADS: Registry[type[Head]] = Registry("head")


def missing_output(output: HeadOutput, heads: Iterable[Head]) -> str:
    """Return the error message for an output that none of a network's heads has."""
    owners = [quoted(name) for name, kind in HEADS.items() if output in kind.outputs]
    names = ", ".join(quoted(head.name) for head in heads)
    return (
        f"no head gives {output.replace('_', ' ')}: expected {' or '.join(owners)} in"
        f" network.heads, which has {names or 'none'}"
    )


def mixed(outcome: Numbers, root: Numbers, weight: float) -> NDArray[np.float32]:
    """Return (1 - weight) * outcome + weight * root, float32; with weight 0 `root` may be NaN."""
    both = outcome if weight == 0 else (1 - weight) * outcome + weight * root
    return both.astype(np.float32, copy=False)
