"""``gtp:"COMMAND"``: a program that speaks the Go Text Protocol."""

from __future__ import annotations

from zerolab.agents.interface import AGENT_KINDS, Agent
from zerolab.core.errors import UserError
from zerolab.gtp.player import GtpPlayer
from zerolab.rules.interface import Game

_MAX_GAMES = 16  # of an engine, which has one board and replays a game to go on with it


class _Gtp:
    form = 'gtp:"COMMAND"'

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        command = argument.strip()
        if len(command) > 1 and command[0] == command[-1] and command[0] in "\"'":
            command = command[1:-1].strip()
        if not command:
            raise UserError(f'"gtp:{argument}": expected a command, as in gtp:"gtp-rhino -l 2"')
        return Agent(
            f'gtp:"{command}"',
            lambda: GtpPlayer(game, command),
            max_games=_MAX_GAMES,
            game=game,
            identity=f'gtp:"{command}"',
        )


AGENT_KINDS.add("gtp", _Gtp())
