"""Connect Four: stones fall to the lowest empty cell of a column; K in a row win (FACTS 1)."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules import boards, lines, playouts
from zerolab.rules.catalogue import register_game
from zerolab.rules.interface import DRAW, LOSS, ONGOING, Rules
from zerolab.rules.select import nth_bit


class ConnectFour(NamedTuple):
    """A standing board on which `length` stones in a row win."""

    rows: Annotated[int, Field(ge=4, le=8)]
    columns: Annotated[int, Field(ge=4, le=8)]
    length: Annotated[int, Field(ge=3, le=8)] = 4


@inlined
def _landing_cells(game, taken):
    """Return the cells on which a stone can land now: the lowest empty one of each column."""
    floors = boards.ZERO
    for column in range(game.columns):
        open_column = boards.ONE - (
            (taken >> boards.word((column + 1) * game.rows - 1)) & boards.ONE
        )
        floors |= open_column << boards.word(column * game.rows)
    return (taken + floors) & ~taken


@inlined
def _list_columns(game, cells, out):
    """Write the columns of some landing cells, the middle of the board first."""
    count = 0
    middle = (game.columns - 1) // 2
    for i in range(game.columns):
        column = middle + (i + 1) // 2 * (1 if i % 2 else -1)
        if cells >> boards.word(column * game.rows) & boards.full_board(1, game.rows):
            out[count] = column
            count += 1
    return count


_BYTE = np.uint64(0xFF)
_EVERY_COLUMN = np.uint64(0x0706050403020100)


def _tops() -> NDArray[np.uint64]:
    """Return uint64[rows, columns]: the top cell of every column."""
    sides = boards.MAX_SIDE + 1
    tops = np.zeros((sides, sides), np.uint64)
    for rows in range(1, sides):
        for columns in range(1, sides):
            for column in range(columns):
                tops[rows, columns] |= boards.ONE << np.uint64(column * rows + rows - 1)
    return tops


_TOPS = _tops()


@inlined
def _without(columns, place):
    """Drop the byte at bit `place` of a list of columns; those above it move down."""
    below = (boards.ONE << place) - boards.ONE
    return (columns & below) | ((columns >> np.uint64(8)) & ~below)


@inlined
def _open_columns(full, rows, columns):
    """Return the columns whose top is not in `full`, one a byte, and how many there are."""
    found = _EVERY_COLUMN
    count = columns
    while full:
        column = boards.lowest_bit(full) // rows
        found = _without(found, boards.word(8 * (column - (columns - count))))
        count -= 1
        full &= full - boards.ONE
    return found, count


@register_game("connect_four", ConnectFour)
class ConnectFourRules(Rules):
    """The state is (own stones, other's stones); an action is a column that is not full.

    Bit column * rows + height is the cell `height` above the floor, without a guard row, so that
    8x8 fits one word. Adding the floor bit of a column to the taken cells carries to its lowest
    empty cell. For `has_run` such a word is a board of `columns` rows.
    """

    @staticmethod
    def check(game):
        boards.check_line_fits(game.rows, game.columns, game.length)

    @staticmethod
    def words(game):
        return 2

    @staticmethod
    def actions(game):
        return game.columns

    @staticmethod
    def planes(game):
        return 1

    @staticmethod
    def symmetries(game):
        return 2

    @staticmethod
    def start(game, out):
        out[0] = boards.ZERO
        out[1] = boards.ZERO

    @staticmethod
    def legal(game, state, mask):
        taken = state[0] | state[1]
        for column in range(game.columns):
            top = boards.word(column * game.rows + game.rows - 1)
            mask[column] = not (taken >> top) & boards.ONE

    @staticmethod
    def apply(game, state, action, out):
        taken = state[0] | state[1]
        stone = (taken + (boards.ONE << boards.word(action * game.rows))) & ~taken
        own = state[0] | stone
        out[0] = state[1]
        out[1] = own

    @staticmethod
    def outcome(game, state):
        if boards.has_run(state[1], game.columns, game.rows, game.length):
            return LOSS
        if state[0] | state[1] == boards.full_board(game.rows, game.columns):
            return DRAW
        return ONGOING

    @staticmethod
    def encode(game, state, out):
        for row in range(game.rows):
            height = game.rows - 1 - row
            for column in range(game.columns):
                bit = column * game.rows + height
                out[0, row * game.columns + column] = boards.stone(state[0], state[1], bit)

    @staticmethod
    def transform(game, state, symmetry, out):
        # The word is a board of `columns` rows, so left and right is its top and bottom.
        mirror = 2 * symmetry
        out[0] = boards.rectangle_transform(state[0], game.columns, game.rows, mirror)
        out[1] = boards.rectangle_transform(state[1], game.columns, game.rows, mirror)

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return boards.rectangle_image(game.rows, game.columns, symmetry, cell)

    @staticmethod
    def transform_action(game, symmetry, action):
        return game.columns - 1 - action if symmetry else action

    @staticmethod
    def column_label(game: Any, column: int) -> str:
        """Return the column's number, which is the action's name."""
        return str(column)

    @staticmethod
    def random_action(game, state, random):
        tops = _TOPS[game.rows, game.columns] & ~(state[0] | state[1])
        chosen = nth_bit(tops, streams.below(random, boards.popcount(tops)))
        return boards.lowest_bit(chosen) // game.rows

    @staticmethod
    def playout(game, state, key, out, moves):
        """See `interface.playout`: the open columns change only where a stone fills one."""
        own = state[0]
        other = state[1]
        taken = own | other
        rows = boards.word(game.rows)
        tops = _TOPS[game.rows, game.columns]
        columns, count = _open_columns(taken & tops, game.rows, game.columns)
        won = boards.has_run(other, game.columns, game.rows, game.length)
        random = boards.ZERO
        plies = 0
        while count > 0 and not won:
            random = playouts.draw(key, plies, random)
            place = boards.word(8 * streams.below(random, count))
            column = (columns >> place) & _BYTE
            stone = (taken + (boards.ONE << column * rows)) & ~taken
            plies += 1
            moves[plies] = np.int32(column)
            taken |= stone
            mover = own | stone
            own = other
            other = mover
            won = boards.has_run(mover, game.columns, game.rows, game.length)
            if stone & tops:
                columns = _without(columns, place)
                count -= 1
        moves[0] = plies
        return playouts.last_mover_wins(plies) if won else DRAW

    @staticmethod
    def remaining(game, state):
        return game.rows * game.columns - boards.popcount(state[0] | state[1])

    @staticmethod
    def score(game, state):
        return lines.score(state, game.columns, game.rows, game.length)

    @staticmethod
    def score_is_distance(game):
        return True

    @staticmethod
    def score_bounds(game, state):
        return lines.score_bounds(state, game.columns, game.rows, game.length)

    @staticmethod
    def solver_moves(game, state, out):
        """See `interface.solver_moves`.

        A win at once; else the cell where the other would win; else cells under none where the
        other would win, as far as there are any.
        """
        taken = state[0] | state[1]
        landing = _landing_cells(game, taken)
        chosen = landing & boards.completing_cells(state[0], game.columns, game.rows, game.length)
        if not chosen:
            threats = boards.completing_cells(state[1], game.columns, game.rows, game.length)
            threats &= ~taken
            chosen = landing & threats
            if not chosen:
                safe = landing & ~(threats >> boards.ONE)
                if safe:
                    return _list_columns(game, safe, out)
                chosen = landing
        out[0] = boards.lowest_bit(chosen) // game.rows
        return 1

    @staticmethod
    def move_ordering_score(game, state):
        return lines.move_ordering_score(state, game.columns, game.rows, game.length)
