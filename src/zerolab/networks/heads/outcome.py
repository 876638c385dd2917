"""The outcome as the probabilities of a win, a draw and a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.networks.heads.interface import HEADS, Answer, Facts, Head, TargetOptions, mixed
from zerolab.networks.losses import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


class OutcomeHead(Head):
    """Probabilities of a win, a draw and a loss for the mover, with the cross-entropy.

    A search reads the value P(win) - P(loss) and the probability of a draw.
    """

    name: Literal["outcome"] = "outcome"

    weight: float = Field(default=1.5, ge=0, le=1000)
    """Weight of this head's error in what is minimised. [Clausen2021]: 0.01. [AlphaZeroArcade]:
    1.5."""

    answers: ClassVar[tuple[Answer, ...]] = ("values", "draws")
    predicts: ClassVar[str] = "logits of win, draw and loss for the mover"

    def outputs(self, actions: int) -> int:
        """Return three: logits of win, draw and loss."""
        return 3

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the probabilities, float32[N, 3], whose value is the target of a scalar value.

        A win that is discounted to v is a win with probability v, else a draw. Where the search
        knew of no draws, its share in the target leaves their probability to the outcome, as far as
        the value has room for it.
        """
        weight = options.root_value_weight
        values = mixed(facts.values, facts.root_values, weight)
        draws = mixed(facts.draws, facts.root_draws, weight)
        draws = np.where(np.isnan(draws), facts.draws, draws)
        draws = np.clip(draws, 0, 1 - np.abs(values))
        decided = 1 - draws
        return np.stack([(decided + values) / 2, draws, (decided - values) / 2], axis=1)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return cross_entropy(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[Answer, Tensor]:
        """Return P(win) - P(loss) and P(draw)."""
        win, draw, loss = prediction.float().softmax(dim=1).unbind(dim=1)
        return {"values": win - loss, "draws": draw}


HEADS.add("outcome", OutcomeHead)
