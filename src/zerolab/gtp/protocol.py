"""Go Text Protocol, version 2: command lines, responses, moves as vertices, and a client.

A move is named after the cell where its stone ends up: a column letter, which is never I, and a row
number. Rows are numbered from the top, as in zerolab's board diagrams and in Othello and Hex
programs; numbering from the bottom would change the start position of Othello and the edges in Hex.
In games with falling stones, where an action is a column, rows are numbered from the bottom. A move
that places no stone has the name used by the game, such as "pass". The client talks to external
engines, which run as child processes.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import time
import weakref
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from zerolab.rules import compiled_rules, rules
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

MAX_LINE_BYTES = 1 << 14
"""Maximum length of a line; the rest of a longer line is ignored."""

SYNTAX_ERROR = "syntax error"
ILLEGAL_MOVE = "illegal move"

FIRST, SECOND = "black", "white"
_COLOURS = {
    "black": FIRST, "b": FIRST, "first": FIRST,
    "white": SECOND, "w": SECOND, "second": SECOND,
}  # fmt: skip
_CONTROL = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_MAX_INTEGER = (1 << 31) - 1


class GtpCommandError(Exception):
    """Error for a command that cannot be executed; its message is the error response."""


class GtpCommand(NamedTuple):
    """A parsed command line."""

    id: str
    """Command ID to repeat in the response, or an empty string."""
    name: str
    arguments: tuple[str, ...]


def read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield all lines of a stream, terminated or not, truncated to MAX_LINE_BYTES."""
    while line := stream.readline(MAX_LINE_BYTES):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES)
        yield line


def parse_command(line: bytes) -> GtpCommand | None:
    """Return the command in a line, or None for empty lines and comments (section 2.6)."""
    text = line.removeprefix(BOM_UTF8).translate(None, _CONTROL).partition(b"#")[0]
    parts = [word.decode(errors="replace") for word in text.split()]
    if not parts:
        return None
    number = parts.pop(0) if _is_integer(parts[0]) else ""
    return GtpCommand(number, parts[0] if parts else "", tuple(parts[1:]))


def format_response(command: GtpCommand, text: str, success: bool) -> bytes:
    """Return the response to a command, without empty lines, which would end the response early.

    Text that begins with a newline, such as a diagram, starts on the line after the mark.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    body = "\n".join(lines).encode(errors="replace").translate(None, _CONTROL)
    separator = b"\n" if text.startswith("\n") else b" "
    mark = b"=" if success else b"?"
    return mark + command.id.encode() + (separator + body if body else b"") + b"\n\n"


def parse_colour(word: str) -> str:
    """Return FIRST or SECOND; raise GtpCommandError for anything else."""
    if word.lower() not in _COLOURS:
        raise GtpCommandError(SYNTAX_ERROR)
    return _COLOURS[word.lower()]


def parse_integer(word: str) -> int:
    """Return a non-negative integer; raise GtpCommandError for anything else."""
    if not _is_integer(word):
        raise GtpCommandError(SYNTAX_ERROR)
    return int(word)


def _is_integer(word: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,10}", word)) and int(word) <= _MAX_INTEGER


PASS = "pass"
_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
_VERTEX = re.compile("pass|[a-hj-z][0-9]{1,2}")
_COLUMN_OR_VERTEX = re.compile("pass|[a-hj-z][0-9]{0,2}|[0-9]{1,2}")
_STONES = {1: "X", -1: "O", 0: "."}


def colour_to_move(position: Position) -> str:
    """Return FIRST or SECOND for the side to move."""
    return FIRST if position.first_to_move else SECOND


def format_vertex(position: Position, action: int) -> str:
    """Return the name of a legal action, such as "D3", or "pass"."""
    cell = _cells(position)[action]
    return position.action_name(action) if cell is None else _cell_name(position.game, cell)


def parse_vertex(position: Position, text: str) -> int:
    """Return the legal action named by `text`, ignoring case.

    In games with falling stones, a column letter or number is sufficient. Raises GtpCommandError
    for an illegal move and for text that is not a move.
    """
    names = _names(position)
    if text.lower() not in names:
        form = _COLUMN_OR_VERTEX if _stones_fall(position.game) else _VERTEX
        raise GtpCommandError(ILLEGAL_MOVE if form.fullmatch(text.lower()) else SYNTAX_ERROR)
    return names[text.lower()]


def _names(position: Position) -> dict[str, int]:
    """Return the legal actions by name in lower case; an action can have several names."""
    names = {}
    for action, cell in _cells(position).items():
        if cell is None or _stones_fall(position.game):
            names[position.action_name(action).lower()] = action
        if cell is not None:
            name = _cell_name(position.game, cell).lower()
            names[name] = action
            if _stones_fall(position.game):
                names[name[0]] = action
    return names


def forced_pass(position: Position) -> int | None:
    """Return the pass if it is the only legal action, otherwise None."""
    return position.legal_actions[0] if position.legal_moves == [PASS] else None


def draw_board(position: Position) -> str:
    """Draw the board with row and column labels on all sides; X plays first."""
    letters = " ".join(_LETTERS[: position.game[1]])
    lines = [f"   {letters}"]
    for row, stones in enumerate(position.board()):
        number = _row_number(position.game, row)
        cells = " ".join(_STONES[int(stone)] for stone in stones)
        lines.append(f"{number:2} {cells} {number}")
    return "\n".join([*lines, f"   {letters}"])


def _cells(position: Position) -> dict[int, int | None]:
    """Return the cell of the stone placed by each legal action, or None if it places no stone.

    Cells are numbered row * columns + column.
    """
    game, actions = position.game, position.legal_actions
    if not actions:
        return {}
    states = np.stack([compiled_rules.apply(game, position.state, action) for action in actions])
    occupied = compiled_rules.encode_batch(game, states)[:, 0].reshape(len(actions), -1) != 0
    new_stones = occupied & (position.board().reshape(-1) == 0)
    return {
        action: int(cells.argmax()) if cells.sum() == 1 else None
        for action, cells in zip(actions, new_stones, strict=True)
    }


def _cell_name(game: Game, cell: int) -> str:
    row, column = divmod(cell, game[1])
    return f"{_LETTERS[column]}{_row_number(game, row)}"


def _row_number(game: Game, row: int) -> int:
    return game[0] - row if _stones_fall(game) else row + 1


def _stones_fall(game: Game) -> bool:
    return rules.action_count(game) == int(game[1])


MAX_RESPONSE_BYTES = 1 << 20
"""Maximum size of a response; longer responses are treated as invalid."""

_GAMES_FOLDER = "/usr/games"  # used by Debian for engines such as gtp-rhino; often not on PATH
_QUIT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_MAX_EXCERPT = 60
_CHUNK = 1 << 16


class GtpEngineError(Exception):
    """Error for an engine that is missing, has exited, hangs, or sends invalid output."""


class GtpResponseError(GtpEngineError):
    """Error response from an engine to a command; the engine keeps running."""


class GtpClient:
    """Connection to an engine, closed by any GtpEngineError except GtpResponseError.

    The command line is split with shell rules but run without a shell. The program runs in a
    separate process group, which is killed when the client is closed or garbage-collected, and when
    this process exits. Requires a POSIX system.
    """

    def __init__(self, command: str, timeout: float) -> None:
        self.command = command
        self._timeout = timeout
        self._buffer = b""
        self._stderr = b""
        self._interrupted = False
        self._process = _spawn(command)
        self._terminate = weakref.finalize(self, _terminate, self._process)
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ)

    def request(self, command: str) -> str:
        """Send a command and return the text of the response.

        Raises GtpResponseError if the engine responds with an error. Raises GtpEngineError if it
        does not respond in time, has exited, or prints anything other than a response.
        """
        if not self._terminate.alive:
            raise GtpEngineError("it has exited")
        try:
            self._send(command)
            text = self._receive(command)
        except GtpEngineError:
            self._terminate()
            raise
        if text.startswith("?"):
            raise GtpResponseError(f'it responded "{excerpt(text)}" to "{command}"')
        return text[1:].strip()

    def close(self) -> None:
        """Send quit, wait up to a second, and kill the engine and its child processes."""
        if not self._terminate.alive:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._write("quit")
            self._process.stdin.close()
            deadline = time.monotonic() + _QUIT_SECONDS
            while self._read(deadline) and time.monotonic() < deadline:
                pass
        self._terminate()

    def interrupt(self) -> None:
        """Kill the engine, so that a thread waiting for it raises GtpEngineError."""
        self._interrupted = True
        _kill(self._process)

    def _send(self, command: str) -> None:
        is_running = self._read(time.monotonic())
        if self._buffer.strip():
            raise GtpEngineError(f'it printed "{excerpt(self._buffer)}" without a command')
        self._buffer = b""
        try:
            self._write(command)
        except OSError:
            is_running = False
        if not is_running:
            raise GtpEngineError(self._exit_message())

    def _write(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")

    def _receive(self, command: str) -> str:
        deadline = time.monotonic() + self._timeout
        while True:
            is_running = self._read(deadline)
            self._buffer = self._buffer.replace(b"\r", b"").lstrip(b"\n")
            if self._buffer and self._buffer[:1] not in (b"=", b"?"):
                raise GtpEngineError(f'it printed "{excerpt(self._buffer)}" instead of a response')
            text, end, rest = self._buffer.partition(b"\n\n")
            if end:
                self._buffer = rest
                return text.decode(errors="replace")
            if len(self._buffer) > MAX_RESPONSE_BYTES:
                raise GtpEngineError(f'its response to "{command}" is too long')
            if self._interrupted:
                raise GtpEngineError("it was interrupted")
            if not is_running:
                raise GtpEngineError(self._exit_message())
            if time.monotonic() >= deadline:
                raise GtpEngineError(f'no response to "{command}" within {self._timeout:g} seconds')

    def _read(self, deadline: float) -> bool:
        """Wait briefly for output; return False once the engine has closed its output."""
        wait = min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))
        for key, _ in self._selector.select(wait):
            chunk = os.read(key.fd, _CHUNK)
            if key.fileobj is self._process.stderr:
                self._stderr = (self._stderr + chunk)[-_CHUNK:]
            else:
                self._buffer += chunk
            if not chunk:
                self._selector.unregister(key.fileobj)
        return self._process.stdout in self._selector.get_map()

    def _exit_message(self) -> str:
        """Return an error message for an engine that exited, with the last line of its stderr."""
        deadline = time.monotonic() + _QUIT_SECONDS
        while self._selector.get_map() and time.monotonic() < deadline:
            self._read(deadline)
        lines = [line for line in self._stderr.decode(errors="replace").split("\n") if line.strip()]
        return f'it exited with the message "{excerpt(lines[-1])}"' if lines else "it has exited"


def _spawn(command: str) -> subprocess.Popen[bytes]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise GtpEngineError(f"invalid command: {error}") from None
    if not arguments:
        raise GtpEngineError("the command is empty")
    folders = os.environ.get("PATH", os.defpath) + os.pathsep + _GAMES_FOLDER
    arguments[0] = shutil.which(arguments[0], path=folders) or arguments[0]
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError for a null byte in the command
        reason = getattr(error, "strerror", None) or error
        raise GtpEngineError(f"{arguments[0]} cannot be started: {reason}") from None


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of an engine; the group ID stays valid until `wait`."""
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            stream.close()  # type: ignore[union-attr]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def excerpt(text: bytes | str) -> str:
    """Return the beginning of `text` as one line of printable characters."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    line = "".join(each if each.isprintable() else " " for each in decoded.strip())
    return line if len(line) <= _MAX_EXCERPT else line[: _MAX_EXCERPT - 3] + "..."
