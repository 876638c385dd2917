"""``perfect``: an oracle's best moves, equals by lot."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import KINDS, Agent
from zerolab.agents.options import refuse_options
from zerolab.arena.perfect import PerfectPlayer
from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.interface import Oracle
from zerolab.rules.interface import Game


class _Perfect:
    form = "perfect"

    def game(self, argument: str) -> None:
        """See `Kind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `Kind.agent`."""
        refuse_options(argument, "perfect")
        oracle = _InTurns(oracle_for(game))
        return Agent("perfect", lambda: PerfectPlayer(oracle), game=game, identity="perfect")


class _InTurns:
    """An oracle that players in several threads share, with its table of what it has solved."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._lock = threading.Lock()

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Oracle.action_values`."""
        with self._lock:
            return self._oracle.action_values(states)


KINDS.add("perfect", _Perfect())
