"""Notation: names of actions and drawings of boards, for people. Kernels never call it.

Terms: see the glossary of `rules.interface`. Nothing is required: by default actions are named by
their numbers, and a board is drawn as rows of pieces under the letters of its columns.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game, State

PLAIN: Mapping[int, str] = {1: "X", -1: "O", 0: "."}
"""How the first player's pieces, the second player's, and empty cells are drawn."""

COLOURED: Mapping[int, str] = {
    1: "\x1b[1;31mX\x1b[0m",
    -1: "\x1b[1;34mO\x1b[0m",
    0: "\x1b[2m.\x1b[0m",
}
"""The same in the colours of a terminal."""


class Notation:
    """Base of a game's notation."""

    @staticmethod
    def action_name(game: Game, action: int) -> str:
        """Return the name of an action; no two actions share one."""
        return str(action)

    @classmethod
    def parse_action(cls, game: Game, text: str) -> int | None:
        """Return the action that a text names, or None; the number of an action always works."""
        is_number = text.isdecimal() and len(text) < 10  # Python refuses to read very long ones
        return int(text) if is_number and int(text) < rules.actions(game) else None

    @staticmethod
    def column_label(game: Game, column: int) -> str:
        """Return the label above a column of the board: a letter, counted from a."""
        return string.ascii_lowercase[column]

    @staticmethod
    def board(game: Game, state: State) -> NDArray[np.int8]:
        """Return int8[rows, columns]: 1 for the mover's pieces, -1 for the other player's.

        By default this is plane 0 of the encoding.
        """
        return host.encode(game, state)[0].astype(np.int8)

    @classmethod
    def set_up(cls, game: Game, board: NDArray[np.int8], first_to_move: bool) -> State:
        """Return the state of pieces that somebody has put on the board, the inverse of `board`.

        `board`, int8[rows, columns], is seen by the mover, who made the first action of the game if
        `first_to_move`. Raises UserError for pieces that no game can lead to, as far as is easy to
        tell; by default for all.
        """
        raise UserError("pieces cannot be set up in this game: expected moves instead")

    @classmethod
    def draw(cls, game: Game, board: NDArray[np.int8], symbols: Mapping[int, str]) -> list[str]:
        """Return the lines of a drawing: the columns' labels, then the rows, numbered from 1.

        `board`, int8[rows, columns], holds 1 for the first player's pieces and -1 for the second
        player's; `symbols` is PLAIN or COLOURED.
        """
        labels = (cls.column_label(game, column) for column in range(board.shape[1]))
        rows = (
            f"{number} {' '.join(symbols[int(piece)] for piece in row)}"
            for number, row in enumerate(board, start=1)
        )
        return ["  " + " ".join(labels), *rows]
