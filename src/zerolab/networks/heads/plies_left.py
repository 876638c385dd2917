"""How long the game will last."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.networks.heads.interface import HEADS, Facts, Head, TargetOptions

if TYPE_CHECKING:
    from torch import Tensor

_SCALE = 20.0
"""Plies that count as 1, so that errors have the size of those of the other heads."""
_QUADRATIC = 0.5
"""Up to this, in units of the scale, errors are squared: games that last surprisingly long or end
by a blunder do not outweigh all others."""


class PliesLeftHead(Head):
    """Plies to the end of the game, in units of 20, with the Huber error of threshold 0.5.

    A search reads nothing of this head: it makes the trunk see how near the end is.
    """

    name: Literal["plies_left"] = "plies_left"

    predicts: ClassVar[str] = f"plies to the end of the game, divided by {_SCALE:g}"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return numbers of plies in units of the scale, float32[N]."""
        return outputs.float().squeeze(1)

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the plies left in units of the scale, float32[N]."""
        return (facts.plies_left / _SCALE).astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return Huber's errors: e^2 / 2 up to the threshold t, t * (|e| - t / 2) beyond."""
        distance = (prediction.float() - target).abs()
        within = distance.clamp(max=_QUADRATIC)
        return within * (distance - within / 2)


HEADS.add("plies_left", PliesLeftHead)
