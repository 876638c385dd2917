"""One search that grows while a page watches it, and the agents that pages may name."""

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

MOST_SIMULATIONS = 100_000
"""Per move or analysis; a simulation of a large game takes some kilobytes."""
_MOST_BYTES_OF_SEARCH = 512 << 20
"""Of one search."""
_MOST_CACHE = 1 << 20
_MOST_LEAVES = 256
_MOST_PLAYOUTS_OF_LEAF = 1000
_MOST_PLAYOUTS = 20_000
"""Of one step, which takes a second then in a large game; others wait for it."""
_MOST_NETWORKS = 8


class Players:
    """Finds players; the networks of those found last stay loaded between two requests.

    Agents share an evaluator as long as somebody holds it, and load it again otherwise.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[str, Evaluator] = OrderedDict()

    def find(
        self, spec: str, game: Game, folders: Folders, simulations: int | None = None
    ) -> Agent:
        """Return the agent that a page names, with its network loaded; see `find_player`."""
        agent = find_player(spec, game, folders, simulations)
        if agent.evaluator is not None:
            self._held[agent.identity] = agent.evaluator()
            self._held.move_to_end(agent.identity)
            if len(self._held) > _MOST_NETWORKS:
                self._held.popitem(last=False)
        return agent


def find_player(spec: str, game: Game, folders: Folders, simulations: int | None = None) -> Agent:
    """Return the agent that a page names, of a game.

    With `simulations`, an agent that searches gets so many. Raises UserError for what is no agent
    of the game or one that pages may not name, and for settings that pages may not ask for, whether
    the spec, a run or a file says them.
    """
    path = named_path(spec)
    if path is not None and not _is_misspelt(path):
        folders.confined_network(path)
    agent = parse_agent(spec, game)
    if simulations is not None and agent.bytes_per_game:
        agent = parse_agent(with_simulations(spec, simulations), game)
    _require_modest(agent)
    if bytes_of(agent) > _MOST_BYTES_OF_SEARCH:
        raise UserError(
            f"{agent.name} needs {bytes_of(agent) >> 20:,} MiB to search: expected fewer"
            f" simulations or a smaller cache, so that {_MOST_BYTES_OF_SEARCH >> 20} suffice"
        )
    return agent


def bytes_of(agent: Agent) -> int:
    """Return about how much memory a search of one position by an agent takes."""
    return agent.bytes_per_game + agent.kept_bytes


def _require_modest(agent: Agent) -> None:
    """Raise UserError for settings that make a search, or one step of it, long or large."""
    settings = agent.settings
    if isinstance(settings, RheaSettings):
        _require_most(agent, "playouts", settings.playouts, _MOST_PLAYOUTS)
    if not isinstance(settings, SearchSettings):
        return
    each = playouts(settings.leaf_evaluator.build())
    _require_most(agent, "simulations", settings.simulations, MOST_SIMULATIONS)
    _require_most(agent, "cache", settings.cache, _MOST_CACHE)
    _require_most(agent, "leaf_evaluator.playouts", each, _MOST_PLAYOUTS_OF_LEAF)
    most = min(_MOST_LEAVES, _MOST_PLAYOUTS // max(1, each))
    _require_most(agent, "leaves_per_step", settings.leaves_per_step, most)


def _require_most(agent: Agent, key: str, value: int, most: int) -> None:
    if value > most:
        raise UserError(f"{agent.name}: {key} = {value}: expected at most {most:,} on a page")


def _is_misspelt(path: str) -> bool:
    """Return whether a text is no path but meant to be the name of an agent, such as mtcs:100."""
    if "/" in path:
        return False
    try:
        return not Path(path).exists()
    except OSError:  # no file can have such a name
        return True


def with_simulations(spec: str, simulations: int) -> str:
    """Return a spec with another number of simulations; raise UserError for too many of them."""
    if not 1 <= simulations <= MOST_SIMULATIONS:
        raise UserError(
            f"simulations = {quoted(simulations)}: expected from 1 to {MOST_SIMULATIONS:,}"
        )
    head, options = split_options(spec)
    given = options.split("&") if options else []
    kept = [each for each in given if not each.startswith("simulations=")]
    return f"{head}?{'&'.join([*kept, f'simulations={simulations}'])}"


_SLOT = np.zeros(1, np.int64)
_STEP_SECONDS = 0.03
"""Of a turn in the queue, so that others wait for a few of them at most."""
_PERFECT_SECONDS = 3.0
"""Of a move of the agent `perfect`, which is one turn."""


class SearchRequest(NamedTuple):
    """A search that a page asks for."""

    agent: str
    """A spec."""
    position: Position
    folders: Folders
    simulations: int | None = None
    """Instead of those that the spec says, where the agent searches."""
    seconds: float | None = None
    """After which the search ends, whatever the settings say."""
    seed: int = 0


class Node(NamedTuple):
    """A node of a tree, if the search has been there, and its position."""

    position: Position
    view: NodeView | None


class LiveSearch:
    """What an agent makes of an ongoing position, better and better.

    Agents that search do so until they have had the simulations of their settings; what the others
    think is there at once.
    """

    def __init__(self, wanted: SearchRequest) -> None:
        """Nothing happens before `grow` is iterated."""
        self._wanted = wanted
        self._player: SearchPlayer | None = None
        self.bytes = 0
        """At most so many it takes; 0 before it has begun."""

    def grow(self, players: Players, require_memory: Callable[[int], None]) -> Iterator[Analysis]:
        """Search, and yield what has been found by the end of each step.

        `require_memory` raises an error where there are not so many bytes for another search.
        Raises UserError for a finished game, or an agent that there is not or pages may not name.
        """
        wanted = self._wanted
        if wanted.position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        agent = players.find(wanted.agent, wanted.position.game, wanted.folders, wanted.simulations)
        require_memory(bytes_of(agent))
        self.bytes = bytes_of(agent)
        yield from self._grow(agent)

    def _grow(self, agent: Agent) -> Iterator[Analysis]:
        at = self._wanted.position
        player, keys = _new_player(agent), move_keys(at, self._wanted.seed)
        replay_moves(player, at)
        if not isinstance(player, SearchPlayer):
            yield analyse_as_player(player, at, keys)
            return
        player.submit(_SLOT, at.state[None], keys)
        self._player = player
        began = time.perf_counter()
        while player.search.active and not self._is_late(player, began):
            _search_for_a_turn(player)
            yield analyse_unfinished(player, at)
        action = int(player.decide(_SLOT)[0])
        found = analyse_unfinished(player, at)
        yield found._replace(best=next(each for each in found.moves if each.action == action))

    def _is_late(self, player: SearchPlayer, began: float) -> bool:
        """Return whether the time is over; some action is visited in any case."""
        seconds = self._wanted.seconds
        is_over = seconds is not None and time.perf_counter() - began >= seconds
        return is_over and bool(player.search.visits(_SLOT).any())

    def node(self, path: Sequence[str]) -> Node:
        """Return the position to which moves lead, and its node.

        Raises UserError for moves that are not legal, and for an agent that does not search.
        """
        at = self._wanted.position
        for move in path:
            at = at.play(move)
        if self._player is None:
            raise UserError(f"{self._wanted.agent} has no tree: expected an agent that searches")
        actions = at.history[len(self._wanted.position.history) :]
        return Node(at, self._player.search.node(0, actions))


def _new_player(agent: Agent) -> Player:
    """Return a player whose moves do not take others' time: the solver has a limit of its own."""
    player = for_one_game(agent.new_player())
    if isinstance(player, PerfectPlayer):
        oracle = oracle_within(game_name(agent.game), _PERFECT_SECONDS)
        return PerfectPlayer(oracle, player.name)
    return player


def _search_for_a_turn(player: SearchPlayer) -> None:
    until = time.perf_counter() + _STEP_SECONDS
    while player.search.active and time.perf_counter() < until:
        player.poll()
