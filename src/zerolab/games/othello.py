"""Othello on any rectangular board.

The initial position and passes follow [AZG], as in [Wang2020a]; see "Rules" in ``docs/papers.md``
and ``docs/decisions/0003-othello-ends-at-once.md``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.report.board_shapes import BoardStyle
from zerolab.rules import boards, rules
from zerolab.rules.bits import (
    and_lanes,
    broadcast_lanes,
    isolate_nth_bit,
    load_lanes,
    or_lanes,
    or_reduce,
    shift_lanes_left,
    shift_lanes_right,
)
from zerolab.rules.catalogue import register_game
from zerolab.rules.cells import (
    CellEncoding,
    CellNotation,
    CellRules,
    CellSolverRules,
    pack_board,
)
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN, State


class Othello(NamedTuple):
    """Othello on a rectangular board.

    The four initial discs are in the rows rows // 2 - 1 and rows // 2, and in the columns
    columns // 2 - 1 and columns // 2.
    """

    rows: Annotated[int, Field(ge=4, le=8)]
    columns: Annotated[int, Field(ge=4, le=8)]


def _inner_columns() -> NDArray[np.uint64]:
    """Return the cells in the inner columns of eight rows, by board width, uint64[columns]."""
    inner = np.zeros(boards.MAX_SIDE + 1, np.uint64)
    for columns in range(3, boards.MAX_SIDE + 1):
        for cell in range(min(64, 8 * columns)):
            if 0 < cell % columns < columns - 1:
                inner[columns] |= boards.ONE << np.uint64(cell)
    return inner


_INNER_COLUMNS = _inner_columns()


def _corners() -> NDArray[np.uint64]:
    """Return the corner cells by board size, uint64[rows, columns]."""
    sides = boards.MAX_SIDE + 1
    corners = np.zeros((sides, sides), np.uint64)
    for rows in range(1, sides):
        for columns in range(1, sides):
            for cell in {0, columns - 1, (rows - 1) * columns, rows * columns - 1}:
                corners[rows, columns] |= boards.ONE << np.uint64(cell)
    return corners


_CORNERS = _corners()


def _line_lanes() -> NDArray[np.uint64]:
    """Return constants for lines along rows, columns and both diagonals, uint64[columns, 3, 4].

    The second axis holds the distance in bits between neighbours, twice that distance, and the mask
    of cells whose discs can be flipped along a line. For rows and diagonals, the mask excludes the
    edge columns, so that lines do not wrap around the left and right edges.
    """
    lines = np.zeros((boards.MAX_SIDE + 1, 3, 4), np.uint64)
    for columns in range(3, boards.MAX_SIDE + 1):
        steps = np.array([1, columns, columns - 1, columns + 1])
        inner = _INNER_COLUMNS[columns]
        lines[columns] = steps, 2 * steps, [inner, ~boards.ZERO, inner, inner]
    return lines


_LINE_LANES = _line_lanes()


@inlined
def _fill(columns, discs, other):
    """Return the opponent's discs in unbroken lines that start next to `discs`.

    The two results are lanes for lines towards higher and lower bits. The method is the
    parallel prefix algorithm of Kogge and Stone. Two single and two double steps cover six discs,
    the maximum number of flipped discs in a line of eight.
    """
    single = load_lanes(_LINE_LANES[columns, 0])
    double = load_lanes(_LINE_LANES[columns, 1])
    other = and_lanes(broadcast_lanes(other), load_lanes(_LINE_LANES[columns, 2]))
    discs = broadcast_lanes(discs)
    pairs_up = and_lanes(other, shift_lanes_left(other, single))
    pairs_down = and_lanes(other, shift_lanes_right(other, single))
    up = and_lanes(other, shift_lanes_left(discs, single))
    down = and_lanes(other, shift_lanes_right(discs, single))
    up = or_lanes(up, and_lanes(other, shift_lanes_left(up, single)))
    down = or_lanes(down, and_lanes(other, shift_lanes_right(down, single)))
    up = or_lanes(up, and_lanes(pairs_up, shift_lanes_left(up, double)))
    down = or_lanes(down, and_lanes(pairs_down, shift_lanes_right(down, double)))
    up = or_lanes(up, and_lanes(pairs_up, shift_lanes_left(up, double)))
    down = or_lanes(down, and_lanes(pairs_down, shift_lanes_right(down, double)))
    return up, down


@inlined
def _moves(rows, columns, own, other):
    """Return the empty cells on which a disc would flip opposing discs."""
    up, down = _fill(columns, own, other)
    single = load_lanes(_LINE_LANES[columns, 0])
    ends = or_reduce(or_lanes(shift_lanes_left(up, single), shift_lanes_right(down, single)))
    return ends & ~(own | other) & boards.full_board(rows, columns)


@inlined
def _flipped(columns, disc, own, other):
    """Return the discs flipped by a new disc: those in lines between it and own discs."""
    up, down = _fill(columns, disc, other)
    from_own_up, from_own_down = _fill(columns, own, other)
    return or_reduce(or_lanes(and_lanes(up, from_own_down), and_lanes(down, from_own_up)))


@inlined
def _neighbours(columns, discs):
    """Return the cells next to discs; for discs in edge columns, only the cells above and below.

    The result may include cells with discs, and bits outside the board.
    """
    row = boards.u64(columns)
    inner = discs & _INNER_COLUMNS[columns]
    beside = (inner << boards.ONE) | (inner >> boards.ONE) | inner
    return beside | (beside << row) | (beside >> row) | (discs << row) | (discs >> row)


@inlined
def _result(own, other):
    """Return the outcome of a finished game: the player with more discs wins."""
    difference = boards.popcount(own) - boards.popcount(other)
    if difference > 0:
        return WIN
    return LOSS if difference < 0 else DRAW


class OthelloRules(CellRules):
    """Rules of Othello.

    The state is (own discs, opponent's discs). Actions are cells, except for the last action, which
    is a pass. A pass is legal only if there is no other legal action. The game ends as soon as
    neither player can place a disc, so there are never two consecutive passes.
    """

    @staticmethod
    def action_count(game):
        return game.rows * game.columns + 1

    @staticmethod
    def start(game, out):
        row = game.rows // 2
        column = game.columns // 2
        right_up = boards.bit((row - 1) * game.columns + column)
        left_down = boards.bit(row * game.columns + column - 1)
        left_up = boards.bit((row - 1) * game.columns + column - 1)
        right_down = boards.bit(row * game.columns + column)
        out[0] = right_up | left_down
        out[1] = left_up | right_down

    @staticmethod
    def legal(game, state, mask):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        cells = game.rows * game.columns
        for cell in range(cells):
            mask[cell] = boards.test_bit(moves, cell)
        mask[cells] = moves == boards.ZERO

    @staticmethod
    def apply(game, state, action, out):
        own = state[0]
        other = state[1]
        if action < game.rows * game.columns:
            disc = boards.bit(action)
            flipped = _flipped(game.columns, disc, own, other)
            own |= flipped | disc
            other &= ~flipped
        out[0] = other
        out[1] = own

    @staticmethod
    def outcome(game, state):
        own = state[0]
        other = state[1]
        if _moves(game.rows, game.columns, own, other) != boards.ZERO:
            return ONGOING
        if _moves(game.rows, game.columns, other, own) != boards.ZERO:
            return ONGOING
        return _result(own, other)

    @staticmethod
    def random_action(game, state, random):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        if moves == boards.ZERO:
            return game.rows * game.columns
        return boards.nth_bit_index(moves, streams.random_below(random, boards.popcount(moves)))

    @staticmethod
    def playout(game, state, key, out, moves):
        """Play at random until both players pass; these two passes do not count as plies."""
        own = state[0]
        other = state[1]
        random = boards.ZERO
        plies = 0
        passes = 0
        while passes < 2:
            legal = _moves(game.rows, game.columns, own, other)
            random = rules.random_bits_for_ply(key, plies, random)
            plies += 1
            passes += 1
            disc = boards.ZERO
            action = game.rows * game.columns
            if legal != boards.ZERO:
                passes = 0
                disc = isolate_nth_bit(legal, streams.random_below(random, boards.popcount(legal)))
                action = boards.lowest_bit_index(disc)
            moves[plies] = action
            flipped = _flipped(game.columns, disc, own, other)
            mover = own | flipped | disc
            own = other & ~flipped
            other = mover
        moves[0] = plies - 2
        result = _result(own, other)
        return -result if plies & 1 else result


class OthelloNotation(CellNotation):
    """Notation with cells such as "c2", and "pass" for the last action."""

    @staticmethod
    def action_name(game: Any, action: int) -> str:
        """Return the name of a cell, or "pass"."""
        if action == game.rows * game.columns:
            return "pass"
        return CellNotation.action_name(game, action)

    @classmethod
    def parse_action(cls, game: Any, text: str) -> int | None:
        """Parse the name of a cell, "pass", or the number of an action."""
        if text.lower() == "pass":
            return int(game.rows * game.columns)
        return super().parse_action(game, text)

    @classmethod
    def state_of_mover_board(cls, game: Any, board: NDArray[np.int8], first_to_move: bool) -> State:
        """Return the state of a board; any numbers of discs are valid, since players may pass."""
        return pack_board(board)


class OthelloSolverRules(CellSolverRules):
    """Solver rules with the disc difference as the final score."""

    @staticmethod
    def max_plies(game):
        return 2 * game.rows * game.columns  # there are never two consecutive passes

    @staticmethod
    def final_score(game, state):
        return boards.popcount(state[0]) - boards.popcount(state[1])

    @staticmethod
    def score_bounds(game, state):
        cells = game.rows * game.columns
        return -cells, cells

    @staticmethod
    def solver_moves(game, state, out):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        if moves == boards.ZERO:
            out[0] = game.rows * game.columns
            return 1
        return boards.write_cells(moves, out)

    @staticmethod
    def move_ordering_score(game, state):
        """Prefer moves that leave the opponent few moves, few corners and a small frontier."""
        moves = _moves(game.rows, game.columns, state[0], state[1])
        corner_moves = moves & _CORNERS[game.rows, game.columns]
        empty = boards.full_board(game.rows, game.columns) & ~(state[0] | state[1])
        frontier = empty & _neighbours(game.columns, state[1])
        mobility = boards.popcount(moves) + boards.popcount(corner_moves)
        return -2 * mobility - boards.popcount(frontier)


register_game(
    "othello",
    Othello,
    OthelloRules,
    CellEncoding,
    OthelloNotation,
    OthelloSolverRules,
    BoardStyle(surface="felt", pieces="black_and_white", decided_by="count"),
    default_size=(8, 8),
)
