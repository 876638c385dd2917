"""Small games of every kind, and random positions."""

from __future__ import annotations

import numpy as np

from zerolab.rules.catalogue import registered_games
from zerolab.rules.position import Position


def _smallest_rectangle(name):
    rows, columns = list(registered_games()[name].field_bounds().values())[:2]
    return f"{name}:{rows[0]}x{columns[0] + 1}"


SMALL_GAMES = [_smallest_rectangle(name) for name in registered_games()]


def play_randomly(game, seed, plies):
    """Return the position after `plies` random plies, or the last one before the game ends."""
    random = np.random.default_rng(seed)
    position = Position.start(game)
    for _ in range(plies):
        after = position.play(int(random.choice(position.legal_actions)))
        if after.outcome is not None:
            break
        position = after
    return position
