"""Exhaustive search, independent of the solver."""

from __future__ import annotations

from functools import cache

import numpy as np

from zerolab.rules.position import Position


def score(position: Position) -> int:
    """Return the final score for the side to move, computed from the displayed board."""
    board = position.board() * (1 if position.first_to_move else -1)
    if type(position.game).__name__ == "Othello":
        return int(board.sum())
    return position.outcome * (int((board == 0).sum()) // 2 + 1)


@cache
def value(position: Position) -> int:
    """Return the value of a position for the side to move."""
    if position.outcome is not None:
        return score(position)
    return max(-value(position.play(action)) for action in position.legal_actions)


def move_values(position: Position) -> dict[int, int]:
    """Return the value of every legal action."""
    return {action: -value(position.play(action)) for action in position.legal_actions}


def random_position(name: str, random: np.random.Generator, max_empty: int) -> Position:
    """Return a random ongoing position with at most `max_empty` empty cells."""
    while True:
        position = Position.start(name)
        while position.outcome is None:
            if (position.board() == 0).sum() <= max_empty:
                return position
            position = position.play(int(random.choice(position.legal_actions)))
