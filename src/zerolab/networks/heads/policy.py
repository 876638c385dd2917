"""The policy that the search recommends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.networks.heads.interface import HEADS, Answer, Column, Facts, Head, TargetOptions
from zerolab.networks.losses import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


class PolicyHead(Head):
    """A probability for every action [Silver2018]; `selfplay.early_targets` says what is learnt."""

    name: Literal["policy"] = "policy"

    per_action: ClassVar[bool] = True
    answers: ClassVar[tuple[Answer, ...]] = ("priors",)
    predicts: ClassVar[str] = "logits of the actions; their softmax is the policy"

    def columns(self, options: TargetOptions) -> frozenset[Column]:
        """See `Head.columns`."""
        needed: dict[str, tuple[Column, ...]] = {
            "visits": ("policies",),
            "values": ("policies", "action_values"),
            "move": ("moves",),
        }
        return frozenset((*needed[options.early], *needed[options.late]))

    def target(self, facts: Facts, options: TargetOptions) -> NDArray[np.float32]:
        """Return the policies to learn, float32[N, actions]."""
        if options.early == options.late:
            return _TARGETS[options.early](facts)
        is_early = facts.plies < options.sampled_plies
        early, late = _TARGETS[options.early](facts), _TARGETS[options.late](facts)
        return np.where(is_early[:, None], early, late)

    def error(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return cross_entropy(prediction.float(), target)

    def read(self, prediction: Tensor) -> dict[Answer, Tensor]:
        """Return the priors; illegal actions have some, too: the search masks them."""
        return {"priors": prediction.float().softmax(dim=1)}


def _visits(facts: Facts) -> NDArray[np.float32]:
    return facts.policies.astype(np.float32, copy=False)


def _moves(facts: Facts) -> NDArray[np.float32]:
    return facts.moves.astype(np.float32, copy=False)


def _values(facts: Facts) -> NDArray[np.float32]:
    """Return (Q + 1) / 2 normalised, or the visits where every searched action loses."""
    weights = (np.nan_to_num(facts.action_values, nan=-1.0) + 1) / 2
    total = weights.sum(axis=1, keepdims=True)
    all_lost = total <= 0
    normalised = weights / np.where(all_lost, 1, total)
    return np.where(all_lost, facts.policies, normalised).astype(np.float32)


_TARGETS = {"visits": _visits, "values": _values, "move": _moves}

HEADS.add("policy", PolicyHead)
