"""``gtp:"COMMAND"[?timeout=SECONDS]``: a program that speaks the Go Text Protocol."""

from __future__ import annotations

import re

from pydantic import Field

from zerolab.agents.interface import AGENT_KINDS, Access, Agent
from zerolab.agents.options import describe, parse_settings
from zerolab.core.config import Settings
from zerolab.core.errors import UserError
from zerolab.gtp.player import GtpPlayer
from zerolab.rules.interface import Game

_MAX_GAMES = 16  # of an engine, which has one board and replays a game to resume it
_QUOTED = re.compile(r"""(["'])(?P<command>.*)\1(\?(?P<options>.*))?""", re.DOTALL)
_PLAIN = re.compile(
    r"(?P<command>.*?)(\?(?P<options>timeout=.*))?", re.DOTALL
)  # a shell took the quotes


class ProgramOptions(Settings):
    """How an outside program is used."""

    timeout: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds after which an answer that has not come forfeits the game."""


class _Gtp:
    form = 'gtp:"COMMAND"'
    access: Access = "program"

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        text = argument.strip()
        found = _QUOTED.fullmatch(text) or _PLAIN.fullmatch(text)
        command = found["command"].strip() if found else ""
        if found is None or not command:
            raise UserError(f'"gtp:{argument}": expected a command, as in gtp:"gtp-rhino -l 2"')
        options = parse_settings(ProgramOptions, found["options"], ProgramOptions())
        name = f'gtp:"{command}"{describe(options, ProgramOptions())}'
        return Agent(
            name,
            lambda: GtpPlayer(game, command, options.timeout, name),
            max_games=_MAX_GAMES,
            game=game,
            identity=name,
        )


AGENT_KINDS.add("gtp", _Gtp())
