"""One uniformly random game from a leaf as its value (W, Rollout; plain MCTS)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zerolab.rules import interface as rules
from zerolab.search.interface import register_leaf


class RandomPlayout(NamedTuple):
    """A leaf is worth the result of one random playout; priors stay the evaluator's (FACTS 2)."""


@register_leaf("playout", RandomPlayout)
class RandomPlayoutRule:
    """See `RandomPlayout`."""

    @staticmethod
    def leaf_value(rule, game, state, estimate, key, scratch, trace):
        return np.float32(rules.playout(game, state, key, scratch, trace))
