"""``random``: uniformly random moves."""

from __future__ import annotations

from zerolab.agents.interface import KINDS, Agent
from zerolab.agents.options import refuse_options
from zerolab.arena.players import RandomPlayer
from zerolab.rules.interface import Game


class _Random:
    form = "random"

    def game(self, argument: str) -> None:
        """See `Kind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `Kind.agent`."""
        refuse_options(argument, "random")
        return Agent("random", lambda: RandomPlayer(game, "random"), game=game, identity="random")


KINDS.add("random", _Random())
