"""What solvers ask of games in which K stones in a row win, and a fast win is worth more.

A state begins with the mover's and the other player's stones; `rows` and `columns` are those of the
word in which cell (row, column) is bit row * columns + column.
"""

from __future__ import annotations

from zerolab.core.compiled import inlined
from zerolab.rules import boards


@inlined
def empty_cells(state, rows, columns):
    """Return the cells on which nobody has a stone."""
    return boards.full_board(rows, columns) & ~(state[0] | state[1])


@inlined
def score(state, rows, columns, length):
    """See `interface.score`; the last stone was the other player's."""
    if boards.has_run(state[1], rows, columns, length):
        return -boards.swiftness(boards.popcount(empty_cells(state, rows, columns)))
    return 0


@inlined
def score_bounds(state, rows, columns, length):
    """See `interface.score_bounds`: who has no line left that is open cannot win."""
    board = boards.full_board(rows, columns)
    left = boards.popcount(empty_cells(state, rows, columns))
    low = 0
    high = 0
    if boards.has_run(board & ~state[1], rows, columns, length):
        high = boards.swiftness(left - 1)
    if boards.has_run(board & ~state[0], rows, columns, length):
        low = -boards.swiftness(left - 2)
    return low, high


@inlined
def move_ordering_score(state, rows, columns, length):
    """See `interface.move_ordering_score`: threats made, minus lines open to the mover."""
    threats = boards.completing_cells(state[1], rows, columns, length)
    made = boards.popcount(threats & empty_cells(state, rows, columns))
    free = boards.full_board(rows, columns) & ~state[1]
    return 8 * made - boards.count_lines(free, rows, columns, length)
