"""Rolling horizon evolution as a player."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.arena.players import Forgetful
from zerolab.rules.interface import Game
from zerolab.search.rhea import RheaSettings, rhea_actions


class RheaPlayer(Forgetful):
    """Plays the first action of the best plan; every move begins with new plans (FACTS 3)."""

    def __init__(self, game: Game, name: str, settings: RheaSettings) -> None:
        self.name = name
        self._game = game
        self._settings = settings

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Player.choose`."""
        return rhea_actions(self._game, self._settings, states, keys)
