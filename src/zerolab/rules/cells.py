"""Defaults for games whose actions are the cells of a board, and solver rules for K in a row.

A state begins with two words, the mover's pieces and the opponent's pieces. Cell (row, column) is
bit row * columns + column of each word, so boards have up to 64 cells. Games have the fields
``rows`` and ``columns``. Symmetries leave actions that are not cells, such as a pass, unchanged.
Games can override any method.

The ``line_...`` functions are solver rules for games that are won by K pieces in a row and in which
faster wins have higher scores. The `rows` and `columns` arguments describe the layout of a word.
"""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.errors import UserError
from zerolab.rules import boards, compiled_rules
from zerolab.rules.catalogue import Notation
from zerolab.rules.encoding import Encoding, transform_cell
from zerolab.rules.rules import LOSS, Rules, SolverRules, State, win_score


class CellRules(Rules):
    """Rules for placing a piece on any empty cell of an initially empty board."""

    @staticmethod
    def word_count(game):
        return 2

    @staticmethod
    def action_count(game):
        return game.rows * game.columns

    @staticmethod
    def start(game, out):
        out[:] = boards.ZERO

    @staticmethod
    def legal(game, state, mask):
        occupied = state[0] | state[1]
        for cell in range(game.rows * game.columns):
            mask[cell] = not boards.test_bit(occupied, cell)

    @staticmethod
    def random_action(game, state, random):
        empty = boards.full_board(game.rows, game.columns) & ~(state[0] | state[1])
        return boards.nth_bit_index(empty, streams.random_below(random, boards.popcount(empty)))


class CellEncoding(Encoding):
    """Encoding with one plane of pieces and the symmetries of a rectangle or square."""

    action_places = "cells"

    @staticmethod
    def plane_count(game):
        return 1

    @staticmethod
    def encode(game, state, out):
        for cell in range(game.rows * game.columns):
            out[0, cell] = boards.piece_at(state[0], state[1], cell)

    @staticmethod
    def symmetry_count(game):
        return boards.symmetry_count(game.rows, game.columns)

    @staticmethod
    def transform(game, state, symmetry, out):
        out[0] = boards.transform_board(state[0], game.rows, game.columns, symmetry)
        out[1] = boards.transform_board(state[1], game.rows, game.columns, symmetry)

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return boards.transform_cell(game.rows, game.columns, symmetry, cell)

    @staticmethod
    def transform_action(game, symmetry, action):
        if action >= game.rows * game.columns:
            return action
        return transform_cell(game, symmetry, action)


class CellNotation(Notation):
    """Notation of cells by the letter of the column and the number of the row from the top."""

    @classmethod
    def move_examples_text(cls, game: Any) -> str:
        """Return the form of a cell's name, with an example."""
        return "cells such as c2: column c from the left, row 2 from the top"

    @staticmethod
    def action_name(game: Any, action: int) -> str:
        """Return the name of a cell, such as "c2"."""
        row, column = divmod(action, game.columns)
        return f"{string.ascii_lowercase[column]}{row + 1}"

    @classmethod
    def parse_action(cls, game: Any, text: str) -> int | None:
        """Return the action named by a cell, such as "c2", or a number; None if there is none."""
        match = re.fullmatch(r"([a-z])([1-9]\d?)", text.lower())
        if match is None:
            return super().parse_action(game, text)
        row, column = int(match[2]) - 1, string.ascii_lowercase.index(match[1])
        return row * game.columns + column if row < game.rows and column < game.columns else None


class PlacementNotation(CellNotation):
    """Notation of games in which every move adds a piece and pieces are never captured."""

    @classmethod
    def state_of_mover_board(cls, game: Any, board: NDArray[np.int8], first_to_move: bool) -> State:
        """Return the state of a board.

        Raises UserError if alternating moves cannot produce the numbers of pieces, or if the player
        to move has already won.
        """
        require_alternating_counts(board, first_to_move)
        require_mover_not_won(game, pack_board(-board), first_to_move)
        return pack_board(board)


def pack_board(board: NDArray[np.int8]) -> State:
    """Return the words of a board int8[rows, columns]: the mover's and the opponent's pieces."""
    cells = np.uint64(1) << np.arange(board.size, dtype=np.uint64)
    flat = board.ravel()
    return np.array([cells[flat == 1].sum(), cells[flat == -1].sum()], np.uint64)


def require_mover_not_won(game: Any, opponent_view: State, first_to_move: bool) -> None:
    """Raise UserError if the player to move has already won.

    `opponent_view` is the state from the opponent's point of view.
    """
    if compiled_rules.outcome(game, opponent_view) == LOSS:
        mover = "X" if first_to_move else "O"
        raise UserError(f"{mover} has already won but is to move: expected an unfinished game")


def require_alternating_counts(board: NDArray[np.int8], first_to_move: bool) -> None:
    """Raise UserError unless alternating moves can produce these numbers of pieces."""
    own, other = int((board == 1).sum()), int((board == -1).sum())
    first, second = (own, other) if first_to_move else (other, own)
    expected = second if first_to_move else second + 1
    if first != expected:
        mover = "X" if first_to_move else "O"
        raise UserError(
            f"{first} X pieces and {second} O pieces with {mover} to move: expected {expected} X"
            " pieces"
        )


class CellSolverRules(SolverRules):
    """Solver rules for games in which every ply fills an empty cell."""

    @staticmethod
    def empty_count(game, state):
        return game.rows * game.columns - boards.popcount(state[0] | state[1])

    @staticmethod
    def max_plies(game):
        return game.rows * game.columns


@inlined
def empty_cells(state, rows, columns):
    """Return the cells without a piece."""
    return boards.full_board(rows, columns) & ~(state[0] | state[1])


@inlined
def line_final_score(state, rows, columns, length):
    """Return the score for the mover in a finished game; only the opponent can have won."""
    if boards.has_line(state[1], rows, columns, length):
        return -win_score(boards.popcount(empty_cells(state, rows, columns)))
    return 0


@inlined
def line_score_bounds(state, rows, columns, length):
    """Return bounds on the score: a player can win only on a line without opposing pieces."""
    board = boards.full_board(rows, columns)
    empty = boards.popcount(empty_cells(state, rows, columns))
    low = 0
    high = 0
    if boards.has_line(board & ~state[1], rows, columns, length):
        high = win_score(empty - 1)
    if boards.has_line(board & ~state[0], rows, columns, length):
        low = -win_score(empty - 2)
    return low, high


@inlined
def threat_ordering_score(state, rows, columns, length):
    """Return 8 times the threats of the player who has just moved, minus the mover's open lines."""
    threats = boards.completing_cells(state[1], rows, columns, length)
    count = boards.popcount(threats & empty_cells(state, rows, columns))
    free = boards.full_board(rows, columns) & ~state[1]
    return 8 * count - boards.count_lines(free, rows, columns, length)
