"""BitBully: solves any position of Connect Four 6x7 in well under a second."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.games.connect_four import ConnectFour
from zerolab.oracles.interface import ILLEGAL
from zerolab.rules import host

BITBULLY_GAME = ConnectFour(rows=6, columns=7)


class BitBullyOracle:
    """The oracle for ``connect_four:6x7``; its scores are those of `hints.win_score`.

    [BitBully] is under the AGPL, and therefore an extra. It holds the interpreter lock: several of
    them work in parallel only in separate processes.
    """

    def __init__(self) -> None:
        """Load BitBully and its opening book; raise UserError if it is not installed."""
        try:
            package: Any = importlib.import_module("bitbully")
            self._solver, self._board = package.BitBully(), package.Board
        except ImportError as error:
            raise UserError(
                'connect_four:6x7 is solved by BitBully: install the extra "oracle", as in'
                " pip install 'zerolab[oracle]'"
            ) from error

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Oracle.action_values`."""
        values = np.full((len(states), BITBULLY_GAME.columns), ILLEGAL, np.int32)
        planes = host.encode_batch(BITBULLY_GAME, states)[:, 0].astype(np.int64)
        for board, row in zip(planes, values, strict=True):
            second_to_move = (board > 0).sum() < (board < 0).sum()
            numbers = np.where(board == 0, 0, np.where((board > 0) ^ second_to_move, 1, 2))
            scores = self._solver.score_all_moves(self._board.from_array(numbers.tolist()))
            for column, score in scores.items():
                row[column] = score
        return values
