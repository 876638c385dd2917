"""Agents ``NAME:N[?OPTIONS]`` that search with N random playouts per move, without a network."""

from __future__ import annotations

from collections.abc import Callable

from zerolab.agents.interface import AGENT_KINDS, Access, Agent
from zerolab.agents.options import SearchOptions, describe, parse_options, split_options
from zerolab.agents.search_player import SearchPlayer, search_bytes
from zerolab.core.errors import UserError
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.interface import UniformEvaluator
from zerolab.search.settings import SearchSettings, mcts_settings, rave_settings

_MOST = 1_000_000


class PlayoutSearch:
    """A kind of agent; `settings` makes its search from the number of playouts."""

    access: Access = "nothing"

    def __init__(self, name: str, settings: Callable[[int], SearchSettings]) -> None:
        self.form = f"{name}:N"
        self._name = name
        self._settings = settings

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        head, text = split_options(argument)
        base = self._settings(parse_playouts(self._name, head))
        options = parse_options(SearchOptions, text, base)
        if options.leaf_evaluator.name == "network":
            raise UserError(
                f'leaf_evaluator = "network": {self._name} has no network;'
                " expected leaf_evaluator=playout"
            )
        # Playouts given as an option have one spelling too.
        plain = self._settings(options.simulations)
        name = f"{self._name}:{options.simulations}{describe(options, plain)}"

        def player() -> SearchPlayer:
            uniform = UniformEvaluator(rules.actions(game))
            return SearchPlayer(game, name, options.search, uniform, options.sampled_plies)

        memory = search_bytes(game, options.search)
        return Agent(name, player, memory, settings=options, game=game, identity=name)


def parse_playouts(name: str, head: str) -> int:
    """Return the number in ``NAME:N``; raise UserError for another text."""
    playouts = int(head) if head.isdecimal() and len(head) <= len(str(_MOST)) else 0
    if not 1 <= playouts <= _MOST:
        raise UserError(
            f'"{name}:{head}": expected a number of playouts from 1 to {_MOST}, as in {name}:100'
        )
    return playouts


AGENT_KINDS.add("mcts", PlayoutSearch("mcts", mcts_settings))
AGENT_KINDS.add("rave", PlayoutSearch("rave", rave_settings))
