"""Base of heads, the predictions of a network about a position.

A head says what its last layer computes, which target it learns from the facts of a batch, how it
errs, and what a search may read of it. A head of another package is a class like those of this
folder, in a module that the entry point ``zerolab.networks`` names.
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
"""The name of the head that every network has."""
VALUE = "value"
"""The name of the head that gives the expected outcome as one number, and what losses call the
error of the head that the search reads values from."""

HeadOutput = Literal["priors", "values", "draws", "action_values"]
"""What a search may read of a network: float32[N, actions] priors that sum to 1; float32[N]
expected outcomes for the mover; float32[N] probabilities of a draw; float32[N, actions] expected
outcomes by action."""


class TargetOptions(NamedTuple):
    """What a run's settings say about targets."""

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
    """Weight of this head's error in what is minimised."""

    per_action: ClassVar[bool] = False
    """Whether the head says something about every action. Architectures with a hidden layer before
    the last one leave it out for such heads."""
    answers: ClassVar[tuple[HeadOutput, ...]] = ()
    """What a search may read of this head."""
    turns: ClassVar[bool] = True
    """Whether the target of a position's image under a symmetry follows from that of the position.
    Runs with a head of which this is not true learn positions as they were played."""
    predicts: ClassVar[str] = ""
    """What its prediction is, for those who use the network outside zerolab."""
    found: ClassVar[tuple[str, ...]] = ()
    """Fields that are not chosen but found out when a run begins."""

    @property
    def ahead(self) -> int:
        """How many plies after the position its settings make the target look, at most."""
        return 0

    def outputs(self, actions: int) -> int:
        """Return the number of outputs of the last layer in a game with so many actions."""
        return actions if self.per_action else 1

    def activation(self, outputs: Tensor) -> Tensor:
        """Return what the head predicts from the outputs of its last layer, [N, outputs].

        A prediction is [N, ...]. Activations that bfloat16 would make coarse are float32.
        """
        return outputs

    def columns(self, options: TargetOptions) -> frozenset[str]:
        """Return the facts of many numbers that the target depends on."""
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
        """Return what a search reads of a prediction: float32, by the names in `answers`."""
        raise NotImplementedError


HEADS: Registry[type[Head]] = Registry("head")


def missing_output(answer: HeadOutput, heads: Iterable[Head]) -> str:
    """Return the line for a search that needs what none of a network's heads answers."""
    givers = [quoted(name) for name, kind in HEADS.items() if answer in kind.answers]
    names = ", ".join(quoted(head.name) for head in heads)
    return (
        f"no head gives {answer.replace('_', ' ')}: expected {' or '.join(givers)} in"
        f" network.heads, which has {names or 'none'}"
    )


def mixed(outcome: Numbers, root: Numbers, weight: float) -> NDArray[np.float32]:
    """Return (1 - weight) * outcome + weight * root, float32; what has no weight may be NaN."""
    both = outcome if weight == 0 else (1 - weight) * outcome + weight * root
    return both.astype(np.float32, copy=False)
