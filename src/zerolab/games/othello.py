"""Othello on any rectangle, with the start square and pass rule of FACTS 1."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules import boards, playouts
from zerolab.rules.catalogue import register_game
from zerolab.rules.interface import DRAW, LOSS, ONGOING, WIN
from zerolab.rules.lanes import both, either, gather, shift_down, shift_up, spread
from zerolab.rules.select import nth_bit
from zerolab.rules.squares import SquareRules


class Othello(NamedTuple):
    """A board of any rectangular size; the four first discs stand around row and column n // 2."""

    rows: Annotated[int, Field(ge=4, le=8)]
    columns: Annotated[int, Field(ge=4, le=8)]


def _inner_columns() -> NDArray[np.uint64]:
    """Return uint64[columns]: the cells of eight rows that are not in the first or last column."""
    inner = np.zeros(boards.MAX_SIDE + 1, np.uint64)
    for columns in range(3, boards.MAX_SIDE + 1):
        for cell in range(min(64, 8 * columns)):
            if 0 < cell % columns < columns - 1:
                inner[columns] |= boards.ONE << np.uint64(cell)
    return inner


_INNER_COLUMNS = _inner_columns()


def _corners() -> NDArray[np.uint64]:
    """Return uint64[rows, columns]: the corner cells of every board."""
    sides = boards.MAX_SIDE + 1
    corners = np.zeros((sides, sides), np.uint64)
    for rows in range(1, sides):
        for columns in range(1, sides):
            for cell in {0, columns - 1, (rows - 1) * columns, rows * columns - 1}:
                corners[rows, columns] |= boards.ONE << np.uint64(cell)
    return corners


_CORNERS = _corners()


def _line_lanes() -> NDArray[np.uint64]:
    """Return uint64[columns, 3, 4], for lines along rows, columns and both diagonals.

    How many bits lie between neighbours; twice as many; which discs may be turned along the line:
    a line over a vertical edge would have to turn a disc of an edge column.
    """
    lines = np.zeros((boards.MAX_SIDE + 1, 3, 4), np.uint64)
    for columns in range(3, boards.MAX_SIDE + 1):
        steps = np.array([1, columns, columns - 1, columns + 1])
        inner = _INNER_COLUMNS[columns]
        lines[columns] = steps, 2 * steps, [inner, ~boards.ZERO, inner, inner]
    return lines


_LINE_LANES = _line_lanes()


@inlined
def _reached(columns, discs, other):
    """Return other's discs in lines that begin next to some discs, upwards and downwards (lanes).

    Two single steps and two double ones go as far as six discs, the most a line of 8 can turn.
    """
    single = boards.lanes_of(_LINE_LANES[columns, 0])
    double = boards.lanes_of(_LINE_LANES[columns, 1])
    other = both(spread(other), boards.lanes_of(_LINE_LANES[columns, 2]))
    discs = spread(discs)
    pairs_up = both(other, shift_up(other, single))
    pairs_down = both(other, shift_down(other, single))
    up = both(other, shift_up(discs, single))
    down = both(other, shift_down(discs, single))
    up = either(up, both(other, shift_up(up, single)))
    down = either(down, both(other, shift_down(down, single)))
    up = either(up, both(pairs_up, shift_up(up, double)))
    down = either(down, both(pairs_down, shift_down(down, double)))
    up = either(up, both(pairs_up, shift_up(up, double)))
    down = either(down, both(pairs_down, shift_down(down, double)))
    return up, down


@inlined
def _moves(rows, columns, own, other):
    """Return the cells on which the owner of `own` may put a disc: where lines from it end."""
    up, down = _reached(columns, own, other)
    single = boards.lanes_of(_LINE_LANES[columns, 0])
    ends = gather(either(shift_up(up, single), shift_down(down, single)))
    return ends & ~(own | other) & boards.full_board(rows, columns)


@inlined
def _turned(columns, disc, own, other):
    """Return the discs that a new disc turns: reached from it and, the other way, from own."""
    up, down = _reached(columns, disc, other)
    own_up, own_down = _reached(columns, own, other)
    return gather(either(both(up, own_down), both(down, own_up)))


@inlined
def _neighbours(columns, discs):
    """Return cells next to the discs, of those on the left and right edge only up and down.

    Bits beyond the board may be set.
    """
    row = boards.word(columns)
    inner = discs & _INNER_COLUMNS[columns]
    beside = (inner << boards.ONE) | (inner >> boards.ONE) | inner
    return beside | (beside << row) | (beside >> row) | (discs << row) | (discs >> row)


@inlined
def _result(own, other):
    """Return the outcome of a finished game: who has more discs wins."""
    difference = boards.popcount(own) - boards.popcount(other)
    if difference > 0:
        return WIN
    return LOSS if difference < 0 else DRAW


@register_game("othello", Othello)
class OthelloRules(SquareRules):
    """The state is (own discs, other's discs); an action is a cell, the last one is a pass.

    A pass is legal only when there is no other action. The game ends as soon as neither player
    can put a disc, so two passes never follow each other.
    """

    @staticmethod
    def actions(game):
        return game.rows * game.columns + 1

    @staticmethod
    def start(game, out):
        row = game.rows // 2
        column = game.columns // 2
        right_up = boards.word((row - 1) * game.columns + column)
        left_down = boards.word(row * game.columns + column - 1)
        left_up = boards.word((row - 1) * game.columns + column - 1)
        right_down = boards.word(row * game.columns + column)
        out[0] = boards.ONE << right_up | boards.ONE << left_down
        out[1] = boards.ONE << left_up | boards.ONE << right_down

    @staticmethod
    def legal(game, state, mask):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        cells = game.rows * game.columns
        for cell in range(cells):
            mask[cell] = (moves >> boards.word(cell)) & boards.ONE
        mask[cells] = moves == boards.ZERO

    @staticmethod
    def apply(game, state, action, out):
        own = state[0]
        other = state[1]
        if action < game.rows * game.columns:
            disc = boards.ONE << boards.word(action)
            turned = _turned(game.columns, disc, own, other)
            own |= turned | disc
            other &= ~turned
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
    def score(game, state):
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
        return boards.list_cells(moves, out)

    @staticmethod
    def move_ordering_score(game, state):
        """See `interface.move_ordering_score`: few replies, few corners, a small frontier."""
        moves = _moves(game.rows, game.columns, state[0], state[1])
        corner_moves = moves & _CORNERS[game.rows, game.columns]
        empty = boards.full_board(game.rows, game.columns) & ~(state[0] | state[1])
        frontier = empty & _neighbours(game.columns, state[1])
        mobility = boards.popcount(moves) + boards.popcount(corner_moves)
        return -2 * mobility - boards.popcount(frontier)

    @staticmethod
    def random_action(game, state, random):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        if moves == boards.ZERO:
            return game.rows * game.columns
        return boards.nth_set_bit(moves, streams.below(random, boards.popcount(moves)))

    @staticmethod
    def playout(game, state, key, out, moves):
        """See `interface.playout`; ends when both in turn have no move, which is no ply."""
        own = state[0]
        other = state[1]
        random = boards.ZERO
        plies = 0
        stuck = 0
        while stuck < 2:
            legal = _moves(game.rows, game.columns, own, other)
            random = playouts.draw(key, plies, random)
            plies += 1
            stuck += 1
            disc = boards.ZERO
            action = game.rows * game.columns
            if legal != boards.ZERO:
                stuck = 0
                disc = nth_bit(legal, streams.below(random, boards.popcount(legal)))
                action = boards.lowest_bit(disc)
            moves[plies] = action
            turned = _turned(game.columns, disc, own, other)
            mover = own | turned | disc
            own = other & ~turned
            other = mover
        moves[0] = plies - 2
        result = _result(own, other)
        return -result if plies & 1 else result

    @staticmethod
    def describe_action(game: Any, action: int) -> str:
        """Name a cell, or the pass."""
        if action == game.rows * game.columns:
            return "pass"
        return SquareRules.describe_action(game, action)

    @classmethod
    def parse_action(cls, game: Any, text: str) -> int | None:
        """Read a cell's name, "pass", or an action's number."""
        if text.lower() == "pass":
            return int(game.rows * game.columns)
        return super().parse_action(game, text)
