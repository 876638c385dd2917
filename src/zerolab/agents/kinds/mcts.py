"""``mcts:N``: UCT with N random playouts a move, without a network."""

from __future__ import annotations

from zerolab.agents.interface import KINDS, Agent
from zerolab.agents.options import SearchOptions, describe, parse_options, split_options
from zerolab.arena.players import SearchPlayer, search_bytes
from zerolab.core.errors import UserError
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.interface import UniformEvaluator
from zerolab.search.settings import mcts_settings

_MOST = 1_000_000


class _Mcts:
    form = "mcts:N"

    def game(self, argument: str) -> None:
        """See `Kind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `Kind.agent`."""
        head, text = split_options(argument)
        playouts = int(head) if head.isdecimal() and len(head) <= len(str(_MOST)) else 0
        if not 1 <= playouts <= _MOST:
            raise UserError(
                f'"mcts:{head}": expected a number of playouts from 1 to {_MOST}, as in mcts:100'
            )
        base = mcts_settings(playouts)
        options = parse_options(SearchOptions, text, base)
        if options.leaf.name == "network":
            raise UserError('leaf = "network": mcts has no network; expected leaf=playout')
        # Playouts given as an option have one spelling, too.
        plain = mcts_settings(options.simulations)
        name = f"mcts:{options.simulations}{describe(options, plain)}"

        def player() -> SearchPlayer:
            uniform = UniformEvaluator(rules.actions(game))
            return SearchPlayer(game, name, options.search, uniform, options.sampled_plies)

        memory = search_bytes(game, options.search)
        return Agent(name, player, memory, game=game, identity=name)


KINDS.add("mcts", _Mcts())
