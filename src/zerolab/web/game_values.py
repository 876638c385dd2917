"""Values of all positions of a game at once: one batch for a network, short searches otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.web.folders import Folders
from zerolab.web.live_search import AgentCache

_SIMULATIONS = 50
"""Simulations per position of an agent without a network."""


class GameValuesRequest(NamedTuple):
    """Request for the values of all positions of a game."""

    agent: str
    """Agent spec."""
    position: Position
    """Final position, which knows the positions before it."""
    folders: Folders

    def new_work(self) -> GameValues:
        """Return the work that has been requested."""
        return GameValues(self)


class GameValues:
    """Work that evaluates all positions of a game, for the first player."""

    def __init__(self, request: GameValuesRequest) -> None:
        self._request = request
        self.bytes = 0
        """Upper bound of the memory of the searches, or 0 before they start."""

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[list[float] | None]:
        """Yield None after each step, and finally the values, from the start to the final position.

        Values are expected outcomes in [-1, 1] for the first player; that of a finished game is its
        outcome. Raise UserError if the agent does not exist, is not allowed or provides no expected
        outcomes.
        """
        position = self._request.position
        agent = agents.find(self._request.agent, position.game, self._request.folders, _SIMULATIONS)
        line = position.line()
        ongoing = [each for each in line if each.outcome is None]
        states = np.array([each.state for each in ongoing])
        player = agent.new_player()
        if agent.load_evaluator is not None and isinstance(player, SearchPlayer | PolicyPlayer):
            values = player.evaluator.evaluate(states)[1]
        elif isinstance(player, SearchPlayer):
            needed = agent.bytes_per_game * len(ongoing) + agent.bytes_per_player
            require_memory(needed)
            self.bytes = needed
            slots = np.arange(len(ongoing))
            player.start(len(ongoing))
            player.begin_at(slots, states)
            plies = np.array([each.ply for each in ongoing])
            keys = streams.stream_keys(0, 0, np.zeros_like(plies), plies, streams.ARENA_MOVE)
            player.submit(slots, states, keys)
            while player.search.active:
                player.step()
                yield None
            values = player.search.root_values(slots)
        else:
            raise UserError(
                f"{agent.name} provides no expected outcome: expected a run, or MCTS such as"
                " mcts:1000"
            )
        seen = [
            float(value) * (1 if each.first_to_move else -1)
            for each, value in zip(ongoing, values, strict=True)
        ]
        result = position.first_player_outcome
        yield seen if result is None else [*seen, float(result)]
