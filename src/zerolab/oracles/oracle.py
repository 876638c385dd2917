"""Oracle protocol, and BitBully for Connect Four 6x7."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import MissingExtraError, UserError
from zerolab.games.connect_four import ConnectFour
from zerolab.rules import compiled_rules

ILLEGAL_VALUE = np.iinfo(np.int32).min
"""Value of illegal actions."""


class NotSolvedError(UserError):
    """Error for a position that was not solved within the budget of nodes or seconds."""


class Oracle(Protocol):
    """Source of the exact value of every move of a game under perfect play.

    A value is a score for the player to move: positive if the move wins, 0 if it draws, negative if
    it loses. Its magnitude is the disc difference in Othello; in Connect Four and Gobang, faster
    wins have higher values, and slower losses less negative ones. The best moves are those with the
    highest value.
    """

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return int32[n, actions]: exact values for ongoing states, uint64[n, words].

        Illegal actions have the value `ILLEGAL_VALUE`. Raises NotSolvedError if the budget of nodes
        or seconds is exceeded.
        """
        ...

    def first_best_in_orders(
        self, states: NDArray[np.uint64], orders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[n]: the first action in each order that has the highest value.

        `orders`, int64[n, actions], are permutations of the actions; random permutations make all
        best actions equally likely. Oracles override this if they can find this action faster than
        the values of all actions. Raises NotSolvedError as `action_values` does.
        """
        best = np.take_along_axis(best_mask(self.action_values(states)), orders, axis=1)
        rows = np.arange(len(orders))
        first: NDArray[np.int64] = orders[rows, best.argmax(axis=1)]
        return first


def best_mask(values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return bool[n, actions]: the mask of the highest values in each row of `values`."""
    best: NDArray[np.bool_] = values == values.max(axis=1, keepdims=True)
    return best


BITBULLY_GAME = ConnectFour(rows=6, columns=7)

_BOOK_DISCS = 12
"""Number of discs in every position of the opening book."""
_CACHED_DISCS = 7
"""Maximum number of discs in positions whose values are cached.

There are fewer than 77,000 of these positions. Each takes milliseconds to solve, since the
positions of the opening book are several plies away.
"""


class BitBullyOracle(Oracle):
    """BitBully [BitBully], which solves positions in ``connect_four:6x7`` in well under a second.

    Scores are defined as in `rules.win_score`. BitBully is an optional dependency because of
    its licence, the AGPL. It does not release the interpreter lock, so parallel solving requires
    several processes.
    """

    def __init__(self) -> None:
        """Load BitBully and its opening book; raise MissingExtraError if it is not installed."""
        try:
            package: Any = importlib.import_module("bitbully")
            self._solver, self._board = package.BitBully(), package.Board
        except ImportError as error:
            raise MissingExtraError.for_package(
                "fast solving of connect_four:6x7", "BitBully", "oracle"
            ) from error
        self._cache: dict[bytes, NDArray[np.int32]] = {}

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        values = [self._values(board) for board in _bitbully_boards(states)]
        return np.array(values, np.int32).reshape(len(states), BITBULLY_GAME.columns)

    def first_best_in_orders(
        self, states: NDArray[np.uint64], orders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[n]: the first action in each order that has the highest value.

        After the opening, this computes the value of the position and tests the moves one by one
        with a null window. This takes about a tenth of the time needed for the exact values of all
        moves.
        """
        actions = np.empty(len(states), np.int64)
        for row, (board, order) in enumerate(zip(_bitbully_boards(states), orders, strict=True)):
            if (board > 0).sum() < _BOOK_DISCS:
                best = best_mask(self._values(board)[None])[0]
                actions[row] = order[best[order].argmax()]
            else:
                actions[row] = self._first_best_column(
                    self._board.from_array(board.tolist()), order.tolist()
                )
        return actions

    def _values(self, board: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return int32[columns]: values of a board in BitBully's format."""
        key = board.astype(np.int8).tobytes()
        if key in self._cache:
            return self._cache[key]
        values = np.full(BITBULLY_GAME.columns, ILLEGAL_VALUE, np.int32)
        scores = self._solver.score_all_moves(self._board.from_array(board.tolist()))
        values[list(scores)] = list(scores.values())
        if (board > 0).sum() <= _CACHED_DISCS:
            self._cache[key] = values
        return values

    def _first_best_column(self, board: Any, order: list[int]) -> int:
        legal = set(board.legal_moves())
        children = {column: board.play_on_copy(column) for column in order if column in legal}
        for column, child in children.items():
            if child.has_win():
                return column
        *others, last = children
        if others:
            value = self._solver.mtdf(board, first_guess=0)
            for column in others:
                score = self._solver.negamax(
                    children[column], alpha=-value, beta=1 - value, depth=0
                )
                if score <= -value:
                    return column
        return last


def _bitbully_boards(states: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return int64[n, rows, columns]: boards in BitBully's format.

    The first player's pieces are 1, and the second player's are 2.
    """
    planes = compiled_rules.encode_batch(BITBULLY_GAME, states)[:, 0].astype(np.int64)
    second_to_move = (planes.sum(axis=(1, 2)) < 0)[:, None, None]
    first = np.where(second_to_move, -planes, planes)
    return np.where(first < 0, 2, first)
