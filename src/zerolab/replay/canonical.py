"""Rows of equal positions, mirrored ones included, made equal before they are merged."""

from __future__ import annotations

import numpy as np

from zerolab.replay.facts import PER_ACTION
from zerolab.replay.rows import STATES, Columns
from zerolab.rules import host
from zerolab.rules.canonical import smallest_images
from zerolab.rules.interface import Game


def canonical(game: Game, columns: Columns) -> Columns:
    """Return rows with the smallest image of each state, read as a number, and what belongs to it.

    Columns with entries per action, [N, actions], are turned along with the states.
    """
    states, symmetries = smallest_images(game, columns[STATES])
    _, action_images = host.symmetry_tables(game)
    turned = dict(columns)
    for name, column in columns.items():
        if name in PER_ACTION and column.size:
            turned[name] = np.empty_like(column)
            np.put_along_axis(turned[name], action_images[symmetries], column, axis=1)
    return {**turned, STATES: states}
