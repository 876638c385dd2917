"""The oracle protocol, and BitBully for Connect Four 6x7."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import MissingExtraError, UserError
from zerolab.games.connect_four import ConnectFour
from zerolab.rules import python

ILLEGAL = np.iinfo(np.int32).min
"""The value of an action that is not legal."""


class NotSolvedError(UserError):
    """A position was not solved within the budget of nodes or seconds."""


class Oracle(Protocol):
    """Source of the exact value of every move of a game under perfect play.

    A value is a score for the player to move: positive if the move wins, 0 if it draws, negative
    if it loses. Larger is better: more discs in Othello, in other games a faster win or a slower
    loss. The best moves are those of the highest value.
    """

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the values int32[n, actions] of ongoing states uint64[n, words].

        Illegal actions have the value ILLEGAL. Raises NotSolvedError when the budget of nodes or
        seconds is spent; values are never estimates.
        """
        ...

    def first_best(
        self, states: NDArray[np.uint64], orders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the first action of each order that has the highest value, int64[n].

        `orders` int64[n, actions] are permutations of the actions; random ones make each of the
        best actions equally likely. Oracles override this if they find the action faster than the
        values of all actions. Raises NotSolvedError like `action_values`.
        """
        best = np.take_along_axis(best_mask(self.action_values(states)), orders, axis=1)
        rows = np.arange(len(orders))
        first: NDArray[np.int64] = orders[rows, best.argmax(axis=1)]
        return first


def best_mask(values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return the mask of the highest values in each row of [n, actions], bool[n, actions]."""
    best: NDArray[np.bool_] = values == values.max(axis=1, keepdims=True)
    return best


BITBULLY_GAME = ConnectFour(rows=6, columns=7)

_BOOK_DISCS = 12
"""Most discs of positions in the opening book."""
_REMEMBERED_DISCS = 7
"""Most discs of positions whose values are kept in memory. There are only about 81,000, which take
milliseconds each because the book starts several plies later."""


class BitBullyOracle(Oracle):
    """BitBully [BitBully], which solves positions of ``connect_four:6x7`` in well under a second.

    Its scores are those of `hints.win_score`. It is an extra because of its licence, the AGPL. It
    holds the interpreter lock, so that several of them need separate processes.
    """

    def __init__(self) -> None:
        """Load BitBully and its opening book; raise MissingExtraError if it is not installed."""
        try:
            package: Any = importlib.import_module("bitbully")
            self._solver, self._board = package.BitBully(), package.Board
        except ImportError as error:
            raise MissingExtraError(
                'connect_four:6x7 is solved by BitBully: install the extra "oracle", as in'
                " pip install 'zerolab[oracle]'"
            ) from error
        self._early: dict[bytes, NDArray[np.int32]] = {}

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        numbers = _as_numbers(states)
        values = [self._values(board) for board in numbers]
        return np.array(values, np.int32).reshape(len(states), BITBULLY_GAME.columns)

    def first_best(
        self, states: NDArray[np.uint64], orders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the first action of each order that has the highest value, int64[n].

        After the opening, it computes the value of the position and tests the moves one by one with
        a null window, which takes about a tenth of the time of exact values of all moves.
        """
        found = np.empty(len(states), np.int64)
        for row, (board, order) in enumerate(zip(_as_numbers(states), orders, strict=True)):
            if (board > 0).sum() < _BOOK_DISCS:
                best = best_mask(self._values(board)[None])[0]
                found[row] = order[best[order].argmax()]
            else:
                found[row] = self._first_best_column(
                    self._board.from_array(board.tolist()), order.tolist()
                )
        return found

    def _values(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the values int32[columns] of a board [rows, columns], as BitBully numbers it."""
        key = numbers.astype(np.int8).tobytes()
        if key in self._early:
            return self._early[key]
        row = np.full(BITBULLY_GAME.columns, ILLEGAL, np.int32)
        scores = self._solver.score_all_moves(self._board.from_array(numbers.tolist()))
        row[list(scores)] = list(scores.values())
        if (numbers > 0).sum() <= _REMEMBERED_DISCS:
            self._early[key] = row
        return row

    def _first_best_column(self, board: Any, order: list[int]) -> int:
        legal = set(board.legal_moves())
        after = {column: board.play_on_copy(column) for column in order if column in legal}
        for column, child in after.items():
            if child.has_win():
                return column
        *others, last = after
        if others:
            value = self._solver.mtdf(board, first_guess=0)
            for column in others:
                if self._is_at_most(after[column], -value):
                    return column
        return last

    def _is_at_most(self, board: Any, value: int) -> bool:
        found: int = self._solver.negamax(board, alpha=value, beta=value + 1, depth=0)
        return found <= value


def _as_numbers(states: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return boards [n, rows, columns] of states: 1 for the first player, 2 for the second."""
    planes = python.encode_batch(BITBULLY_GAME, states)[:, 0].astype(np.int64)
    second_to_move = (planes.sum(axis=(1, 2)) < 0)[:, None, None]
    first = np.where(second_to_move, -planes, planes)
    return np.where(first < 0, 2, first)
