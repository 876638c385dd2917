"""``perfect``: an oracle's best moves, ties broken at random."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import AGENT_KINDS, Access, Actions, Agent, Slots, StatelessPlayer
from zerolab.agents.options import refuse_options
from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.interface import NotSolvedError, Oracle
from zerolab.oracles.solver import Budget
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.search.search import choose_actions

_BUDGET = Budget(nodes=50_000_000)
"""For each position: some 20 seconds. A player that thinks for hours is no use."""


class PerfectPlayer(StatelessPlayer):
    """Plays a move of the highest value; ties are broken at random.

    `choose` raises NotSolvedError where the oracle's budget is spent.
    """

    def __init__(self, oracle: Oracle, name: str = "perfect") -> None:
        self.name = name
        self.oracle = oracle

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        return self.choose_by(self.oracle.action_values(states), keys)

    def choose_by(self, values: NDArray[np.int32], keys: NDArray[np.uint64]) -> Actions:
        """Choose by the values int32[n, actions] that the oracle has given."""
        best = (values == values.max(axis=1, keepdims=True)).astype(np.int32)
        return choose_actions(best, keys, np.zeros(len(keys), np.bool_))


class _Perfect:
    form = "perfect"
    access: Access = "nothing"

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        refuse_options(argument, "perfect")
        return perfect_agent(game, oracle_for(game, _BUDGET))


def perfect_agent(game: Game, oracle: Oracle) -> Agent:
    """Return the agent that plays an oracle's best moves; its players share the oracle."""
    shared = _SharedOracle(game, oracle)
    return Agent("perfect", lambda: PerfectPlayer(shared), game=game, identity="perfect")


class _SharedOracle(Oracle):
    """An oracle that players in several threads share, one of them at a time."""

    def __init__(self, game: Game, oracle: Oracle) -> None:
        self._game = game
        self._oracle = oracle
        self._lock = threading.Lock()

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Oracle.action_values`."""
        try:
            with self._lock:
                return self._oracle.action_values(states)
        except NotSolvedError as error:
            raise NotSolvedError(
                f"{game_name(self._game)} is too hard for perfect play from here on ({error}):"
                " expected a smaller board, or games that begin later, as with --openings 16"
            ) from error


AGENT_KINDS.add("perfect", _Perfect())
