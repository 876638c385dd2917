"""Content of images of positions: pieces, last move, pieces that won, hints on moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.report.board_svg import Board, Hint
from zerolab.rules.catalogue import drawing_of, notation_of
from zerolab.rules.drawing import winning_cells
from zerolab.rules.encoding import action_layout

if TYPE_CHECKING:
    from zerolab.rules.position import Position


def board_of(position: Position, hints: Mapping[int, Hint] | None = None) -> Board:
    """Return a position as an image shows it, with hints on the moves with the given actions."""
    game, drawing = position.game, drawing_of(position.game)
    notation, cells = notation_of(game), _move_cells(position)
    moves = ", ".join(position.name(action) for action in position.history)
    return Board(
        drawing,
        [notation.column_label(game, column) for column in range(game[1])],
        position.board().ravel().tolist(),
        status(position),
        _side(position),
        f"{status(position)} Moves: {moves}." if moves else status(position),
        _last_cell(position),
        winning_cells(game, position.state) if drawing.decided_by == "line" else [],
        {cells[action]: hint for action, hint in (hints or {}).items() if action in cells},
    )


def status(position: Position) -> str:
    """Return the side to move or the result as a sentence: ``X is to move`` with a full stop."""
    result = position.first_player_outcome
    if result is not None:
        return {1: "X has won.", 0: "The game is drawn.", -1: "O has won."}[result]
    return f"{'X' if position.first_to_move else 'O'} is to move."


def _side(position: Position) -> int:
    """Return the winner or the side to move, 1 or -1; 0 for a draw."""
    result = position.first_player_outcome
    return (1 if position.first_to_move else -1) if result is None else result


def _move_cells(position: Position) -> dict[int, int]:
    """Return the cell in which the piece of each legal action is placed, if it has one.

    In games in which a move is a column, it is the lowest empty cell of the column.
    """
    try:
        layout = action_layout(position.game)
    except UserError:  # pages, too, show no places for such a game
        return {}
    placed = [action for action in position.legal_actions if action < layout.place_count]
    if layout.places == "cells":
        return {action: action for action in placed}
    if layout.places != "columns":
        return {}
    empty, columns = position.board() == 0, position.game[1]
    return {
        column: int(np.flatnonzero(empty[:, column])[-1]) * columns + column for column in placed
    }


def _last_cell(position: Position) -> int | None:
    """Return the cell of the last placed piece; None after a pass or before the first move."""
    if not position.history:
        return None
    return placed_cell(position.line()[-2].board(), position.board())


def placed_cell(before: NDArray[np.int8], after: NDArray[np.int8]) -> int | None:
    """Return the cell of the piece that a move placed, given boards int8[rows, columns].

    Cells are numbered row by row. Returns None if no piece or several were placed.
    """
    placed = np.flatnonzero((before.ravel() == 0) & (after.ravel() != 0))
    return int(placed[0]) if len(placed) == 1 else None
