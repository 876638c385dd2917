"""Searches for web pages, and restrictions on the agents that pages can use.

Pages cannot use agents that run programs or are outside the served folders, nor agents whose
searches are too long or too large.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zerolab.agents.agent import Agent, Player
from zerolab.agents.analysis import (
    Analysis,
    analyse_running_search,
    analyse_with_player,
    move_stream_keys,
    replay_moves,
)
from zerolab.agents.baselines import PerfectPlayer
from zerolab.agents.network_players import SearchPlayer, prepare_for_one_game
from zerolab.agents.specs import named_path, parse_agent, with_option
from zerolab.core.errors import UserError, quoted
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.search.methods import playouts_per_leaf
from zerolab.search.rhea import RheaSettings
from zerolab.search.roots import NodeStatistics
from zerolab.search.search_settings import SearchSettings
from zerolab.web.folders import Folders
from zerolab.web.solving import oracle_with_time_limit

MAX_SIMULATIONS = 100_000
"""Maximum simulations per move or analysis. On large boards, each simulation takes a few
kilobytes."""
_MAX_SEARCH_BYTES = 512 << 20
_MAX_CACHE = 1 << 20
_MAX_LEAVES = 256
_MAX_PLAYOUTS_PER_LEAF = 1000
_MAX_PLAYOUTS = 20_000
"""Maximum playouts per step. On large boards, such a step takes a second and blocks other
searches."""
_MAX_NETWORKS = 8


class SearchRequest(NamedTuple):
    """Request to search one position with an agent."""

    agent: str
    """Agent spec."""
    position: Position
    folders: Folders
    simulations: int | None = None
    """Number of simulations, which overrides the spec if the agent searches."""
    seconds: float | None = None
    """Time limit, if the agent searches."""
    seed: int = 0
    shows_progress: bool = False
    """True to return analyses before the search ends."""

    def create_work(self) -> LiveSearch:
        """Return the requested search."""
        return LiveSearch(self)


class AgentCache:
    """Cache that keeps the networks of recently used agents loaded between requests.

    Agents with the same network share an evaluator as long as anything references it.
    """

    def __init__(self) -> None:
        self._evaluators: OrderedDict[str, Evaluator] = OrderedDict()

    def find(
        self, spec: str, game: Game, folders: Folders, simulations: int | None = None
    ) -> Agent:
        """Return an agent with its network loaded; see `find_agent`."""
        agent = find_agent(spec, game, folders, simulations)
        if agent.load_evaluator is not None:
            self._evaluators[agent.identity] = agent.load_evaluator()
            self._evaluators.move_to_end(agent.identity)
            if len(self._evaluators) > _MAX_NETWORKS:
                self._evaluators.popitem(last=False)
        return agent


def find_agent(spec: str, game: Game, folders: Folders, simulations: int | None = None) -> Agent:
    """Return the agent that a page requests for a game.

    `simulations` overrides the number in the spec of an agent that searches. Raises UserError if
    the agent does not exist, does not play the game or is not allowed on pages, or if its settings
    exceed the limits for pages. The limits apply to settings in specs, runs and files.
    """
    path = named_path(spec)
    if path is not None and not _is_misspelt(path):
        folders.require_served_network_path(path)
    agent = parse_agent(spec, game)
    if simulations is not None and agent.bytes_per_game:
        agent = parse_agent(_with_simulations(spec, simulations), game)
    _require_limits(agent)
    if search_memory_bytes(agent) > _MAX_SEARCH_BYTES:
        raise UserError(
            f"{agent.name} needs {search_memory_bytes(agent) >> 20:,} MiB to search: expected fewer"
            f" simulations or a smaller cache, to use at most {_MAX_SEARCH_BYTES >> 20} MiB"
        )
    return agent


def search_memory_bytes(agent: Agent) -> int:
    """Return the approximate memory for an agent's search of one position, in bytes."""
    return agent.bytes_per_game + agent.bytes_per_player


def _require_limits(agent: Agent) -> None:
    """Raise UserError if an agent's settings make searches or steps too long or too large."""
    settings = agent.search_settings
    if isinstance(settings, RheaSettings):
        _require_at_most(agent, "playouts", settings.playouts, _MAX_PLAYOUTS)
    if not isinstance(settings, SearchSettings):
        return
    per_leaf = playouts_per_leaf(settings.leaf_evaluator.build())
    _require_at_most(agent, "simulations", settings.simulations, MAX_SIMULATIONS)
    _require_at_most(agent, "cache", settings.cache, _MAX_CACHE)
    _require_at_most(agent, "leaf_evaluator.playouts", per_leaf, _MAX_PLAYOUTS_PER_LEAF)
    leaves = min(_MAX_LEAVES, _MAX_PLAYOUTS // max(1, per_leaf))
    _require_at_most(agent, "leaves_per_step", settings.leaves_per_step, leaves)


def _require_at_most(agent: Agent, key: str, setting: int, most: int) -> None:
    if setting > most:
        raise UserError(f"{agent.name}: {key} = {setting}: expected at most {most:,} on a page")


def _is_misspelt(path: str) -> bool:
    """Return whether `path` is probably a misspelt agent, such as mtcs:100, and not a path.

    The path of a network can end with ``@`` and an iteration or a digest.
    """
    if "/" in path:
        return False
    try:
        return not any(Path(each).exists() for each in (path, path.rpartition("@")[0] or path))
    except OSError:  # no file can have this name
        return True


def _with_simulations(spec: str, simulations: int) -> str:
    """Return a spec with `simulations`; raise UserError if the number is out of range."""
    if not 1 <= simulations <= MAX_SIMULATIONS:
        raise UserError(f"simulations = {quoted(simulations)}: expected 1 to {MAX_SIMULATIONS:,}")
    return with_option(spec, "simulations", simulations)


_ROW = np.zeros(1, np.int64)  # index of a player's only game
_TURN_SECONDS = 0.03
"""Duration of a turn in the queue, short enough for other searches to wait a few turns."""
_PERFECT_SECONDS = 3.0
"""Time limit for a move of the `perfect` agent, which takes a single turn."""


class TreeNode(NamedTuple):
    """Position, with its node in the search tree if the search has reached it."""

    position: Position
    node: NodeStatistics | None


class LiveSearch:
    """Step-by-step analysis of a position in an unfinished game.

    An agent that searches stops at the number of simulations in its settings or at the requested
    time limit. Other agents finish in one step.
    """

    def __init__(self, request: SearchRequest) -> None:
        self._request = request
        self._player: SearchPlayer | None = None
        self.memory_bytes = 0
        """Upper bound on the memory of the search in bytes; 0 before the search starts."""

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[Analysis | None]:
        """Search step by step; yield an analysis or None after each step, and finally an analysis.

        `require_memory(bytes)` must raise an error if there is too little memory for another
        search. Raises UserError if the game is over, or if the agent does not exist or is not
        allowed.
        """
        if self._request.position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        request = self._request
        agent = agents.find(
            request.agent, request.position.game, request.folders, request.simulations
        )
        require_memory(search_memory_bytes(agent))
        self.memory_bytes = search_memory_bytes(agent)
        yield from self._steps(agent)

    def _steps(self, agent: Agent) -> Iterator[Analysis | None]:
        position = self._request.position
        player, keys = _new_player(agent), move_stream_keys(position, self._request.seed)
        replay_moves(player, [position])
        if not isinstance(player, SearchPlayer):
            yield analyse_with_player(player, [position], keys)[0]
            return
        player.submit(_ROW, position.state[None], keys)
        self._player = player
        began = time.perf_counter()
        while player.search.is_active and not self._is_late(player, began):
            until = time.perf_counter() + _TURN_SECONDS
            while player.search.is_active and time.perf_counter() < until:
                player.step()
            yield analyse_running_search(player, position) if self._request.shows_progress else None
        action = int(player.decide(_ROW)[0])
        analysis = analyse_running_search(player, position)
        yield analysis._replace(
            chosen_move=next(each for each in analysis.moves if each.action == action)
        )

    def _is_late(self, player: SearchPlayer, began: float) -> bool:
        """Return whether the time limit is reached and at least one action has been visited."""
        seconds = self._request.seconds
        is_time_up = seconds is not None and time.perf_counter() - began >= seconds
        return is_time_up and bool(player.search.root_visits(_ROW).any())

    def node(self, path: Sequence[str]) -> TreeNode:
        """Return the tree node at the end of a sequence of moves.

        Raises UserError if a move is illegal or the agent does not search.
        """
        position = self._request.position
        for move in path:
            position = position.play(move)
        if self._player is None:
            raise UserError(f"{self._request.agent} has no tree: expected an agent that searches")
        actions = position.history[len(self._request.position.history) :]
        return TreeNode(position, self._player.search.node(0, actions))


def _new_player(agent: Agent) -> Player:
    """Return a player for one game; limit the time of the exact solver, which blocks other work."""
    player = prepare_for_one_game(agent.new_player())
    if isinstance(player, PerfectPlayer):
        oracle = oracle_with_time_limit(game_name(agent.game), _PERFECT_SECONDS)
        return PerfectPlayer(oracle, player.name)
    return player
