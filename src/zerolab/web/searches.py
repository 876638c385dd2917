"""Pool of search processes, handles for searches, and work requested by pages.

The work evaluates all positions of a game, or traces a single simulation of a search.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from zerolab.agents.analysis import Analysis
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.stepwise import Simulation, StepwiseSearch, checked_stepwise_settings
from zerolab.web.folders import Folders
from zerolab.web.live_search import AgentCache, SearchRequest, TreeNode
from zerolab.web.requests import BusyError, Client, Quota
from zerolab.web.search_process import BeginCommand, NodeCommand, WorkRequest
from zerolab.web.search_worker import SearchWorker

MAX_SEARCHES_PER_PAGE = 16
MAX_SEARCHES_PER_ADDRESS = 100
"""Limits on one client; see `MAX_SEARCHES`."""
MAX_SEARCHES = 400
"""Maximum number of simultaneous searches and requests for tree nodes."""
_WATCH_SECONDS = 5.0


class SearchPool:
    """Pool of search processes that share the searches of all clients."""

    def __init__(self, workers: int) -> None:
        """Use `workers` processes, which are started by `start` or by the first search."""
        self._workers: list[SearchWorker | None] = [None] * workers
        self._numbers = itertools.count(1)
        self._quota = Quota(
            "searches", MAX_SEARCHES, MAX_SEARCHES_PER_ADDRESS, MAX_SEARCHES_PER_PAGE
        )
        self._closing = threading.Event()

    def start(self) -> None:
        """Start the processes, so that the first search does not have to wait for a process."""
        self._running()
        threading.Thread(target=self._watch, daemon=True).start()

    def _running(self) -> list[SearchWorker]:
        """Replace ended workers and return all of them."""
        running = [
            SearchWorker() if each is None or each.has_ended else each for each in self._workers
        ]
        self._workers = [*running]
        return running

    def _watch(self) -> None:
        """Kill processes that have been silent for too long."""
        while not self._closing.wait(_WATCH_SECONDS):
            for worker in self._workers:
                if worker is not None:
                    worker.kill_if_unresponsive()

    def close(self) -> None:
        """End the processes."""
        self._closing.set()
        workers = [each for each in self._workers if each is not None]
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.join()

    @property
    def active_count(self) -> int:
        """Number of searches and requests for tree nodes in progress, for all clients."""
        return self._quota.in_use

    def begin(
        self, client: Client, request: WorkRequest, *, is_low_priority: bool = False
    ) -> SearchHandle:
        """Begin a search for a client; raise BusyError if there are too many already.

        Searches with `is_low_priority` run after other searches.
        """
        available = [each for each in self._running() if each.has_room]
        if not available:
            raise BusyError("all search processes are busy: try again in a moment")
        worker = min(available, key=lambda each: each.task_count)
        return self._begin_in(worker, client, request, is_low_priority)

    def _begin_in(
        self, worker: SearchWorker, client: Client, request: WorkRequest, is_low_priority: bool
    ) -> SearchHandle:
        begin = BeginCommand(next(self._numbers), client, request, is_low_priority)
        return SearchHandle(worker, begin, self._numbers, self._quota)

    async def warm_up(self, request: SearchRequest) -> None:
        """Search once in every process to compile everything; raise the errors of the searches."""
        searches = [
            self._begin_in(each, Client("", str(number)), request, is_low_priority=True)
            for number, each in enumerate(self._running())
        ]
        await asyncio.gather(*(_finish(each) for each in searches))

    async def analyse(
        self, client: Client, request: SearchRequest, *, is_low_priority: bool = False
    ) -> Analysis:
        """Return the analysis at the end of a search; raise BusyError like `begin`."""
        search = self.begin(client, request, is_low_priority=is_low_priority)
        analysis: Analysis = await _finish(search)
        return analysis

    async def game_values(self, client: Client, request: GameValuesRequest) -> list[float]:
        """Return the values of all positions of a game; raise BusyError like `begin`."""
        values: list[float] = await _finish(self.begin(client, request, is_low_priority=True))
        return values

    async def simulation(self, client: Client, request: SimulationRequest) -> SimulationTrace:
        """Return one simulation of a search; raise BusyError like `begin`."""
        trace: SimulationTrace = await _finish(self.begin(client, request))
        return trace


class SearchHandle:
    """Handle for a search in progress, which ends when the context exits or `drop` is called."""

    def __init__(
        self, worker: SearchWorker, begin: BeginCommand, numbers: itertools.count[int], quota: Quota
    ) -> None:
        self._client, self._number = begin.client, begin.task_number
        self._worker = worker
        self._numbers = numbers
        self._quota = quota
        quota.acquire(self._client)
        self._is_running = True
        try:
            self._updates = worker.send(begin)
        except BusyError:
            self._end()
            raise

    async def __aenter__(self) -> SearchHandle:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    async def results(self) -> AsyncIterator[Any]:
        """Yield results, such as analyses, as they improve; slow readers receive only the latest.

        Raises the error of a failed search.
        """
        while True:
            update = await self._updates.next()
            if update.is_done:
                self._end()
            if update.error is not None:
                raise update.error
            if update.result is not None:
                yield update.result
            if update.is_done:
                return

    async def node(self, path: Sequence[str]) -> TreeNode:
        """Return a node of the search tree; raise BusyError or the errors of `LiveSearch.node`."""
        number = next(self._numbers)
        with self._quota.hold(self._client):
            try:
                pending = self._worker.send(NodeCommand(number, self._number, tuple(path)))
                update = await pending.next()
            finally:
                self._worker.abandon_node_command(number)
        if update.error is not None:
            raise update.error
        node: TreeNode = update.result
        return node

    def drop(self) -> None:
        """End the search and discard its tree."""
        self._end()
        self._worker.drop_search(self._number)

    def _end(self) -> None:
        if self._is_running:
            self._is_running = False
            self._quota.release(self._client)


async def _finish(search: SearchHandle) -> Any:
    """Return the last result of a search and drop the search."""
    async with search:
        async for result in search.results():
            latest = result
    return latest


_SIMULATIONS = 50
"""Simulations per position of an agent without a network."""


class GameValuesRequest(NamedTuple):
    """Request for the values of all positions of a game."""

    agent: str
    """Agent spec."""
    position: Position
    """Final position, from which all earlier positions can be reconstructed."""
    folders: Folders

    def create_work(self) -> GameValuesWork:
        """Return the requested work."""
        return GameValuesWork(self)


class GameValuesWork:
    """Work that evaluates all positions of a game from the first player's point of view."""

    def __init__(self, request: GameValuesRequest) -> None:
        self._request = request
        self.memory_bytes = 0
        """Upper bound on the memory of the searches in bytes; 0 before they start."""

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[list[float] | None]:
        """Yield None after each step, and finally the values, from the start to the final position.

        Values are expected outcomes in [-1, 1] for the first player; the value of a finished game
        is its outcome. Raises UserError if the agent does not exist, is not allowed or provides no
        expected outcomes.
        """
        position = self._request.position
        agent = agents.find(self._request.agent, position.game, self._request.folders, _SIMULATIONS)
        line = position.positions_so_far()
        ongoing = [each for each in line if each.outcome is None]
        states = np.array([each.state for each in ongoing])
        player = agent.new_player()
        if agent.load_evaluator is not None and isinstance(player, SearchPlayer | PolicyPlayer):
            values = player.evaluator.evaluate(states)[1]
        elif isinstance(player, SearchPlayer):
            needed = agent.bytes_per_game * len(ongoing) + agent.bytes_per_player
            require_memory(needed)
            self.memory_bytes = needed
            slots = np.arange(len(ongoing))
            player.start(len(ongoing))
            player.reset_to_states(slots, states)
            plies = np.array([each.ply for each in ongoing])
            keys = streams.stream_keys(0, 0, np.zeros_like(plies), plies, streams.MATCH_MOVE)
            player.submit(slots, states, keys)
            while player.search.is_active:
                player.step()
                yield None
            values = player.search.root_values(slots)
        else:
            raise UserError(
                f"{agent.name} does not estimate outcomes: expected a run, or MCTS such as"
                " mcts:1000"
            )
        seen = [
            float(value) * (1 if each.first_to_move else -1)
            for each, value in zip(ongoing, values, strict=True)
        ]
        result = position.first_player_outcome
        yield seen if result is None else [*seen, float(result)]


MAX_TRACED_SIMULATION = 200
"""Highest simulation number that pages can request."""

_MAX_RECENT = 16
_Key = tuple[str, str, bytes, int]
_recent: OrderedDict[_Key, StepwiseSearch] = OrderedDict()
"""Searches not in use, by agent identity, game, state and number of the next simulation."""


class SimulationRequest(NamedTuple):
    """Request for one simulation of a search."""

    agent: str
    """Agent spec."""
    position: Position
    folders: Folders
    number: int
    """Number of the simulation; number 0 evaluates the root."""

    def create_work(self) -> SimulationWork:
        """Return the requested work."""
        return SimulationWork(self)


class SimulationTrace(NamedTuple):
    """Simulation with the visit counts at the root after it."""

    simulation: Simulation
    root_visits: dict[int, int]
    """Visit counts by action."""
    exploration_constant: float
    """Constant c of the selection rule."""


class SimulationWork:
    """Work that runs a search up to a given simulation."""

    memory_bytes = 0
    """Memory of the tree, which is negligible."""

    def __init__(self, request: SimulationRequest) -> None:
        self._request = request

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[SimulationTrace | None]:
        """Yield None after each simulation, and finally the requested one.

        Raises UserError if the game is over, or if the agent does not exist, is not allowed or does
        not search with PUCT and a network.
        """
        position, number = self._request.position, self._request.number
        if position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        agent = agents.find(self._request.agent, position.game, self._request.folders)
        settings = checked_stepwise_settings(agent.search_settings, agent.name)
        if agent.load_evaluator is None:
            raise UserError(f"{agent.name} has no network: expected a run, such as runs/demo")
        key = agent.identity, game_name(position.game), position.state.tobytes()
        found = (_recent.pop((*key, each), None) for each in range(number, 0, -1))
        search = next((each for each in found if each is not None), None)
        search = search or StepwiseSearch(position, settings, agent.load_evaluator())
        while search.simulation_count < number:
            search.simulate()
            yield None
        simulation = search.simulate()
        _recent[(*key, search.simulation_count)] = search
        if len(_recent) > _MAX_RECENT:
            _recent.popitem(last=False)
        yield SimulationTrace(simulation, search.root_visits, settings.selection.build().c)
