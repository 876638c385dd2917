"""``gtp:"COMMAND"[?timeout=SECONDS]``: an outside engine as an agent."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.agents.agent import AGENT_KINDS, FORFEIT, Access, Agent, AgentKind
from zerolab.agents.options import options_text, parse_settings
from zerolab.core.config import Settings
from zerolab.core.errors import UserError
from zerolab.gtp.client import Client, EngineError, EngineRefusedError, quote
from zerolab.gtp.protocol import (
    FIRST,
    PASS,
    SECOND,
    RefusedError,
    forced_pass,
    parse_vertex,
    vertex,
)
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

FAILURES_IN_A_ROW = 3
"""Failures without a move in between after which an engine is not restarted."""

logger = logging.getLogger(__name__)


class GtpPlayer:
    """Plays the moves of an outside engine of the Go Text Protocol.

    One process of the engine plays all games in turn; before a move in another game, that game's
    moves are replayed. An engine that crashes, does not answer within `timeout` seconds or plays an
    illegal move forfeits the current game, with a warning in the log, and is restarted for the
    others. If a pass is the only legal action, the engine is not asked.
    """

    def __init__(
        self, game: Game, command: str, timeout: float = 60.0, name: str | None = None
    ) -> None:
        self.name = name or f'gtp:"{command}"'
        self._game = game
        self._games: list[_Game] = []
        self._program = _Program(game, command, timeout)

    def start(self, games: int) -> None:
        """See `Player.start`; an engine that is running is kept.

        Raises UserError where the engine cannot be run, or does not play this game.
        """
        self._games = [_begun(self._game) for _ in range(games)]
        try:
            self._program.start()
        except EngineError as error:
            raise UserError(f"{self.name} cannot play {game_name(self._game)}: {error}") from None

    def reset(self, slots: NDArray[np.int64]) -> None:
        for slot in slots:
            self._games[slot] = _begun(self._game)

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Ask the engine for its moves; it does not use `keys`."""
        return np.array([self._action(self._games[slot]) for slot in slots], np.int64)

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        for slot, action in zip(slots, actions, strict=True):
            position, moves = self._games[slot]
            move = _move(position, int(action))
            self._games[slot] = _Game(position.play(int(action)), (*moves, move))

    def close(self) -> None:
        """End the process; it ends with the player too."""
        self._program.stop()

    def interrupt(self) -> None:
        self._program.interrupt()

    def _action(self, game: _Game) -> int:
        passed = forced_pass(game.position)
        if passed is not None:
            return passed
        try:
            return self._program.choose(game)
        except _ForfeitError as reason:
            logger.warning(
                "%s forfeits a game of %s at ply %d: %s",
                self.name, game_name(self._game), game.position.ply, reason,
            )  # fmt: skip
            return FORFEIT


class _Game(NamedTuple):
    """A game and the protocol's names of its moves, such as "black D3"."""

    position: Position
    moves: tuple[str, ...]


class _ForfeitError(Exception):
    """An engine gives up a game; the message says why."""


class _Program:
    """The process of an engine, and the moves on its board."""

    def __init__(self, game: Game, command: str, timeout: float) -> None:
        self._game = game
        self._command = command
        self._timeout = timeout
        self._client: Client | None = None
        self._interrupted = False
        self._shown: tuple[str, ...] | None = None
        self._takes_passes = True
        self._failures = 0

    def start(self) -> Client:
        """Return the engine, started if necessary and set up for the game.

        Raises EngineError otherwise.
        """
        if self._client is not None:
            return self._client
        self._client = client = Client(self._command, self._timeout)
        self._shown = None
        if self._interrupted:  # before there was anything to interrupt
            client.interrupt()
        try:
            _agree(client, self._game)
        except EngineError:
            self.stop()
            raise
        return client

    def interrupt(self) -> None:
        """End the engine at once and permanently."""
        self._interrupted = True
        if self._client is not None:
            self._client.interrupt()

    def stop(self) -> None:
        """End the process."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def choose(self, game: _Game) -> int:
        """Return the engine's legal action in an ongoing game; raise _ForfeitError otherwise."""
        if self._interrupted:
            raise EngineError("it was interrupted")
        if self._failures >= FAILURES_IN_A_ROW:
            raise _ForfeitError(f"it failed {FAILURES_IN_A_ROW} times in a row")
        try:
            client = self.start()
            self._show(client, game.moves)
            text = client.ask(f"genmove {_mover(game.position)}")
        except EngineRefusedError as error:
            raise _ForfeitError(str(error)) from None
        except EngineError as error:
            self._failures += 1
            self.stop()
            if self._interrupted:
                raise
            raise _ForfeitError(str(error)) from None
        self._failures = 0
        return self._read(game, text)

    def _show(self, client: Client, moves: tuple[str, ...]) -> None:
        """Replay a game on the engine's board, from its current position if possible."""
        shown, self._shown = self._shown, None
        if shown is None or moves[: len(shown)] != shown:
            client.ask("clear_board")
            shown = ()
        for move in moves[len(shown) :]:
            self._play(client, move)
        self._shown = moves

    def _play(self, client: Client, move: str) -> None:
        is_pass = move.endswith(PASS)
        if is_pass and not self._takes_passes:
            return
        try:
            client.ask(f"play {move}")
        except EngineRefusedError:
            if not is_pass:
                raise
            # Some engines, gtp-rhino among them, pass by themselves and refuse a pass from outside.
            self._takes_passes = False

    def _read(self, game: _Game, text: str) -> int:
        self._shown = None
        if text.lower() == "resign":
            raise _ForfeitError("it resigned")
        try:
            action = parse_vertex(game.position, text)
        except RefusedError:
            raise _ForfeitError(f'it played "{quote(text)}", which is not legal') from None
        self._shown = (*game.moves, _move(game.position, action))
        return action


def _begun(game: Game) -> _Game:
    return _Game(Position.start(game), ())


def _mover(position: Position) -> str:
    return FIRST if position.first_to_move else SECOND


def _move(position: Position, action: int) -> str:
    return f"{_mover(position)} {vertex(position, action)}"


def _agree(client: Client, game: Game) -> None:
    """Set up an engine for a game; raise EngineError if it does not play it."""
    commands = _optional(client, "list_commands").split()
    full = game_name(game)
    if "list_games" in commands:
        games = _optional(client, "list_games").splitlines()
        _choose_game(client, full.partition(":")[0], games)
    rows, columns = game[:2]
    client.ask(f"boardsize {rows}" if rows == columns else f"boardsize {rows} {columns}")
    client.ask("clear_board")
    if "zerolab-game" in commands and client.ask("zerolab-game") != full:
        raise EngineError(f"it plays {client.ask('zerolab-game')}")


def _choose_game(client: Client, wanted: str, games: list[str]) -> None:
    for name in games:
        if "_".join(name.lower().split()) == wanted:
            client.ask(f"set_game {name}")
            return
    raise EngineError(f"it plays {', '.join(games)}")


def _optional(client: Client, command: str) -> str:
    try:
        return client.ask(command)
    except EngineRefusedError:
        return ""


_MAX_GAMES = 16  # of an engine, which has one board and replays a game to resume it
_QUOTED = re.compile(r"""(["'])(?P<command>.*)\1(\?(?P<options>.*))?""", re.DOTALL)
_PLAIN = re.compile(
    r"(?P<command>.*?)(\?(?P<options>timeout=.*))?", re.DOTALL
)  # a shell took the quotes


class ProgramOptions(Settings):
    """Options of an outside program."""

    timeout: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds to wait for an answer before the game is forfeited."""


class _Gtp(AgentKind):
    """An outside program that speaks the Go Text Protocol."""

    form = 'gtp:"COMMAND"'
    access: Access = "program"

    def agent(self, argument: str, game: Game) -> Agent:
        text = argument.strip()
        found = _QUOTED.fullmatch(text) or _PLAIN.fullmatch(text)
        command = found["command"].strip() if found else ""
        if found is None or not command:
            raise UserError(f'"gtp:{argument}": expected a command, as in gtp:"gtp-rhino -l 2"')
        options = parse_settings(ProgramOptions, found["options"], ProgramOptions())
        name = f'gtp:"{command}"{options_text(options, ProgramOptions())}'
        return Agent(
            name,
            lambda: GtpPlayer(game, command, options.timeout, name),
            max_games=_MAX_GAMES,
            game=game,
            identity=name,
        )


AGENT_KINDS.add("gtp", _Gtp())
