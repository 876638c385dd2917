"""The Go Text Protocol, version 2: lines, responses, and moves as vertices.

A move is named by the cell on which its stone stands afterwards: a column's letter, without I, and
a row's number. Rows are counted from the top, as zerolab prints boards and as programs for Othello
and Hex do (their first positions and edges are not alike seen from below); where stones fall, that
is where an action is a column, they are counted from the floor. A move that puts no stone has the
game's own name for it, such as "pass".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from zerolab.rules import python, rules
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

LONGEST_LINE = 1 << 14
"""Bytes of a line that are read; the rest is ignored."""

SYNTAX_ERROR = "syntax error"
ILLEGAL_MOVE = "illegal move"

FIRST, SECOND = "black", "white"
_COLOURS = {
    "black": FIRST, "b": FIRST, "first": FIRST,
    "white": SECOND, "w": SECOND, "second": SECOND,
}  # fmt: skip
_CONTROL = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_LARGEST = (1 << 31) - 1


class RefusedError(Exception):
    """A command cannot be obeyed; the message follows the question mark of the response."""


class Command(NamedTuple):
    """A command line of a controller."""

    id: str
    """Digits to repeat in the response, or empty."""
    name: str
    arguments: tuple[str, ...]


def read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream, an unfinished last one too, each cut to LONGEST_LINE bytes."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line


def parse_command(line: bytes) -> Command | None:
    """Return the command of a line; None where it is empty or only a comment (section 2.6)."""
    text = line.translate(None, _CONTROL).partition(b"#")[0]
    parts = [word.decode(errors="replace") for word in text.split()]
    if not parts:
        return None
    number = parts.pop(0) if _is_integer(parts[0]) else ""
    return Command(number, parts[0] if parts else "", tuple(parts[1:]))


def format_response(command: Command, text: str, success: bool) -> bytes:
    """Return the response to a command; empty lines, which would end it, are left out.

    A text that begins with a new line stands below the mark, as diagrams do.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    body = "\n".join(lines).encode(errors="replace").translate(None, _CONTROL)
    separator = b"\n" if text.startswith("\n") else b" "
    mark = b"=" if success else b"?"
    return mark + command.id.encode() + (separator + body if body else b"") + b"\n\n"


def parse_colour(word: str) -> str:
    """Return FIRST or SECOND; raise RefusedError for anything else."""
    if word.lower() not in _COLOURS:
        raise RefusedError(SYNTAX_ERROR)
    return _COLOURS[word.lower()]


def parse_number(word: str) -> int:
    """Return a non-negative integer; raise RefusedError for anything else."""
    if not _is_integer(word):
        raise RefusedError(SYNTAX_ERROR)
    return int(word)


def _is_integer(word: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,10}", word)) and int(word) <= _LARGEST


PASS = "pass"
_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
_VERTEX = re.compile("pass|[a-hj-z][0-9]{1,2}")
_COLUMN_OR_VERTEX = re.compile("pass|[a-hj-z][0-9]{0,2}|[0-9]{1,2}")
_STONES = {1: "X", -1: "O", 0: "."}


def vertex(position: Position, action: int) -> str:
    """Return the name of a legal action, such as "D3", or "pass"."""
    cell = _cells(position)[action]
    return position.name(action) if cell is None else _cell_name(position.game, cell)


def parse_vertex(position: Position, text: str) -> int:
    """Return the legal action that a text names; upper and lower case are the same.

    Where stones fall a column's letter or number is enough. Raises RefusedError for an illegal
    move, and for what cannot be a move at all.
    """
    names = _names(position)
    if text.lower() not in names:
        form = _COLUMN_OR_VERTEX if _stones_fall(position.game) else _VERTEX
        raise RefusedError(ILLEGAL_MOVE if form.fullmatch(text.lower()) else SYNTAX_ERROR)
    return names[text.lower()]


def _names(position: Position) -> dict[str, int]:
    """Return all names of the legal actions, in lower case."""
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
    """Return the pass if it is the only legal action."""
    return position.legal_actions[0] if position.legal_moves == [PASS] else None


def draw_board(position: Position) -> str:
    """Draw the board with the names of rows and columns on all sides; X plays first."""
    letters = " ".join(_LETTERS[: position.game[1]])
    lines = [f"   {letters}"]
    for row, stones in enumerate(position.board()):
        number = _row_number(position.game, row)
        cells = " ".join(_STONES[int(stone)] for stone in stones)
        lines.append(f"{number:2} {cells} {number}")
    return "\n".join([*lines, f"   {letters}"])


def _cells(position: Position) -> dict[int, int | None]:
    """Return the cell of each legal action's stone, row * columns + column, None without one."""
    game, actions = position.game, position.legal_actions
    if not actions:
        return {}
    states = np.stack([python.apply(game, position.state, action) for action in actions])
    taken = python.encode_batch(game, states)[:, 0].reshape(len(actions), -1) != 0
    fresh = taken & (position.board().reshape(-1) == 0)
    return {
        action: int(cells.argmax()) if cells.sum() == 1 else None
        for action, cells in zip(actions, fresh, strict=True)
    }


def _cell_name(game: Game, cell: int) -> str:
    row, column = divmod(cell, game[1])
    return f"{_LETTERS[column]}{_row_number(game, row)}"


def _row_number(game: Game, row: int) -> int:
    return game[0] - row if _stones_fall(game) else row + 1


def _stones_fall(game: Game) -> bool:
    return rules.actions(game) == int(game[1])
