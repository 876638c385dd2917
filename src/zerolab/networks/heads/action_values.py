"""The expected outcome of every action."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.networks.heads.interface import HEADS, Answer, Column, Facts, Head, TargetOptions
from zerolab.networks.losses import mean_squared_error

if TYPE_CHECKING:
    from torch import Tensor


class ActionValuesHead(Head):
    """The mover's expected outcome by action, in [-1, 1], with the squared error.

    It learns what the search found out about the actions that it visited, and nothing about the
    others. A search may take it for the value of children not visited yet.
    """

    name: Literal["action_values"] = "action_values"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in what is minimised. [AlphaZeroArcade]: 5.0."""

    per_action: ClassVar[bool] = True
    answers: ClassVar[tuple[Answer, ...]] = ("action_values",)
    predicts: ClassVar[str] = "expected outcome for the mover by action, in [-1, 1]"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N, actions]; tanh is float32, as that of the value."""
        return outputs.float().tanh()

    def columns(self, options: TargetOptions) -> frozenset[Column]:
        """See `Head.columns`."""
        return frozenset(("action_values",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the search's values, float32[N, actions]; NaN where it did not visit."""
        return facts.action_values.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of the actions that were visited."""
        return mean_squared_error(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[Answer, Tensor]:
        """Return the values of actions, illegal ones included."""
        return {"action_values": prediction}


HEADS.add("action_values", ActionValuesHead)
