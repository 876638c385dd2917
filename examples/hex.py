"""Hex, a game in which players connect opposite edges of a rhombus (docs/add-a-game.md).

The first player connects top and bottom, and the second connects left and right.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.core.compiled import inlined
from zerolab.report.board_shapes import BoardStyle
from zerolab.rules import boards
from zerolab.rules.catalogue import register_game
from zerolab.rules.cells import CellEncoding, CellNotation, CellRules, CellSolverRules
from zerolab.rules.rules import LOSS, ONGOING


class Hex(NamedTuple):
    """Rhombus; cell (r, c) touches (r, c ± 1), (r ± 1, c), (r - 1, c + 1) and (r + 1, c - 1)."""

    rows: Annotated[int, Field(ge=3, le=8)]
    columns: Annotated[int, Field(ge=3, le=8)]


# Cells of the first column for every number of columns, i.e. bits 0, columns, 2 * columns, ...
_LEFT = np.array([sum(1 << c for c in range(0, 64, n or 64)) for n in range(9)], np.uint64)
_IMAGES = np.array([0, 3, 4, 7])  # identity, half turn, and the two diagonal reflections


@inlined
def _edges(rows, columns, sideways):
    """Return the two edges that a player connects: left and right if `sideways`."""
    if sideways:
        left = _LEFT[columns] & boards.full_board(rows, columns)
        return left, left << boards.u64(columns - 1)
    top = boards.full_board(1, columns)
    return top, top << boards.u64((rows - 1) * columns)


@inlined
def _neighbours(stones, columns):
    """Return the cells adjacent to any stone; bits outside the board may also be set."""
    row = boards.u64(columns)
    not_left = ~_LEFT[columns]
    right = (stones << boards.ONE) & not_left
    left = (stones & not_left) >> boards.ONE
    return right | left | (stones << row) | (stones >> row) | (right >> row) | (left << row)


class HexRules(CellRules):
    """Rules for states (own stones, opponent's stones, 1 if the mover connects left and right)."""

    @staticmethod
    def word_count(game):
        return 3

    @staticmethod
    def apply(game, state, action, out):
        out[0], out[1] = state[1], state[0] | boards.bit(action)
        out[2] = state[2] ^ boards.ONE

    @staticmethod
    def outcome(game, state):
        stones = state[1]  # only the player who just moved can have won, and there are no draws
        first_edge, last_edge = _edges(game.rows, game.columns, state[2] == boards.ZERO)
        reached = boards.ZERO
        growing = stones & first_edge
        while growing != reached:
            reached = growing
            growing |= stones & _neighbours(reached, game.columns)
        return LOSS if reached & last_edge else ONGOING


class HexEncoding(CellEncoding):
    """Input planes with the stones in plane 0 and the mover's edges in plane 1."""

    plane_names = ("pieces", "edges to join")

    @staticmethod
    def plane_count(game):
        return 2

    @staticmethod
    def encode(game, state, out):
        first_edge, last_edge = _edges(game.rows, game.columns, state[2] != boards.ZERO)
        for cell in range(game.rows * game.columns):
            out[0, cell] = boards.piece_at(state[0], state[1], cell)
            out[1, cell] = boards.test_bit(first_edge | last_edge, cell)

    @staticmethod
    def symmetry_count(game):
        return 4 if game.rows == game.columns else 2

    @staticmethod
    def transform(game, state, symmetry, out):
        image = _IMAGES[symmetry]
        for player in range(2):
            out[player] = boards.transform_board(state[player], game.rows, game.columns, image)
        out[2] = state[2] ^ boards.u64(symmetry >= 2)  # diagonal reflections swap the edges

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return boards.transform_cell(game.rows, game.columns, _IMAGES[symmetry], cell)


class HexNotation(CellNotation):
    """Standard cell names, with boards drawn as a rhombus."""

    @classmethod
    def draw_board(cls, game, board, symbols):
        """Shift every row by half a cell."""
        return [" " * n + line for n, line in enumerate(super().draw_board(game, board, symbols))]


drawing = BoardStyle(cells="hexagons", edges=("first", "second") * 2, decided_by="line")
register_game("hex", Hex, HexRules, HexEncoding, HexNotation, CellSolverRules, drawing)
