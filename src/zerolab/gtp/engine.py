"""Go Text Protocol engine that plays with an agent (see docs/gtp.md)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT_ACTION, Player, close_player
from zerolab.agents.analysis import MoveAnalysis, analyse_with_player, replay_moves
from zerolab.agents.baselines import PerfectPlayer
from zerolab.agents.network_players import SearchPlayer, prepare_for_one_game
from zerolab.core import __version__, streams
from zerolab.core.errors import UserError
from zerolab.gtp.protocol import (
    ILLEGAL_MOVE,
    PASS,
    SYNTAX_ERROR,
    GtpCommandError,
    colour_to_move,
    draw_board,
    forced_pass,
    format_response,
    format_vertex,
    parse_colour,
    parse_command,
    parse_integer,
    parse_vertex,
    read_lines,
)
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game


def analysis_lines(player: Player, position: Position, keys: NDArray[np.uint64]) -> list[str]:
    """Return one line per legal action of an ongoing position, from best to worst.

    Search players provide visits, prior and value (in [-1, 1], for the side to move). Perfect
    players provide the exact value (see `oracles.oracle.Oracle`). `keys`, uint64[1], is the random
    stream of the move.
    """
    analysis = analyse_with_player(player, [position], keys)[0]
    return [
        f"{format_vertex(position, move.action)} {_statistics(move)}" for move in analysis.moves
    ]


def _statistics(move: MoveAnalysis) -> str:
    if move.visits is None:
        return f"value {move.value}"
    return f"visits {move.visits} prior {move.prior:.4f} value {move.value:+.4f}"


_SLOT = np.zeros(1, np.int64)
_NUMBER = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})", re.ASCII)
_UNACCEPTABLE_SIZE = "unacceptable size"

logger = logging.getLogger(__name__)


class GtpEngine:
    """Engine that executes the commands of a controller.

    `make_player` creates a new player for a game. It is called again for a second player at the
    first analysis or `reg_genmove`, and when the board size changes; it, or the player's `start`,
    raises UserError for unsupported sizes. Random streams depend on `seed`, the number of games
    since the engine started, and the ply.
    """

    def __init__(self, game: Game, make_player: Callable[[Game], Player], seed: int = 0) -> None:
        self.is_running = True
        self._make_player = make_player
        self._seed = seed
        self._games = 0
        self._player = self._new_player(game)
        self._analyst: Player | None = None
        self._begin(game)

    def serve(self, reader: BinaryIO, writer: BinaryIO) -> None:
        """Respond to each line until the quit command or the end of input."""
        for line in read_lines(reader):
            writer.write(self.respond(line))
            writer.flush()
            if not self.is_running:
                return

    def respond(self, line: bytes) -> bytes:
        """Execute a line and return the response, which is empty for empty lines and comments."""
        command = parse_command(line)
        if command is None:
            return b""
        try:
            if command.name not in _COMMANDS:
                raise GtpCommandError("unknown command")
            return format_response(command, _COMMANDS[command.name](self, *command.arguments), True)
        except (GtpCommandError, UserError) as error:
            return format_response(command, str(error), False)
        except Exception as error:  # the controller needs a response even after an internal error
            logger.error("%s failed: %r", command.name, error)
            return format_response(command, f"internal error: {type(error).__name__}", False)

    def _new_player(self, game: Game) -> Player:
        """Return a new player that has begun a game."""
        player = prepare_for_one_game(self._make_player(game))
        try:
            player.start(1)
        except BaseException:
            close_player(player)
            raise
        return player

    def _begin(self, game: Game) -> None:
        """Return to the start position of a game; the player must also begin a new game."""
        self._positions = [Position.start(game)]
        self._games += 1
        self._reported: tuple[int, ...] = ()

    @property
    def _position(self) -> Position:
        return self._positions[-1]

    def _protocol_version(self, *_: str) -> str:
        return "2"

    def _name(self, *_: str) -> str:
        return f"zerolab {self._player.name}"

    def _version(self, *_: str) -> str:
        return __version__

    def _known_command(self, name: str = "", *_: str) -> str:
        return "true" if name in _COMMANDS else "false"

    def _list_commands(self, *_: str) -> str:
        return "\n".join(_COMMANDS)

    def _quit(self, *_: str) -> str:
        self.is_running = False
        return ""

    def _list_games(self, *_: str) -> str:
        return self._short_name

    def _set_game(self, *arguments: str) -> str:
        if "_".join(arguments).lower() != self._short_name:
            raise GtpCommandError("unsupported game")
        return ""

    def _zerolab_game(self, *_: str) -> str:
        return game_name(self._position.game)

    @property
    def _short_name(self) -> str:
        return game_name(self._position.game).partition(":")[0]

    def _boardsize(self, *arguments: str) -> str:
        """Set the board size: one number for a square board, or the numbers of rows and columns."""
        if len(arguments) not in (1, 2):
            raise GtpCommandError(SYNTAX_ERROR)
        sides = [parse_integer(word) for word in arguments]
        size = sides[0], sides[-1]
        if size == self._position.game[:2]:
            return self._clear_board()
        name, _, options = game_name(self._position.game).partition(":")
        board = ":".join([f"{size[0]}x{size[1]}", *options.split(":")[1:]])
        try:
            game = parse_game(f"{name}:{board}")
            player = self._new_player(game)
        except UserError:  # the current game continues
            raise GtpCommandError(_UNACCEPTABLE_SIZE) from None
        for replaced in (self._player, self._analyst):
            if replaced is not None:
                close_player(replaced)
        self._player, self._analyst = player, None
        self._begin(game)
        return ""

    def _clear_board(self, *_: str) -> str:
        self._begin(self._position.game)
        self._player.start(1)
        return ""

    def _komi(self, komi: str = "", *_: str) -> str:
        if not _NUMBER.fullmatch(komi):
            raise GtpCommandError(SYNTAX_ERROR)
        return ""

    def _play(self, colour: str = "", move: str = "", *_: str) -> str:
        mover = parse_colour(colour)
        if self._position.outcome is not None and move.lower() == PASS:
            self._positions.append(self._position)  # so that `undo` can take back this pass
            return ""
        position = self._with_mover(mover)
        self._positions.append(position.play(parse_vertex(position, move)))
        return ""

    def _genmove(self, colour: str = "", *_: str) -> str:
        mover = parse_colour(colour)
        if self._position.outcome is not None:
            self._positions.append(self._position)
            return PASS
        position = self._with_mover(mover)
        self._synchronise(position)
        action = self._choose(self._player, position)
        if action == FORFEIT_ACTION:
            return "resign"
        self._positions.append(position.play(action))
        return format_vertex(position, action)

    def _reg_genmove(self, colour: str = "", *_: str) -> str:
        if self._position.outcome is not None:
            parse_colour(colour)
            return PASS
        position = self._with_mover(parse_colour(colour))
        action = self._choose(self._analyst_at(position), position)
        return "resign" if action == FORFEIT_ACTION else format_vertex(position, action)

    def _undo(self, *_: str) -> str:
        if len(self._positions) == 1:
            raise GtpCommandError("cannot undo")
        self._positions.pop()
        return ""

    def _showboard(self, *_: str) -> str:
        return "\n" + draw_board(self._position)

    def _final_score(self, *_: str) -> str:
        if self._position.outcome is None:
            raise GtpCommandError("cannot score")
        score = compiled_rules.final_score(self._position.game, self._position.state)
        if score == 0:
            return "0"
        return f"{'B' if (score > 0) == self._position.first_to_move else 'W'}+{abs(score)}"

    def _time_settings(self, *arguments: str) -> str:
        _check_numbers(arguments, 3)
        return ""

    def _time_left(self, colour: str = "", *arguments: str) -> str:
        parse_colour(colour)
        _check_numbers(arguments, 2)
        return ""

    def _analyse(self, *colour: str) -> str:
        position = self._with_mover(parse_colour(colour[0])) if colour else self._position
        if position.outcome is not None:
            raise GtpCommandError("the game is over")
        if not isinstance(self._player, SearchPlayer | PerfectPlayer):
            raise GtpCommandError(f"{self._player.name} provides no analysis")
        analyst = self._analyst_at(position)
        return "\n".join(analysis_lines(analyst, position, self._keys(position)))

    def _choose(self, player: Player, position: Position) -> int:
        """Return a player's action, which is `FORFEIT_ACTION` if it forfeits."""
        return int(player.choose(_SLOT, position.state[None], self._keys(position))[0])

    def _analyst_at(self, position: Position) -> Player:
        """Return the player for analyses, set to the given position.

        It is separate from the player of the game, because moves would otherwise depend on earlier
        analyses through a shared search tree.
        """
        if self._analyst is None:
            self._analyst = prepare_for_one_game(self._make_player(position.game))
        replay_moves(self._analyst, [position])
        return self._analyst

    def _with_mover(self, colour: str) -> Position:
        """Return the position with `colour` to move.

        Some controllers omit passes, so the opponent passes automatically if it has no other move.
        """
        position = self._position
        if colour == colour_to_move(position):
            return position
        passing = forced_pass(position)
        if passing is None:
            raise GtpCommandError(ILLEGAL_MOVE)
        return position.play(passing)

    def _synchronise(self, position: Position) -> None:
        """Report new moves to the player; after an undo, replay all moves."""
        history, reported = position.history, len(self._reported)
        if history[:reported] != self._reported:
            self._player.reset(_SLOT)
            reported = 0
        for action in history[reported:]:
            self._player.advance(_SLOT, np.array([action]))
        self._reported = history

    def _keys(self, position: Position) -> np.ndarray:
        games, plies = np.array([self._games]), np.array([position.ply])
        return streams.stream_keys(self._seed, 0, games, plies, streams.MATCH_MOVE)


def _check_numbers(arguments: tuple[str, ...], count: int) -> None:
    if len(arguments) < count:
        raise GtpCommandError(SYNTAX_ERROR)
    for word in arguments[:count]:
        parse_integer(word)


_COMMANDS: dict[str, Callable[..., str]] = {
    "protocol_version": GtpEngine._protocol_version,
    "name": GtpEngine._name,
    "version": GtpEngine._version,
    "known_command": GtpEngine._known_command,
    "list_commands": GtpEngine._list_commands,
    "quit": GtpEngine._quit,
    "list_games": GtpEngine._list_games,
    "set_game": GtpEngine._set_game,
    "boardsize": GtpEngine._boardsize,
    "clear_board": GtpEngine._clear_board,
    "komi": GtpEngine._komi,
    "play": GtpEngine._play,
    "genmove": GtpEngine._genmove,
    "reg_genmove": GtpEngine._reg_genmove,
    "undo": GtpEngine._undo,
    "showboard": GtpEngine._showboard,
    "final_score": GtpEngine._final_score,
    "time_settings": GtpEngine._time_settings,
    "time_left": GtpEngine._time_left,
    "zerolab-game": GtpEngine._zerolab_game,
    "zerolab-analyze": GtpEngine._analyse,
}
