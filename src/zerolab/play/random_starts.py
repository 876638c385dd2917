"""Random plies that games of self-play begin with, so that networks see more than good play."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game


@kernel
def _draw(game, states, most, plies, keys, at_random, actions):
    """Draw which games play one more random ply of at most `most`, and its action."""
    for i in range(keys.shape[0]):
        if at_random[i]:
            # Given that the length is at least `plies`, it is longer with this probability.
            longer = (most - plies[i]) / (most + 1 - plies[i])
            at_random[i] = streams.uniform(keys[i], 0) < longer
            actions[i] = rules.random_action(game, states[i], streams.bits(keys[i], 1))


class RandomStarts:
    """Which of a player's games are still in their random plies, and what they play there.

    The number of a game's random plies is uniform in 0..most. Games that go on with a new player
    have left theirs.
    """

    def __init__(self, game: Game, most: int, slots: int) -> None:
        self._game = game
        self._most = most
        self._at_random = np.zeros(slots, np.bool_)
        self._actions = np.zeros(slots, np.int64)

    def begin(
        self,
        slots: Slots,
        states: NDArray[np.uint64],
        plies: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Return bool[n]: whether the next move is random; `keys` uint64[n] are its streams."""
        at_random = (plies == 0) | self._at_random[slots]
        actions = np.zeros(len(slots), np.int64)
        _draw(self._game, states, self._most, plies, keys, at_random, actions)
        self._at_random[slots], self._actions[slots] = at_random, actions
        return at_random

    def replace(self, slots: Slots, actions: Actions) -> Actions:
        """Return the actions, in games that move at random those drawn."""
        return np.where(self._at_random[slots], self._actions[slots], actions)

    def are_at_random(self, slots: Slots) -> NDArray[np.bool_]:
        """Return bool[n]: whether the move that `begin` was last asked about is random."""
        return self._at_random[slots]
