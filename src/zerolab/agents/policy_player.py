"""A network's policy as a player, without any search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator


class PolicyPlayer:
    """Plays the legal action of the highest prior; ties are broken at random.

    Moves of the first `sampled_plies` plies are drawn in proportion to the priors instead.
    """

    def __init__(self, game: Game, name: str, evaluator: Evaluator, sampled_plies: int = 0) -> None:
        self.name = name
        self._game = game
        self.evaluator = evaluator
        self._sampled_plies = sampled_plies
        self.start(0)

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self._plies = np.zeros(games, np.int64)

    def reset(self, slots: Slots) -> None:
        """See `Player.reset`."""
        self._plies[slots] = 0

    def place(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """See `PlacedPlayer.place`."""
        self.reset(slots)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        priors, _ = self.evaluator.evaluate(states)
        return self.choose_by(priors, slots, states, keys)

    def choose_by(
        self,
        priors: NDArray[np.float32],
        slots: Slots,
        states: NDArray[np.uint64],
        keys: NDArray[np.uint64],
    ) -> Actions:
        """Choose by the priors float32[n, actions] that the network has given."""
        chosen = np.empty(len(slots), np.int64)
        sample = self._plies[slots] < self._sampled_plies
        _choose(self._game, states, priors, keys, sample, chosen)
        return chosen

    def advance(self, slots: Slots, actions: Actions) -> None:
        """See `Player.advance`."""
        self._plies[slots] += 1


@kernel
def _choose(game, states, priors, keys, sample, chosen):
    """Choose among the legal actions; all have equal weight if their priors are all zero."""
    weights = np.empty(priors.shape[1], np.float64)
    mask = np.empty(priors.shape[1], np.bool_)
    for i in range(states.shape[0]):
        rules.legal(game, states[i], mask)
        most = 0.0
        for action in range(mask.shape[0]):
            if mask[action] and priors[i, action] > most:
                most = priors[i, action]
        total = 0.0
        last = 0
        for action in range(mask.shape[0]):
            weights[action] = 0.0
            if mask[action]:
                if sample[i] and most > 0.0:
                    weights[action] = priors[i, action]
                elif priors[i, action] == most or not most > 0.0:
                    weights[action] = 1.0
                if weights[action] > 0.0:
                    last = action
            total += weights[action]
        drawn = streams.uniform(keys[i], 0) * total
        chosen[i] = last  # where rounding leaves a remainder
        for action in range(mask.shape[0]):
            drawn -= weights[action]
            if drawn < 0.0:
                chosen[i] = action
                break
