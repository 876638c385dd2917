"""Random plies that games of self-play begin with, so that networks see more than good play."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

NO_ACTION = -1


@kernel
def _draw(game, states, most, plies, keys, actions):
    """Draw the actions int64[n] of games that are at a random ply, NO_ACTION for the others.

    A game's stream decides on the number of its random plies, evenly from 0 to `most`.
    """
    for i in range(keys.shape[0]):
        actions[i] = NO_ACTION
        if plies[i] < streams.below(streams.bits(keys[i], 0), most + 1):
            random = streams.bits(keys[i], 1 + plies[i])
            actions[i] = rules.random_action(game, states[i], random)


@kernel
def _draw_opening(game, key, actions):
    """Write random actions from the start into int64[plies]; return how many leave a game open."""
    state = np.empty(rules.words(game), np.uint64)
    rules.start(game, state)
    for ply in range(actions.shape[0]):
        actions[ply] = rules.random_action(game, state, streams.bits(key, ply))
        rules.apply(game, state, actions[ply], state)
        if rules.outcome(game, state) != rules.ONGOING:
            return ply
    return actions.shape[0]


def random_opening(game: Game, plies: int, key: np.uint64) -> tuple[int, ...]:
    """Return that many uniformly random actions, or fewer: none that would end the game."""
    actions = np.empty(plies, np.int64)
    return tuple(actions[: _draw_opening(game, key, actions)].tolist())


class RandomStarts:
    """Which of a player's games move at random next, and how."""

    def __init__(self, game: Game, most: int, slots: int) -> None:
        """Draw for `slots` games at a time, each with at most `most` random plies."""
        self._game = game
        self._most = most
        self._actions = np.full(slots, NO_ACTION, np.int64)

    def begin(
        self,
        slots: Slots,
        states: NDArray[np.uint64],
        plies: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Return bool[n]: whether the next move is random; `keys` uint64[n] are games' streams."""
        actions = np.empty(len(slots), np.int64)
        _draw(self._game, states, self._most, plies, keys, actions)
        self._actions[slots] = actions
        return actions != NO_ACTION

    def replace(self, slots: Slots, actions: Actions) -> Actions:
        """Return the actions, in games that move at random those drawn."""
        drawn = self._actions[slots]
        return np.where(drawn != NO_ACTION, drawn, actions)

    def are_at_random(self, slots: Slots) -> NDArray[np.bool_]:
        """Return bool[n]: whether the move that `begin` was last asked about is random."""
        return self._actions[slots] != NO_ACTION
