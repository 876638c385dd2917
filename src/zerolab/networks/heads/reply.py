"""The opponent's next policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.networks.heads.interface import HEADS, Column, Facts, Head, TargetOptions
from zerolab.networks.losses import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


class ReplyHead(Head):
    """What the search recommends to the opponent after the move that was played [Wu2019].

    Nothing is learnt from the last move of a game. A search reads nothing of this head: it makes
    the trunk see what the opponent is up to.
    """

    name: Literal["reply"] = "reply"

    weight: float = Field(default=0.35, ge=0, le=1000)
    """Weight of this head's error in what is minimised. [Clausen2021]: 0.35. [Wu2019]: 0.15.
    [AlphaZeroArcade]: 0.03."""

    per_action: ClassVar[bool] = True
    predicts: ClassVar[str] = "logits of the opponent's next action"

    def columns(self, options: TargetOptions) -> frozenset[Column]:
        """See `Head.columns`."""
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
