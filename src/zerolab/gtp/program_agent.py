"""Agents that run external engines, with specs of the form ``gtp:"COMMAND"[?timeout=SECONDS]``."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.agents.agent import (
    AGENT_KINDS,
    FORFEIT_ACTION,
    Agent,
    AgentKind,
    ExternalAccess,
    options_text,
    parse_options,
)
from zerolab.core.config import Settings
from zerolab.core.errors import UserError
from zerolab.gtp.protocol import (
    PASS,
    GtpClient,
    GtpCommandError,
    GtpEngineError,
    GtpResponseError,
    colour_to_move,
    excerpt,
    forced_pass,
    format_vertex,
    parse_vertex,
)
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

MAX_CONSECUTIVE_FAILURES = 3
"""Number of consecutive failures after which an engine is no longer restarted."""

logger = logging.getLogger(__name__)


class GtpPlayer:
    """Player that uses an external Go Text Protocol engine.

    A single engine process plays all games; when it switches to a different game, the moves of that
    game are replayed. An engine that crashes, does not respond within `timeout` seconds or plays an
    illegal move forfeits the current game, with a warning in the log. After a crash or a timeout,
    it is restarted for the other games, unless it has failed `MAX_CONSECUTIVE_FAILURES` times in a
    row; `close` resets this count. If a pass is the only legal action, the player passes without
    the engine.
    """

    def __init__(
        self, game: Game, command: str, timeout: float = 60.0, name: str | None = None
    ) -> None:
        self.name = name or f'gtp:"{command}"'
        self._game = game
        self._games: list[_Game] = []
        self._program = _Program(game, command, timeout)

    def start(self, games: int) -> None:
        """Begin games as in `Player.start`, reusing a running engine.

        Raises UserError if the engine cannot be started or does not support the game.
        """
        self._games = [_new_game(self._game) for _ in range(games)]
        try:
            self._program.start()
        except GtpEngineError as error:
            raise UserError(f"{self.name} cannot play {game_name(self._game)}: {error}") from None

    def reset(self, slots: NDArray[np.int64]) -> None:
        for slot in slots:
            self._games[slot] = _new_game(self._game)

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Request moves from the engine; `keys` have no effect."""
        return np.array([self._action(self._games[slot]) for slot in slots], np.int64)

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        for slot, action in zip(slots, actions, strict=True):
            position, moves = self._games[slot]
            move = _move(position, int(action))
            self._games[slot] = _Game(position.play(int(action)), (*moves, move))

    def close(self) -> None:
        """Terminate the process and forget its failures, so that `choose` can start it again.

        The process also ends when the player is garbage-collected.
        """
        self._program.stop()
        self._program.consecutive_failures = 0

    def interrupt(self) -> None:
        self._program.interrupt()

    def _action(self, game: _Game) -> int:
        passing = forced_pass(game.position)
        if passing is not None:
            return passing
        try:
            return self._program.choose(game)
        except _ForfeitError as reason:
            logger.warning(
                "%s forfeits a game of %s at ply %d: %s",
                self.name, game_name(self._game), game.position.ply, reason,
            )  # fmt: skip
            return FORFEIT_ACTION


class _Game(NamedTuple):
    """A position and the moves that led to it in protocol notation, such as "black D3"."""

    position: Position
    moves: tuple[str, ...]


class _ForfeitError(Exception):
    """Forfeit of a game by an engine, with the reason as the message."""


class _Program:
    """Engine process, and the moves played on its board."""

    def __init__(self, game: Game, command: str, timeout: float) -> None:
        self._game = game
        self._command = command
        self._timeout = timeout
        self._client: GtpClient | None = None
        self._interrupted = False
        self._board_moves: tuple[str, ...] | None = None
        self._accepts_passes = True
        self.consecutive_failures = 0

    def start(self) -> GtpClient:
        """Return a client for the running engine; start and set up the engine if necessary.

        Raises GtpEngineError on failure.
        """
        if self._client is not None:
            return self._client
        self._client = client = GtpClient(self._command, self._timeout)
        self._board_moves = None
        if self._interrupted:  # `interrupt` was called before the client existed
            client.interrupt()
        try:
            _set_up(client, self._game)
        except GtpEngineError:
            self.stop()
            raise
        return client

    def interrupt(self) -> None:
        """Kill the engine and prevent restarts."""
        self._interrupted = True
        if self._client is not None:
            self._client.interrupt()

    def stop(self) -> None:
        """Terminate the process."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def choose(self, game: _Game) -> int:
        """Return the engine's legal action in an ongoing game; raise _ForfeitError on failure.

        Raises GtpEngineError if the engine was interrupted.
        """
        if self._interrupted:
            raise GtpEngineError("it was interrupted")
        if self.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            raise _ForfeitError(f"it failed {MAX_CONSECUTIVE_FAILURES} times in a row")
        try:
            client = self.start()
            self._replay(client, game.moves)
            text = client.request(f"genmove {colour_to_move(game.position)}")
        except GtpResponseError as error:
            raise _ForfeitError(str(error)) from None
        except GtpEngineError as error:
            self.consecutive_failures += 1
            self.stop()
            if self._interrupted:
                raise
            raise _ForfeitError(str(error)) from None
        self.consecutive_failures = 0
        return self._parse_move(game, text)

    def _replay(self, client: GtpClient, moves: tuple[str, ...]) -> None:
        """Play the moves of a game on the engine's board, except those already played there."""
        played, self._board_moves = self._board_moves, None
        if played is None or moves[: len(played)] != played:
            client.request("clear_board")
            played = ()
        for move in moves[len(played) :]:
            self._play(client, move)
        self._board_moves = moves

    def _play(self, client: GtpClient, move: str) -> None:
        is_pass = move.endswith(PASS)
        if is_pass and not self._accepts_passes:
            return
        try:
            client.request(f"play {move}")
        except GtpResponseError:
            if not is_pass:
                raise
            # Some engines, such as gtp-rhino, pass automatically and reject explicit passes.
            self._accepts_passes = False

    def _parse_move(self, game: _Game, text: str) -> int:
        self._board_moves = None
        if text.lower() == "resign":
            raise _ForfeitError("it resigned")
        try:
            action = parse_vertex(game.position, text)
        except GtpCommandError:
            raise _ForfeitError(f'it played "{excerpt(text)}", which is not legal') from None
        self._board_moves = (*game.moves, _move(game.position, action))
        return action


def _new_game(game: Game) -> _Game:
    return _Game(Position.start(game), ())


def _move(position: Position, action: int) -> str:
    return f"{colour_to_move(position)} {format_vertex(position, action)}"


def _set_up(client: GtpClient, game: Game) -> None:
    """Set up an engine for a game; raise GtpEngineError if the engine does not support the game."""
    commands = _request_optional(client, "list_commands").split()
    full_name = game_name(game)
    if "list_games" in commands:
        _choose_game(client, full_name.partition(":")[0])
    rows, columns = game[:2]
    client.request(f"boardsize {rows}" if rows == columns else f"boardsize {rows} {columns}")
    client.request("clear_board")
    if "zerolab-game" in commands and client.request("zerolab-game") != full_name:
        raise GtpEngineError(f"it plays {client.request('zerolab-game')}")


def _choose_game(client: GtpClient, short_name: str) -> None:
    """Choose a game unless the engine cannot list its games."""
    games = _request_optional(client, "list_games").splitlines()
    for name in games:
        if "_".join(name.lower().split()) == short_name:
            client.request(f"set_game {name}")
            return
    if games:
        raise GtpEngineError(f"it plays {', '.join(games)}")


def _request_optional(client: GtpClient, command: str) -> str:
    try:
        return client.request(command)
    except GtpResponseError:
        return ""


_MAX_GAMES = 16  # per engine, which has only one board and must replay a game to resume it
_WORDS = re.compile(  # quotes around the first word and the end, as in "a program" --file "b c"
    r"""
    (?P<command>
        (["']) (\\.|(?!\2)[^\\])* \2  # up to the first closing quote
        \s (.*[\s=])?
        (["']) (\\.|(?!\5)[^\\])* \5
    )
    (\?(?P<options>.*))?
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTED = re.compile(r"""(["'])(?P<command>.*)\1(\?(?P<options>.*))?""", re.DOTALL)
_UNQUOTED = re.compile(  # in case a shell has removed the quotes
    r"(?P<command>.*?)(\?(?P<options>timeout=.*))?", re.DOTALL
)


class ProgramOptions(Settings):
    """Options of an external program."""

    timeout: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds to wait for a response before the program forfeits the game."""


class _Gtp(AgentKind):
    """External program that supports the Go Text Protocol."""

    spec_form = 'gtp:"COMMAND"'
    external_access: ExternalAccess = "program"

    def new_agent(self, argument: str, game: Game) -> Agent:
        text = argument.strip()
        match = _WORDS.fullmatch(text) or _QUOTED.fullmatch(text) or _UNQUOTED.fullmatch(text)
        command = match["command"].strip() if match else ""
        if match is None or not command:
            raise UserError(f'"gtp:{argument}": expected a command, as in gtp:"gtp-rhino -l 2"')
        options = parse_options(ProgramOptions, match["options"], ProgramOptions())
        name = f'gtp:"{command}"{options_text(options, ProgramOptions())}'
        return Agent(
            name,
            lambda: GtpPlayer(game, command, options.timeout, name),
            max_games_per_player=_MAX_GAMES,
            game=game,
            identity=name,
        )


AGENT_KINDS.add("gtp", _Gtp())
