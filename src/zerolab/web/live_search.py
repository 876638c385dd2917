"""One search of a page, and the agents that pages may name.

Pages may not name agents that run programs, that lie outside the folders served, or whose searches
are too long or too large.
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
    analyse_as_player,
    analyse_unfinished,
    move_keys,
    replay_moves,
)
from zerolab.agents.kinds.baselines import PerfectPlayer
from zerolab.agents.network_players import SearchPlayer, for_one_game
from zerolab.agents.options import split_options
from zerolab.agents.specs import named_path, parse_agent
from zerolab.core.errors import UserError, quoted
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.search.methods import playouts
from zerolab.search.result import NodeView
from zerolab.search.rhea import RheaSettings
from zerolab.search.search_settings import SearchSettings
from zerolab.web.folders import Folders
from zerolab.web.solving import oracle_within

MAX_SIMULATIONS = 100_000
"""Per move or analysis; a simulation of a large game takes a few kilobytes."""
_MAX_SEARCH_BYTES = 512 << 20
_MAX_CACHE = 1 << 20
_MAX_LEAVES = 256
_MAX_PLAYOUTS_PER_LEAF = 1000
_MAX_PLAYOUTS = 20_000
"""Per step; in a large game such a step takes a second, and other searches wait for it."""
_MAX_NETWORKS = 8


class SearchRequest(NamedTuple):
    """A search of one position by an agent."""

    agent: str
    """A spec."""
    position: Position
    folders: Folders
    simulations: int | None = None
    """Overrides the simulations of the spec, if the agent searches."""
    seconds: float | None = None
    """A time limit, which overrides the settings."""
    seed: int = 0
    shows_progress: bool = False
    """True if analyses are wanted before the search has ended."""


class AgentCache:
    """The agents that pages name; the networks used last stay loaded between requests.

    Agents share an evaluator while anything references it, and load it again otherwise.
    """

    def __init__(self) -> None:
        self._evaluators: OrderedDict[str, Evaluator] = OrderedDict()

    def find(self, request: SearchRequest) -> Agent:
        """Return the agent of a request, with its network loaded; errors as of `find_agent`."""
        game = request.position.game
        agent = find_agent(request.agent, game, request.folders, request.simulations)
        if agent.evaluator is not None:
            self._evaluators[agent.identity] = agent.evaluator()
            self._evaluators.move_to_end(agent.identity)
            if len(self._evaluators) > _MAX_NETWORKS:
                self._evaluators.popitem(last=False)
        return agent


def find_agent(spec: str, game: Game, folders: Folders, simulations: int | None = None) -> Agent:
    """Return the agent of a game that a page names.

    `simulations` overrides the number of a spec that searches. Raises UserError for anything that
    is not an agent of the game or that pages may not name, and for settings beyond the limits of
    pages, whether they come from the spec, a run or a file.
    """
    path = named_path(spec)
    if path is not None and not _is_misspelt(path):
        folders.confined_network(path)
    agent = parse_agent(spec, game)
    if simulations is not None and agent.bytes_per_game:
        agent = parse_agent(_with_simulations(spec, simulations), game)
    _require_modest(agent)
    if search_bytes(agent) > _MAX_SEARCH_BYTES:
        raise UserError(
            f"{agent.name} needs {search_bytes(agent) >> 20:,} MiB to search: expected fewer"
            f" simulations or a smaller cache, so that {_MAX_SEARCH_BYTES >> 20} suffice"
        )
    return agent


def search_bytes(agent: Agent) -> int:
    """Return the approximate memory of an agent's search of one position."""
    return agent.bytes_per_game + agent.bytes_per_player


def _require_modest(agent: Agent) -> None:
    """Raise UserError for settings that make a search, or a step of it, too long or too large."""
    settings = agent.settings
    if isinstance(settings, RheaSettings):
        _require_at_most(agent, "playouts", settings.playouts, _MAX_PLAYOUTS)
    if not isinstance(settings, SearchSettings):
        return
    per_leaf = playouts(settings.leaf_evaluator.build())
    _require_at_most(agent, "simulations", settings.simulations, MAX_SIMULATIONS)
    _require_at_most(agent, "cache", settings.cache, _MAX_CACHE)
    _require_at_most(agent, "leaf_evaluator.playouts", per_leaf, _MAX_PLAYOUTS_PER_LEAF)
    leaves = min(_MAX_LEAVES, _MAX_PLAYOUTS // max(1, per_leaf))
    _require_at_most(agent, "leaves_per_step", settings.leaves_per_step, leaves)


def _require_at_most(agent: Agent, key: str, value: int, most: int) -> None:
    if value > most:
        raise UserError(f"{agent.name}: {key} = {value}: expected at most {most:,} on a page")


def _is_misspelt(path: str) -> bool:
    """Return whether a text is not a path but probably a misspelt agent, such as mtcs:100."""
    if "/" in path:
        return False
    try:
        return not Path(path).exists()
    except OSError:  # no file can have such a name
        return True


def _with_simulations(spec: str, simulations: int) -> str:
    """Return a spec with another number of simulations; raise UserError if it is out of range."""
    if not 1 <= simulations <= MAX_SIMULATIONS:
        raise UserError(
            f"simulations = {quoted(simulations)}: expected from 1 to {MAX_SIMULATIONS:,}"
        )
    head, options = split_options(spec)
    given = options.split("&") if options else []
    kept = [each for each in given if not each.startswith("simulations=")]
    return f"{head}?{'&'.join([*kept, f'simulations={simulations}'])}"


_ROW = np.zeros(1, np.int64)  # the only game of a player
_TURN_SECONDS = 0.03
"""Length of a turn in the queue, short enough for others to wait for a few turns."""
_PERFECT_SECONDS = 3.0
"""Time limit for a move of the agent `perfect`, which takes a single turn."""


class TreeNode(NamedTuple):
    """A position in a search tree, and its node if the search has reached it."""

    position: Position
    node: NodeView | None


class LiveSearch:
    """A growing analysis of an ongoing position.

    Agents that search do so up to the simulations of their settings; others are done at once.
    """

    def __init__(self, request: SearchRequest) -> None:
        self._request = request
        self._player: SearchPlayer | None = None
        self.bytes = 0
        """Upper bound of its memory; 0 before it has begun."""

    def steps(
        self, agents: AgentCache, require_memory: Callable[[int], None]
    ) -> Iterator[Analysis | None]:
        """Search; yield an analysis with every step that has one, and with the last step.

        `require_memory` raises an error if there is too little memory for another search. Raises
        UserError for a finished game, and for an agent that does not exist or may not be named.
        """
        if self._request.position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        agent = agents.find(self._request)
        require_memory(search_bytes(agent))
        self.bytes = search_bytes(agent)
        yield from self._steps(agent)

    def _steps(self, agent: Agent) -> Iterator[Analysis | None]:
        at = self._request.position
        player, keys = _new_player(agent), move_keys(at, self._request.seed)
        replay_moves(player, at)
        if not isinstance(player, SearchPlayer):
            yield analyse_as_player(player, at, keys)
            return
        player.submit(_ROW, at.state[None], keys)
        self._player = player
        began = time.perf_counter()
        while player.search.active and not self._is_late(player, began):
            _search_for_a_turn(player)
            yield analyse_unfinished(player, at) if self._request.shows_progress else None
        action = int(player.decide(_ROW)[0])
        found = analyse_unfinished(player, at)
        yield found._replace(best=next(each for each in found.moves if each.action == action))

    def _is_late(self, player: SearchPlayer, began: float) -> bool:
        """Return whether the time is up and at least one action has been visited."""
        seconds = self._request.seconds
        is_over = seconds is not None and time.perf_counter() - began >= seconds
        return is_over and bool(player.search.visits(_ROW).any())

    def node(self, path: Sequence[str]) -> TreeNode:
        """Return the tree node at the end of a sequence of moves.

        Raises UserError for illegal moves, and for an agent that does not search.
        """
        at = self._request.position
        for move in path:
            at = at.play(move)
        if self._player is None:
            raise UserError(f"{self._request.agent} has no tree: expected an agent that searches")
        actions = at.history[len(self._request.position.history) :]
        return TreeNode(at, self._player.search.node(0, actions))


def _new_player(agent: Agent) -> Player:
    """Return a player for one game; the exact solver gets a time limit, as others wait for it."""
    player = for_one_game(agent.new_player())
    if isinstance(player, PerfectPlayer):
        oracle = oracle_within(game_name(agent.game), _PERFECT_SECONDS)
        return PerfectPlayer(oracle, player.name)
    return player


def _search_for_a_turn(player: SearchPlayer) -> None:
    until = time.perf_counter() + _TURN_SECONDS
    while player.search.active and time.perf_counter() < until:
        player.step()
