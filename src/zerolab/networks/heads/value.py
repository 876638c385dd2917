"""The expected outcome as one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.networks.heads.interface import HEADS, Answer, Facts, Head, TargetOptions, mixed
from zerolab.networks.losses import squared_error

if TYPE_CHECKING:
    from torch import Tensor


class ValueHead(Head):
    """The expected outcome for the mover, in [-1, 1], with the squared error [Silver2018]."""

    name: Literal["value"] = "value"

    answers: ClassVar[tuple[Answer, ...]] = ("values",)
    predicts: ClassVar[str] = "expected outcome for the mover, in [-1, 1]"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return values, [N]; tanh is float32, since bfloat16 is coarse next to 1 and -1."""
        return outputs.float().tanh().squeeze(1)

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the outcomes, mixed with what the search expected, float32[N]."""
        return mixed(facts.values, facts.root_values, options.root_value_weight)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the squared errors."""
        return squared_error(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[Answer, Tensor]:
        """Return the values."""
        return {"values": prediction}


HEADS.add("value", ValueHead)
