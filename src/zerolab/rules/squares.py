"""What games on a rectangle of cells share, when a state begins (own stones, other's stones)."""

from __future__ import annotations

import re
import string
from typing import Any

from zerolab.core import streams
from zerolab.rules import boards
from zerolab.rules.interface import Rules, transform_cell


class SquareRules(Rules):
    """Rules of a game whose state begins with two words, bit i of each being cell i.

    The game has the fields ``rows`` and ``columns``, every cell is the action of the same number,
    legal where it is empty, and the symmetries are those of the rectangle. Actions beyond the
    cells map to themselves. A game overrides what differs.
    """

    @staticmethod
    def words(game):
        return 2

    @staticmethod
    def actions(game):
        return game.rows * game.columns

    @staticmethod
    def planes(game):
        return 1

    @staticmethod
    def symmetries(game):
        return boards.rectangle_symmetries(game.rows, game.columns)

    @staticmethod
    def start(game, out):
        out[:] = boards.ZERO

    @staticmethod
    def legal(game, state, mask):
        taken = state[0] | state[1]
        for cell in range(game.rows * game.columns):
            mask[cell] = not (taken >> boards.word(cell)) & boards.ONE

    @staticmethod
    def remaining(game, state):
        return game.rows * game.columns - boards.popcount(state[0] | state[1])

    @staticmethod
    def random_action(game, state, random):
        empty = boards.full_board(game.rows, game.columns) & ~(state[0] | state[1])
        return boards.nth_set_bit(empty, streams.below(random, boards.popcount(empty)))

    @staticmethod
    def encode(game, state, out):
        own = state[0]
        other = state[1]
        for cell in range(game.rows * game.columns):
            out[0, cell] = boards.stone(own, other, cell)

    @staticmethod
    def transform(game, state, symmetry, out):
        out[0] = boards.rectangle_transform(state[0], game.rows, game.columns, symmetry)
        out[1] = boards.rectangle_transform(state[1], game.rows, game.columns, symmetry)

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return boards.rectangle_image(game.rows, game.columns, symmetry, cell)

    @staticmethod
    def transform_action(game, symmetry, action):
        if action >= game.rows * game.columns:
            return action
        return transform_cell(game, symmetry, action)

    @staticmethod
    def describe_action(game: Any, action: int) -> str:
        """Name a cell by its column's letter and its row's number, counted from the top."""
        row, column = divmod(action, game.columns)
        return f"{string.ascii_lowercase[column]}{row + 1}"

    @classmethod
    def parse_action(cls, game: Any, text: str) -> int | None:
        """Read a cell's name such as "c2", or an action's number."""
        named = re.fullmatch(r"([a-z])([1-9]\d?)", text.lower())
        if named is None:
            return super().parse_action(game, text)
        row, column = int(named[2]) - 1, string.ascii_lowercase.index(named[1])
        return row * game.columns + column if row < game.rows and column < game.columns else None
