"""Explanations of searches: values of all positions of a game, and simulations one at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.stepwise import Simulation, StepwiseSearch, require_plain_search
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


MAX_SIMULATION = 200
"""Number of the last simulation that pages can see."""

_MAX_RECENT = 16
_Key = tuple[str, str, bytes, int]
_recent: OrderedDict[_Key, StepwiseSearch] = OrderedDict()
"""Searches that nobody is continuing, by agent identity, game, state and next simulation."""


class SimulationRequest(NamedTuple):
    """Request for one simulation of a search."""

    agent: str
    """Agent spec."""
    position: Position
    folders: Folders
    number: int
    """Number of the simulation; number 0 evaluates the root."""

    def new_work(self) -> SimulationWork:
        """Return the work that has been requested."""
        return SimulationWork(self)


class SimulationTrace(NamedTuple):
    """Simulation with the visit counts at the root after it."""

    simulation: Simulation
    root_visits: dict[int, int]
    """Visit counts by action."""
    exploration: float
    """Constant c of the selection rule."""


class SimulationWork:
    """Work that runs a search up to one simulation."""

    bytes = 0
    """Memory of the tree, which is too small to count."""

    def __init__(self, request: SimulationRequest) -> None:
        self._request = request

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[SimulationTrace | None]:
        """Yield None after each simulation, and finally the requested one.

        Raise UserError if the game is over, or if the agent does not exist, is not allowed or does
        not search with PUCT and a network.
        """
        position, number = self._request.position, self._request.number
        if position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        agent = agents.find(self._request.agent, position.game, self._request.folders)
        settings = require_plain_search(agent.search_settings, agent.name)
        if agent.load_evaluator is None:
            raise UserError(f"{agent.name} has no network: expected a run, such as runs/demo")
        key = agent.identity, game_name(position.game), position.state.tobytes()
        found = (_recent.pop((*key, each), None) for each in range(number, 0, -1))
        search = next((each for each in found if each is not None), None)
        search = search or StepwiseSearch(position, settings, agent.load_evaluator())
        while search.count < number:
            search.simulate()
            yield None
        simulation = search.simulate()
        _recent[(*key, search.count)] = search
        if len(_recent) > _MAX_RECENT:
            _recent.popitem(last=False)
        yield SimulationTrace(simulation, search.root_visits, settings.selection.build().c)
