"""A search that grows while a page looks at it, and whose tree the page may walk through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from zerolab.agents.analysis import Analysis, describe, describe_search, follow, move_keys
from zerolab.agents.interface import Agent, Player
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.search_player import SearchPlayer, for_one_game
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.inspection import NodeView
from zerolab.web.folders import Folders
from zerolab.web.searches.players import Players, bytes_of
from zerolab.web.searches.solving import oracle_within

_SLOT = np.zeros(1, np.int64)
_STEP_SECONDS = 0.03
"""Of a turn in the queue, so that others wait for a few of them at most."""
_PERFECT_SECONDS = 3.0
"""Of a move of the agent `perfect`, which is one turn."""


class Wanted(NamedTuple):
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

    def __init__(self, wanted: Wanted) -> None:
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
        follow(player, at)
        if not isinstance(player, SearchPlayer):
            yield describe(player, at, keys)
            return
        player.submit(_SLOT, at.state[None], keys)
        self._player = player
        began = time.perf_counter()
        while player.search.active and not self._is_late(player, began):
            _search_for_a_turn(player)
            yield describe_search(player, at)
        action = int(player.decide(_SLOT)[0])
        found = describe_search(player, at)
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
