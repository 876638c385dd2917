"""Bitboards of up to 64 cells, lines of cells, and symmetries of rectangles.

A board is a uint64; cell (row, column) is bit row * columns + column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.rules import bits
from zerolab.rules.bits import cumulative_byte_popcounts, isolate_nth_bit

MAX_SIDE = 8
"""Maximum number of rows and of columns."""
ONE = np.uint64(1)
ZERO = np.uint64(0)


def _line_starts() -> NDArray[np.uint64]:
    """Return uint64[rows, columns, length, 4]: cells in which a line of `length` cells can start.

    The last axis is the direction: right, down, down-right, down-left.
    """
    sides = MAX_SIDE + 1
    starts = np.zeros((sides, sides, sides, 4), np.uint64)
    for rows in range(1, sides):
        for columns in range(1, sides):
            row, column = np.divmod(np.arange(rows * columns, dtype=np.uint64), np.uint64(columns))
            bit = ONE << (row * np.uint64(columns) + column)
            for length in range(1, sides):
                down = row + length <= rows
                right = column + length <= columns
                left = column + 1 >= length
                for direction, fits in enumerate((right, down, down & right, down & left)):
                    starts[rows, columns, length, direction] = bit[fits].sum()
    return starts


_LINE_STARTS = _line_starts()


def _line_shifts() -> NDArray[np.uint64]:
    """Return uint64[columns, length, 3, 4]: the shifts of `has_line`, by stage and direction.

    Each stage joins pairs of lines of the previous length; unnecessary stages shift by 0.
    """
    sides = MAX_SIDE + 1
    shifts = np.zeros((sides, sides, 3, 4), np.uint64)
    for columns in range(1, sides):
        steps = np.array([1, columns, columns + 1, columns - 1])
        for length in range(1, sides):
            line_length = 1
            for stage in range(3):
                extension = min(line_length, length - line_length)
                shifts[columns, length, stage] = extension * steps
                line_length += extension
    return shifts


_LINE_SHIFTS = _line_shifts()


@inlined
def _step(direction, columns):
    """Return the distance in bits between neighbours in one of the directions 0..3."""
    if direction == 0:
        return 1
    if direction == 1:
        return columns
    return columns + 1 if direction == 2 else columns - 1


@inlined
def _lowest_line_cells(board, step, length):
    """Return the lowest cell of every line of `length` set bits, `step` apart.

    Lines that wrap around an edge of the board are included.
    """
    line = board
    line_length = 1
    while line_length < length:
        extension = min(line_length, length - line_length)
        line &= line >> np.uint64(extension * step)
        line_length += extension
    return line


@inlined
def has_line(board, rows, columns, length):
    """Return True if a board has a line of at least `length` set cells in any direction.

    Shifting and intersecting also finds lines that wrap around an edge of the board. The table of
    possible starts excludes these lines.
    """
    line = bits.broadcast_lanes(board)
    for stage in range(3):
        shifts = bits.load_lanes(_LINE_SHIFTS[columns, length, stage])
        line = bits.and_lanes(line, bits.shift_lanes_right(line, shifts))
    starts = bits.load_lanes(_LINE_STARTS[rows, columns, length])
    return bits.or_reduce(bits.and_lanes(line, starts)) != ZERO


@inlined
def completing_cells(board, rows, columns, length):
    """Return the cells that complete a line of `length` whose other cells are set.

    The returned cells may themselves be set.
    """
    cells = ZERO
    for direction in range(4):
        step = _step(direction, columns)
        starts = _LINE_STARTS[rows, columns, length, direction]
        if length == 4:
            cells |= _cells_completing_four(board, starts, np.uint64(step))
        else:
            cells |= _cells_completing(board, starts, step, length)
    return cells


@inlined
def _cells_completing_four(board, starts, step):
    """Return the cells that complete a line of four in one direction."""
    second = board >> step
    third = second >> step
    last = starts & (third >> step)
    outer = starts & board
    near = outer & second
    far = last & third
    first_two = (second & far) | ((outer & far) << step)
    return first_two | (((near & last) | ((near & third) << step)) << (step + step))


@inlined
def _cells_completing(board, starts, step, length):
    """Return the cells that complete a line of any length in one direction."""
    cells = ZERO
    for gap in range(length):
        line = starts
        for i in range(length):
            if i != gap:
                line &= board >> np.uint64(i * step)
        cells |= line << np.uint64(gap * step)
    return cells


@inlined
def count_lines(board, rows, columns, length):
    """Return the number of lines of `length` set cells in all directions."""
    lines = 0
    for direction in range(4):
        step = _step(direction, columns)
        lines += popcount(
            _lowest_line_cells(board, step, length) & _LINE_STARTS[rows, columns, length, direction]
        )
    return lines


@inlined
def popcount(board):
    """Return the number of set bits."""
    return np.int64(cumulative_byte_popcounts(board) >> np.uint64(56))


@inlined
def nth_bit_index(board, n):
    """Return the index of the set bit with exactly `n` lower set bits, which must exist."""
    return lowest_bit_index(isolate_nth_bit(board, n))


@inlined
def lowest_bit_index(board):
    """Return the index of the lowest set bit of a non-empty board."""
    return popcount((board & (~board + ONE)) - ONE)


@inlined
def write_cells(board, out):
    """Write the indices of the set bits to `out` in ascending order; return their number."""
    count = 0
    while board:
        out[count] = lowest_bit_index(board)
        board &= board - ONE
        count += 1
    return count


@inlined
def u64(number):
    """Return a non-negative integer as uint64, the type for shifts and masks."""
    return np.uint64(number)


@inlined
def bit(index):
    """Return the board with only cell `index` set."""
    return ONE << np.uint64(index)


@inlined
def test_bit(board, index):
    """Return 1 if a cell of a board is set, otherwise 0."""
    return np.int64((board >> np.uint64(index)) & ONE)


@inlined
def piece_at(own, other, index):
    """Return the value of a cell in a plane: 1 if set in `own`, -1 if set in `other`, else 0."""
    return np.float32(test_bit(own, index) - test_bit(other, index))


def check_line_fits(rows: int, columns: int, length: int) -> None:
    """Raise ValueError unless a board has room for `length` cells in a row."""
    if length > max(rows, columns):
        raise ValueError(
            f"{length} in a row do not fit on a {rows}x{columns} board; expected at most "
            f"{max(rows, columns)}"
        )


@inlined
def full_board(rows, columns):
    """Return the board with all cells set."""
    return ~ZERO >> np.uint64(64 - rows * columns)


@inlined
def symmetry_count(rows, columns):
    """Return the number of symmetries: 8 for a square, 4 for any other rectangle."""
    return 8 if rows == columns else 4


@inlined
def transform_cell(rows, columns, symmetry, cell):
    """Return the image of a cell under a symmetry of a rectangle.

    Bit 0 of the symmetry swaps left and right, and bit 1 swaps top and bottom. Bit 2, which is
    only valid for squares, then transposes the board.
    """
    row = cell // columns
    column = cell % columns
    if symmetry & 1:
        column = columns - 1 - column
    if symmetry & 2:
        row = rows - 1 - row
    if symmetry & 4:
        row, column = column, row
    return row * columns + column


@inlined
def transform_board(board, rows, columns, symmetry):
    """Return the image of a board under a symmetry of a rectangle (see `transform_cell`)."""
    image = ZERO
    for cell in range(rows * columns):
        if test_bit(board, cell):
            image |= bit(transform_cell(rows, columns, symmetry, cell))
    return image
