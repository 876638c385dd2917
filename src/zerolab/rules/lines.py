"""Hints for solvers of games in which `length` pieces in a row win, and a fast win is worth more.

A state begins with the mover's and the other player's pieces. `rows` and `columns` are those of
the word, in which cell (row, column) is bit row * columns + column.
"""

from __future__ import annotations

from zerolab.core.compiled import inlined
from zerolab.rules import boards
from zerolab.rules.hints import win_score


@inlined
def empty_cells(state, rows, columns):
    """Return the cells without a piece."""
    return boards.full_board(rows, columns) & ~(state[0] | state[1])


@inlined
def score(state, rows, columns, length):
    """See `hints.score`; only the player who has moved last can have won."""
    if boards.has_run(state[1], rows, columns, length):
        return -win_score(boards.popcount(empty_cells(state, rows, columns)))
    return 0


@inlined
def score_bounds(state, rows, columns, length):
    """See `hints.score_bounds`: nobody wins without a line that the other has no piece on."""
    board = boards.full_board(rows, columns)
    left = boards.popcount(empty_cells(state, rows, columns))
    low = 0
    high = 0
    if boards.has_run(board & ~state[1], rows, columns, length):
        high = win_score(left - 1)
    if boards.has_run(board & ~state[0], rows, columns, length):
        low = -win_score(left - 2)
    return low, high


@inlined
def move_ordering_score(state, rows, columns, length):
    """See `hints.move_ordering_score`: 8 per threat, minus the lines still open to the mover."""
    threats = boards.winning_cells(state[1], rows, columns, length)
    made = boards.popcount(threats & empty_cells(state, rows, columns))
    free = boards.full_board(rows, columns) & ~state[1]
    return 8 * made - boards.count_lines(free, rows, columns, length)
