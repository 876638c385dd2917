"""Connect Four [Wang2020a], with K pieces in a row to win."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.errors import UserError
from zerolab.report.board_shapes import BoardStyle
from zerolab.rules import boards, cells, rules
from zerolab.rules.bits import isolate_nth_bit
from zerolab.rules.catalogue import Notation, register_game
from zerolab.rules.cells import (
    CellSolverRules,
    pack_board,
    require_alternating_counts,
    require_mover_not_won,
)
from zerolab.rules.encoding import Encoding
from zerolab.rules.rules import DRAW, LOSS, ONGOING, Rules, State


class ConnectFour(NamedTuple):
    """Connect Four on an upright board; `length` pieces in a row win."""

    rows: Annotated[int, Field(ge=4, le=8)]
    columns: Annotated[int, Field(ge=4, le=8)]
    length: Annotated[int, Field(ge=3, le=8)] = 4


@inlined
def _playable_cells(game, occupied):
    """Return the lowest empty cell of every open column."""
    bottoms = boards.ZERO
    for column in range(game.columns):
        is_open = ~(occupied >> boards.u64((column + 1) * game.rows - 1)) & boards.ONE
        bottoms |= is_open << boards.u64(column * game.rows)
    return (occupied + bottoms) & ~occupied


@inlined
def _list_columns(game, cells, out):
    """Write the columns of `cells` to `out`, from the middle outwards; return their number."""
    count = 0
    middle = (game.columns - 1) // 2
    for i in range(game.columns):
        column = middle + (i + 1) // 2 * (1 if i % 2 else -1)
        if cells >> boards.u64(column * game.rows) & boards.full_board(1, game.rows):
            out[count] = column
            count += 1
    return count


_BYTE = np.uint64(0xFF)
_EVERY_COLUMN = np.uint64(0x0706050403020100)


def _top_cell_masks() -> NDArray[np.uint64]:
    """Return the top cells of all columns by board size, uint64[rows, columns]."""
    sides = boards.MAX_SIDE + 1
    tops = np.zeros((sides, sides), np.uint64)
    for rows in range(1, sides):
        for columns in range(1, sides):
            for column in range(columns):
                tops[rows, columns] |= boards.ONE << np.uint64(column * rows + rows - 1)
    return tops


_TOP_CELL_MASKS = _top_cell_masks()


@inlined
def _without(columns, offset):
    """Return a list of columns, one per byte, without the byte that starts at bit `offset`."""
    below = (boards.ONE << offset) - boards.ONE
    return (columns & below) | ((columns >> np.uint64(8)) & ~below)


@inlined
def _open_columns(full, rows, columns):
    """Return the columns whose top cells are not in `full`, one per byte, and their number."""
    open_columns = _EVERY_COLUMN
    count = columns
    while full:
        column = boards.lowest_bit_index(full) // rows
        open_columns = _without(open_columns, boards.u64(8 * (column - (columns - count))))
        count -= 1
        full &= full - boards.ONE
    return open_columns, count


class ConnectFourRules(Rules):
    """Rules of Connect Four.

    The state is (own pieces, opponent's pieces), and an action is a column that is not full. Bit
    column * rows + height is the cell that is `height` cells above the lowest cell of a column.
    Unlike in [Tromp], there is no guard row, so an 8x8 board fits in one word. Adding the bottom
    bit of a column to the occupied cells carries to the lowest empty cell of the column. The
    functions of `boards` treat a word as a board with `columns` rows.
    """

    @staticmethod
    def check(game):
        boards.check_line_fits(game.rows, game.columns, game.length)

    @staticmethod
    def word_count(game):
        return 2

    @staticmethod
    def action_count(game):
        return game.columns

    @staticmethod
    def start(game, out):
        out[0] = boards.ZERO
        out[1] = boards.ZERO

    @staticmethod
    def legal(game, state, mask):
        occupied = state[0] | state[1]
        for column in range(game.columns):
            mask[column] = not boards.test_bit(occupied, column * game.rows + game.rows - 1)

    @staticmethod
    def apply(game, state, action, out):
        occupied = state[0] | state[1]
        own = state[0] | (occupied + boards.bit(action * game.rows)) & ~occupied
        out[0] = state[1]
        out[1] = own

    @staticmethod
    def outcome(game, state):
        if boards.has_line(state[1], game.columns, game.rows, game.length):
            return LOSS
        if state[0] | state[1] == boards.full_board(game.rows, game.columns):
            return DRAW
        return ONGOING

    @staticmethod
    def random_action(game, state, random):
        tops = _TOP_CELL_MASKS[game.rows, game.columns] & ~(state[0] | state[1])
        top = isolate_nth_bit(tops, streams.random_below(random, boards.popcount(tops)))
        return boards.lowest_bit_index(top) // game.rows

    @staticmethod
    def playout(game, state, key, out, moves):
        """Play at random with a list of open columns, which changes only when a column fills up."""
        own = state[0]
        other = state[1]
        occupied = own | other
        rows = boards.u64(game.rows)
        tops = _TOP_CELL_MASKS[game.rows, game.columns]
        columns, count = _open_columns(occupied & tops, game.rows, game.columns)
        won = boards.has_line(other, game.columns, game.rows, game.length)
        random = boards.ZERO
        plies = 0
        while count > 0 and not won:
            random = rules.random_bits_for_ply(key, plies, random)
            offset = boards.u64(8 * streams.random_below(random, count))
            column = (columns >> offset) & _BYTE
            piece = (occupied + (boards.ONE << column * rows)) & ~occupied
            plies += 1
            moves[plies] = np.int32(column)
            occupied |= piece
            mover = own | piece
            own = other
            other = mover
            won = boards.has_line(mover, game.columns, game.rows, game.length)
            if piece & tops:
                columns = _without(columns, offset)
                count -= 1
        moves[0] = plies
        return rules.outcome_if_last_ply_wins(plies) if won else DRAW


class ConnectFourEncoding(Encoding):
    """Encoding with one plane of pieces; the symmetries are the identity and one reflection."""

    action_places = "columns"

    @staticmethod
    def plane_count(game):
        return 1

    @staticmethod
    def encode(game, state, out):
        for row in range(game.rows):
            height = game.rows - 1 - row
            for column in range(game.columns):
                piece = boards.piece_at(state[0], state[1], column * game.rows + height)
                out[0, row * game.columns + column] = piece

    @staticmethod
    def symmetry_count(game):
        return 2

    @staticmethod
    def transform(game, state, symmetry, out):
        # A word is a board with `columns` rows, so mirroring swaps its top and bottom.
        mirror = 2 * symmetry
        out[0] = boards.transform_board(state[0], game.columns, game.rows, mirror)
        out[1] = boards.transform_board(state[1], game.columns, game.rows, mirror)

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return boards.transform_cell(game.rows, game.columns, symmetry, cell)

    @staticmethod
    def transform_action(game, symmetry, action):
        return game.columns - 1 - action if symmetry else action


class ConnectFourNotation(Notation):
    """Notation in which columns are numbered from 0, like actions."""

    @classmethod
    def move_examples_text(cls, game: Any) -> str:
        """Return the range of columns."""
        return f"columns, numbered 0 to {game.columns - 1} from the left"

    @staticmethod
    def column_label(game: Any, column: int) -> str:
        """Return the number of a column, which is also the name of its action."""
        return str(column)

    @classmethod
    def state_of_mover_board(cls, game: Any, board: NDArray[np.int8], first_to_move: bool) -> State:
        """Return the state of a board; raise UserError for boards recognised as unreachable."""
        require_alternating_counts(board, first_to_move)
        occupied = board != 0
        floating = np.argwhere(occupied[:-1] & ~occupied[1:])
        if floating.size:
            row, column = floating[0]
            raise UserError(
                f"the piece in column {column}, row {row + 1} from the top, floats: expected pieces"
                " without empty cells below"
            )
        transposed = board[::-1].T  # each row is a column, from the bottom up
        require_mover_not_won(game, pack_board(-transposed), first_to_move)
        return pack_board(transposed)


class ConnectFourSolverRules(CellSolverRules):
    """Solver rules that score the speed of a win; threats reduce the moves to try [Pons]."""

    @staticmethod
    def final_score(game, state):
        return cells.line_final_score(state, game.columns, game.rows, game.length)

    @staticmethod
    def score_is_distance(game):
        return True

    @staticmethod
    def score_bounds(game, state):
        return cells.line_score_bounds(state, game.columns, game.rows, game.length)

    @staticmethod
    def solver_moves(game, state, out):
        """Write an immediate win, else the defence against one, else all safe moves, else any move.

        After a safe move, the opponent cannot win on the cell directly above the piece.
        """
        occupied = state[0] | state[1]
        playable = _playable_cells(game, occupied)
        best = playable & boards.completing_cells(state[0], game.columns, game.rows, game.length)
        if not best:
            threats = boards.completing_cells(state[1], game.columns, game.rows, game.length)
            threats &= ~occupied
            best = playable & threats
            if not best:
                safe = playable & ~(threats >> boards.ONE)
                if safe:
                    return _list_columns(game, safe, out)
                best = playable
        out[0] = boards.lowest_bit_index(best) // game.rows
        return 1

    @staticmethod
    def move_ordering_score(game, state):
        return cells.threat_ordering_score(state, game.columns, game.rows, game.length)


register_game(
    "connect_four",
    ConnectFour,
    ConnectFourRules,
    ConnectFourEncoding,
    ConnectFourNotation,
    ConnectFourSolverRules,
    BoardStyle(cells="holes", surface="frame", pieces="red_and_yellow", decided_by="line"),
    default_size=(6, 7),
)
