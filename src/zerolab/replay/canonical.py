"""One image for all positions that the symmetries of a game turn into each other."""

from __future__ import annotations

import numpy as np

from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.replay.rows import STATES, Columns
from zerolab.rules import encoding, host
from zerolab.rules.interface import Game


def canonical(game: Game, columns: Columns) -> Columns:
    """Return rows with the smallest image of each state, read as a number, and what belongs to it.

    Columns with entries per action, [N, actions], are turned along with the states.
    """
    states = np.empty_like(columns[STATES])
    images = np.empty(len(states), np.int64)
    _smallest(game, columns[STATES], images, states, np.empty_like(states[:1]))
    _, action_images = host.symmetry_tables(game)
    turned = dict(columns)
    for name, column in columns.items():
        if name != STATES and column.ndim > 1 and column.size:
            turned[name] = np.empty_like(column)
            np.put_along_axis(turned[name], action_images[images], column, axis=1)
    return {**turned, STATES: states}


@kernel
def _smallest(game, states, images, smallest, scratch):
    """Write the smallest image of each of uint64[N, words] states, and its symmetry int64[N]."""
    image = scratch[0]
    for i in range(states.shape[0]):
        copy_row(states[i], smallest[i])
        images[i] = 0
        for symmetry in range(1, encoding.symmetries(game)):
            encoding.transform(game, states[i], symmetry, image)
            if _is_less(image, smallest[i]):
                copy_row(image, smallest[i])
                images[i] = symmetry


@inlined
def _is_less(one, other):
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return one[word] < other[word]
    return False
