"""``random``: uniformly random moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import AGENT_KINDS, Access, Actions, Agent, Slots, StatelessPlayer
from zerolab.agents.options import refuse_options
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game


@kernel
def _random_actions(game, states, keys, chosen):
    for i in range(states.shape[0]):
        chosen[i] = rules.random_action(game, states[i], streams.bits(keys[i], 0))


class RandomPlayer(StatelessPlayer):
    """Plays uniformly over the legal actions."""

    def __init__(self, game: Game, name: str = "random") -> None:
        self.name = name
        self._game = game

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        chosen = np.empty(len(slots), np.int64)
        _random_actions(self._game, states, keys, chosen)
        return chosen


class _Random:
    form = "random"
    access: Access = "nothing"

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        refuse_options(argument, "random")
        return Agent("random", lambda: RandomPlayer(game), game=game, identity="random")


AGENT_KINDS.add("random", _Random())
