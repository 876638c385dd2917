"""``rhea:N``: rolling horizon evolution with N playouts a move, without a network."""

from __future__ import annotations

from zerolab.agents.interface import KINDS, Agent
from zerolab.agents.options import describe, parse_settings, split_options
from zerolab.agents.playouts import parse_playouts
from zerolab.arena.rhea import RheaPlayer
from zerolab.rules.interface import Game
from zerolab.search.rhea import RheaSettings


class _Rhea:
    form = "rhea:N"

    def game(self, argument: str) -> None:
        """See `Kind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `Kind.agent`."""
        head, text = split_options(argument)
        base = _unchecked(parse_playouts("rhea", head))
        options = parse_settings(RheaSettings, text, base)
        # Playouts given as an option have one spelling, too.
        name = f"rhea:{options.playouts}{describe(options, _unchecked(options.playouts))}"
        return Agent(name, lambda: RheaPlayer(game, name, options), game=game, identity=name)


def _unchecked(playouts: int) -> RheaSettings:
    """Return the defaults with a budget that may only suffice for another population."""
    return RheaSettings.model_construct(playouts=playouts)


KINDS.add("rhea", _Rhea())
