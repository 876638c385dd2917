"""The rules over whole arrays of states, for what does not run inside a search kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game


@kernel
def encode_states(game, states, out):
    """Write the planes of uint64[N, words] states into float32[N, planes, cells]."""
    for i in range(states.shape[0]):
        rules.encode(game, states[i], out[i])


def symmetry_tables(game: Game) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where each symmetry moves cells, int32[S, cells], and actions, int32[S, actions]."""
    symmetries = range(rules.symmetries(game))
    cells = [[rules.cell_image(game, s, c) for c in range(game[0] * game[1])] for s in symmetries]
    actions = [[rules.action_image(game, s, a) for a in range(rules.actions(game))] for s in symmetries]
    return np.array(cells, np.int32), np.array(actions, np.int32)


def start_states(game: Game, count: int) -> NDArray[np.uint64]:
    """Return `count` copies of the first position, uint64[count, words]."""
    states = np.empty((count, rules.words(game)), np.uint64)
    rules.start(game, states[0])
    states[1:] = states[0]
    return states
