"""Drawings of boards on web pages, which games declare as data.

`report.board_shapes` computes their shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from zerolab.rules import compiled_rules
from zerolab.rules.rules import LOSS, Game, State

Owner = Literal["first", "second"]


class Drawing(BaseModel):
    """Appearance of a game's board; by default, squares with red and blue pieces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cells: Literal["squares", "points", "holes", "hexagons"] = "squares"
    """Points are crossings of lines. Holes are those of an upright frame, into whose columns pieces
    fall. Each row of hexagons is half a cell further to the right than the row above."""
    surface: Literal["plain", "felt", "wood", "frame"] = "plain"
    """Material of the board."""
    pieces: Literal["red_and_blue", "red_and_yellow", "black_and_white"] = "red_and_blue"
    """Colours of the first and the second player."""
    edges: tuple[Owner, Owner, Owner, Owner] | None = None
    """Owners of the top, right, bottom and left edge, in games that connect edges."""
    decided_by: Literal["line", "count", "other"] = "other"
    """Criterion that decides a game: a line or chain of pieces, which is marked, or the number of
    pieces, which is shown. With ``line``, the first two words of a state must be the pieces of the
    mover and of the opponent, as in docs/add-a-game.md."""


def winning_cells(game: Game, state: State) -> list[int]:
    """Return the cells of the line or chain of pieces that won, numbered row by row.

    The game must be decided by a line. The line consists of the pieces that are left after removing
    every piece without which the winner still wins, in ascending and in descending order. It is
    empty in an ongoing game, and if the last player has not won.
    """
    if compiled_rules.outcome(game, state) != LOSS:
        return []
    bits = [bit for bit in range(64) if int(state[1]) >> bit & 1]
    lines = [_needed_pieces(game, state, order) for order in (bits, bits[::-1])]
    cells = np.flatnonzero(np.any(lines, axis=0))
    return [int(cell) for cell in cells]


def _needed_pieces(game: Game, state: State, order: Iterable[int]) -> list[bool]:
    """Remove the winner's pieces in `order` unless they are needed; return the cells left."""
    left = state.copy()
    for bit in order:
        fewer = left.copy()
        fewer[1] ^= np.uint64(1) << np.uint64(bit)
        if compiled_rules.outcome(game, fewer) == LOSS:
            left = fewer
    planes = compiled_rules.encode(game, left)
    return [bool(piece < 0) for piece in planes[0].ravel()]
