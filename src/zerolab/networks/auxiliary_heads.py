"""Auxiliary heads, which shape the trunk: reply, plies left, features.

A search reads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from zerolab.networks.head import HEADS, Head, TargetOptions
from zerolab.networks.losses import cross_entropy, mean_squared_error
from zerolab.rules.facts import Facts

if TYPE_CHECKING:
    from torch import Tensor


class ReplyHead(Head):
    """The search's policy for the opponent after the move that was played [Wu2019].

    Nothing is learnt from the last move of a game. The head makes the trunk see the opponent's
    plans.
    """

    name: Literal["reply"] = "reply"

    weight: float = Field(default=0.35, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 0.35. [Wu2019]: 0.15.
    [AlphaZeroArcade]: 0.03."""

    per_action: ClassVar[bool] = True
    predicts: ClassVar[str] = "logits of the opponent's next action"

    def columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("replies",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the policies of the next positions, float32[N, actions]."""
        return facts.replies.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        masked = target.isnan().any(dim=1)
        errors = cross_entropy(prediction.float(), target.nan_to_num(0))
        return errors.masked_fill(masked, float("nan"))


HEADS.add("reply", ReplyHead)


_SCALE = 20.0
"""Plies that count as 1, so that errors have the size of those of the other heads."""
_QUADRATIC = 0.5
"""Bound, in units of the scale, up to which errors are squared: games that last surprisingly long
or end by a blunder do not outweigh all others."""


class PliesLeftHead(Head):
    """Plies to the end of the game, in units of 20, with the Huber error of threshold 0.5.

    The head makes the trunk see the end of the game approach.
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


class FeaturesHead(Head):
    """Features that another, trained network computes of the position and of later ones.

    They are the activations of the convolutions before that network's heads [Clausen2021]; the
    error is the mean squared one. Nothing is learnt about positions after the end of the game. The
    head makes the trunk see ahead of time what the other network sees (docs/auxiliary-features.md).
    """

    name: Literal["features"] = "features"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 1."""

    source: str = ""
    """The network whose features are learnt, RUN or RUN@N, such as runs/small, of the same game.
    The run keeps a copy of it."""

    digest: str = ""
    """Digest of the weights of `source`, filled in when the run begins."""

    width: int = Field(default=0, ge=0)
    """Number of features of a position, filled in when the run begins. [Clausen2021]: 42 for every
    head of the small network."""

    plies: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(default=(0, 2, 4), min_length=1)
    """Distances in plies from the position to those whose features are learnt. [Clausen2021]: 0, 2,
    4."""

    turns: ClassVar[bool] = False
    predicts: ClassVar[str] = "what another network sees in this position and in later ones"
    found: ClassVar[tuple[str, ...]] = ("digest", "width")

    @field_validator("plies")
    @classmethod
    def _different(cls, plies: tuple[int, ...]) -> tuple[int, ...]:
        if twice := [ply for ply in plies if plies.count(ply) > 1]:
            raise ValueError(f"{twice[0]} is there twice: expected different numbers of plies")
        return plies

    @property
    def ahead(self) -> int:
        return max(self.plies)

    def output_size(self, actions: int) -> int:
        """Return the number of features of all plies together."""
        return self.width * len(self.plies)

    def columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("features",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the features, float32[N, plies * width]; NaN where the game was over."""
        return facts.features.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of the known features."""
        return mean_squared_error(prediction.float(), target)


HEADS.add("features", FeaturesHead)
