"""Simulations of a search, one at a time, for people who learn how the search works."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.stepwise import Simulation, StepwiseSearch, require_plain_search
from zerolab.web.folders import Folders
from zerolab.web.live_search import AgentCache

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
