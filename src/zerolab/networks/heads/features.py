"""What another network, trained before, sees in the position and in later ones of its game."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from zerolab.networks.heads.interface import HEADS, Column, Facts, Head, TargetOptions
from zerolab.networks.losses import mean_squared_error

if TYPE_CHECKING:
    from torch import Tensor


class FeaturesHead(Head):
    """Features that another network, trained before, has of the position and of later ones.

    They are the activations of the convolutions before that network's heads [Clausen2021]; the
    error is the mean squared one. Nothing is learnt about positions after the end of the game. A
    search reads nothing of this head: it makes the trunk see what the other network sees, ahead of
    time (docs/auxiliary-features.md).
    """

    name: Literal["features"] = "features"

    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of this head's error in what is minimised. [Clausen2021]: 1."""

    source: str = ""
    """The network whose features are learnt, RUN or RUN@N, such as runs/small, of the same
    game. The run keeps a copy of it."""

    digest: str = ""
    """What identifies the weights of `source`, filled in when the run begins."""

    width: int = Field(default=0, ge=0)
    """How many features a position has, filled in when the run begins. [Clausen2021]: 42 for every
    head of the small network."""

    plies: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(default=(0, 2, 4), min_length=1)
    """How many plies after the position the positions come whose features are learnt.
    [Clausen2021]: 0, 2, 4."""

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
        """See `Head.ahead`."""
        return max(self.plies)

    def outputs(self, actions: int) -> int:
        """Return the number of features, those of all plies together."""
        return self.width * len(self.plies)

    def columns(self, options: TargetOptions) -> frozenset[Column]:
        """See `Head.columns`."""
        return frozenset(("features",))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the features, float32[N, plies * width]; NaN where the game was over."""
        return facts.features.astype(np.float32, copy=False)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared errors of the features that there are."""
        return mean_squared_error(prediction.float(), target)


HEADS.add("features", FeaturesHead)
