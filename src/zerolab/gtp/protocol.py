"""Go Text Protocol, version 2: command lines, responses, and moves as vertices.

A move is named after the cell where its stone ends up: a column letter, without I, and a row
number. Rows are numbered from the top, as in zerolab's board diagrams and in Othello and Hex
programs; numbering from the bottom would change the start position of Othello and the edges in Hex.
In games with falling stones, where an action is a column, rows are numbered from the bottom. A move
that places no stone has the name used by the game, such as "pass".
"""

from __future__ import annotations

import re
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


class Command(NamedTuple):
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


def parse_command(line: bytes) -> Command | None:
    """Return the command in a line, or None for empty lines and comments (section 2.6)."""
    text = line.translate(None, _CONTROL).partition(b"#")[0]
    parts = [word.decode(errors="replace") for word in text.split()]
    if not parts:
        return None
    number = parts.pop(0) if _is_integer(parts[0]) else ""
    return Command(number, parts[0] if parts else "", tuple(parts[1:]))


def format_response(command: Command, text: str, success: bool) -> bytes:
    """Return the response to a command, without empty lines, because these end a response.

    A text that begins with a newline, such as a diagram, starts on the line after the mark.
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


def vertex(position: Position, action: int) -> str:
    """Return the name of a legal action, such as "D3", or "pass"."""
    cell = _cells(position)[action]
    return position.name(action) if cell is None else _cell_name(position.game, cell)


def parse_vertex(position: Position, text: str) -> int:
    """Return the legal action named by a text, ignoring case.

    In games with falling stones, a column letter or number is sufficient. Raises GtpCommandError
    for illegal moves and for texts that are not moves.
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
            names[position.name(action).lower()] = action
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
