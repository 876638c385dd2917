"""Perfect play, by an oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.arena.players import Forgetful
from zerolab.oracles.interface import Oracle
from zerolab.search.search import choose_actions


class PerfectPlayer(Forgetful):
    """Plays a move of the highest value; equal values are decided by lot.

    `choose` raises NotSolvedError where the oracle's budget is spent.
    """

    def __init__(self, oracle: Oracle, name: str = "perfect") -> None:
        self.name = name
        self.oracle = oracle

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Player.choose`."""
        values = self.oracle.action_values(states)
        best = (values == values.max(axis=1, keepdims=True)).astype(np.int32)
        return choose_actions(best, keys, np.zeros(len(slots), np.bool_))
