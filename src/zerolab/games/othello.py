"""Othello on any rectangle, with the start square and pass rule of FACTS 1."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules import boards
from zerolab.rules.catalogue import register_game
from zerolab.rules.interface import DRAW, LOSS, ONGOING, WIN
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


@inlined
def _moves_along(own, other, step):
    """Return the empty-or-not cells that end a line of other's discs, in both directions."""
    up = other & (own << step)
    down = other & (own >> step)
    for _ in range(5):
        up |= other & (up << step)
        down |= other & (down >> step)
    return (up << step) | (down >> step)


@inlined
def _moves(rows, columns, own, other):
    """Return the cells on which the owner of `own` may put a disc.

    A line over a vertical edge would have to turn a disc of an edge column; those are removed
    from the discs that may be turned along rows and diagonals.
    """
    inner = other & _INNER_COLUMNS[columns]
    found = _moves_along(own, inner, np.uint64(1))
    found |= _moves_along(own, other, np.uint64(columns))
    found |= _moves_along(own, inner, np.uint64(columns - 1))
    found |= _moves_along(own, inner, np.uint64(columns + 1))
    return found & ~(own | other) & boards.full_board(rows, columns)


@inlined
def _turned_along(disc, own, other, step):
    """Return the discs that a new disc turns, in both directions of one line."""
    up = other & (disc << step)
    down = other & (disc >> step)
    for _ in range(5):
        up |= other & (up << step)
        down |= other & (down >> step)
    turned = boards.ZERO
    if (up << step) & own:
        turned |= up
    if (down >> step) & own:
        turned |= down
    return turned


@inlined
def _turned(columns, disc, own, other):
    inner = other & _INNER_COLUMNS[columns]
    turned = _turned_along(disc, own, inner, np.uint64(1))
    turned |= _turned_along(disc, own, other, np.uint64(columns))
    turned |= _turned_along(disc, own, inner, np.uint64(columns - 1))
    return turned | _turned_along(disc, own, inner, np.uint64(columns + 1))


@inlined
def _neighbours(columns, discs):
    """Return cells next to the discs, of those on the left and right edge only up and down.

    Bits beyond the board may be set.
    """
    row = boards.word(columns)
    inner = discs & _INNER_COLUMNS[columns]
    beside = (inner << boards.ONE) | (inner >> boards.ONE) | inner
    return beside | (beside << row) | (beside >> row) | (discs << row) | (discs >> row)


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
        difference = boards.popcount(own) - boards.popcount(other)
        if difference > 0:
            return WIN
        return LOSS if difference < 0 else DRAW

    @staticmethod
    def score(game, state):
        return boards.popcount(state[0]) - boards.popcount(state[1])

    @staticmethod
    def score_bounds(game, state):
        cells = game.rows * game.columns
        return -cells, cells

    @staticmethod
    def candidates(game, state, out):
        moves = _moves(game.rows, game.columns, state[0], state[1])
        if moves == boards.ZERO:
            out[0] = game.rows * game.columns
            return 1
        return boards.list_cells(moves, out)

    @staticmethod
    def promise(game, state):
        """See `interface.promise`: few replies, few corners, a small frontier."""
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
