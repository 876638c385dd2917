"""Rolling horizon evolution as a player."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.arena.players import Forgetful
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.rhea import RheaSettings, rhea_actions

_PLAYOUTS_A_TURN = 50_000


class RheaPlayer(Forgetful):
    """Plays the first action of the best plan; every move begins with new plans (FACTS 3).

    It is a `Thinker` so that it can be stopped: a kernel that evolves plans cannot.
    """

    def __init__(self, game: Game, name: str, settings: RheaSettings) -> None:
        self.name = name
        self._game = game
        self._settings = settings
        self.start(0)

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self._slots = np.empty(0, np.int64)
        self._states = np.empty((0, rules.words(self._game)), np.uint64)
        self._keys = np.empty(0, np.uint64)

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Player.choose`."""
        return rhea_actions(self._game, self._settings, states, keys)

    def ask(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> None:
        """See `Thinker.ask`."""
        self._slots = np.concatenate([self._slots, slots])
        self._states = np.concatenate([self._states, states])
        self._keys = np.concatenate([self._keys, keys])

    def think(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Thinker.think`: some moves, as many as take a fraction of a second."""
        count = max(1, _PLAYOUTS_A_TURN // self._settings.playouts)
        slots, self._slots = self._slots[:count], self._slots[count:]
        states, self._states = self._states[:count], self._states[count:]
        keys, self._keys = self._keys[:count], self._keys[count:]
        return slots, self.choose(slots, states, keys)
