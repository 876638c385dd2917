"""Auxiliary heads: reply, plies left and features.

They improve the trunk during training. Searches do not use their outputs.
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
    """The search policy of the opponent's reply to the played move [Wu2019].

    The last position of a game has no target. The head teaches the trunk to anticipate the
    opponent's plans.
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
        """Return the search policies of the next positions, float32[N, actions]."""
        return facts.replies.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies, float32[N]; NaN without a reply."""
        masked = target.isnan().any(dim=1)
        errors = cross_entropy(prediction.float(), target.nan_to_num(0))
        return errors.masked_fill(masked, float("nan"))


HEADS.add("reply", ReplyHead)


_SCALE = 20.0
"""Plies per unit, chosen so that the errors are of similar size to those of other heads."""
_HUBER_THRESHOLD = 0.5
"""Largest quadratic error, in units of the scale. Beyond it errors are linear, so that surprisingly
long games and games cut short by a blunder do not dominate."""


class PliesLeftHead(Head):
    """Remaining plies of the game in units of 20, with a Huber error of threshold 0.5.

    The head teaches the trunk to recognise the approaching end of the game.
    """

    name: Literal["plies_left"] = "plies_left"

    predicts: ClassVar[str] = f"plies to the end of the game, divided by {_SCALE:g}"

    def activation(self, outputs: Tensor) -> Tensor:
        """Return the predicted plies left in units of the scale, float32[N]."""
        return outputs.float().squeeze(1)

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the plies left in units of the scale, float32[N]."""
        return (facts.plies_left / _SCALE).astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the Huber errors: e^2 / 2 up to the threshold t, t * (|e| - t / 2) beyond."""
        distance = (prediction.float() - target).abs()
        clipped = distance.clamp(max=_HUBER_THRESHOLD)
        return clipped * (distance - clipped / 2)


HEADS.add("plies_left", PliesLeftHead)


class FeaturesHead(Head):
    """Features computed by another, trained network for this and later positions.

    They are the activations of the convolutions before that network's heads [Clausen2021], learnt
    with the mean squared error. Plies after the end of the game have no target. The head teaches
    the trunk to anticipate the other network's features (docs/auxiliary-features.md).
    """

    name: Literal["features"] = "features"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in the loss. [Clausen2021]: 1."""

    source: str = ""
    """The network whose features are learnt, RUN or RUN@N, for example runs/small. It must play the
    same game. The run keeps a copy of it."""

    digest: str = ""
    """Digest of the weights of `source`. Set when the run begins."""

    width: int = Field(default=0, ge=0)
    """Number of features per position. Set when the run begins. [Clausen2021]: 42 for every head of
    the small network."""

    plies: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(default=(0, 2, 4), min_length=1)
    """Numbers of plies to look ahead: features are learnt for the positions that many plies later.
    [Clausen2021]: 0, 2, 4."""

    is_equivariant: ClassVar[bool] = False
    predicts: ClassVar[str] = "features computed by another network for this and later positions"
    set_by_run: ClassVar[tuple[str, ...]] = ("digest", "width")

    @field_validator("plies")
    @classmethod
    def _reject_duplicates(cls, plies: tuple[int, ...]) -> tuple[int, ...]:
        if duplicates := [ply for ply in plies if plies.count(ply) > 1]:
            raise ValueError(f"{duplicates[0]} is listed twice: expected distinct numbers of plies")
        return plies

    @property
    def ahead(self) -> int:
        return max(self.plies)

    def output_size(self, actions: int) -> int:
        """Return the total number of features over all plies."""
        return self.width * len(self.plies)

    def columns(self, options: TargetOptions) -> frozenset[str]:
        return frozenset(("features",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the features, float32[N, plies * width]; NaN after the end of the game."""
        return facts.features.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of the known features."""
        return mean_squared_error(prediction.float(), target)


HEADS.add("features", FeaturesHead)
