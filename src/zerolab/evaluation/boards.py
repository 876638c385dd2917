"""Kernels for many positions at once: their moves replayed, their masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import ONGOING, Game

_ALL_LEGAL = -1


def replay(
    game: Game, moves: NDArray[np.int16], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_], int | None]:
    """Play the moves of n positions from the start of the game.

    The moves of position i are ``moves[offsets[i]:offsets[i + 1]]``. Returns the states
    uint64[n, words], the legal actions bool[n, actions], and the number of the first position that
    the moves do not lead to, because one is not legal or the game is over; None where all do.
    """
    count = len(offsets) - 1
    states = np.empty((count, rules.words(game)), np.uint64)
    masks = np.empty((count, rules.actions(game)), np.bool_)
    wrong = int(_replay(game, moves, offsets, states, masks))
    return states, masks, None if wrong == _ALL_LEGAL else wrong


def legal_masks(game: Game, states: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which actions are legal in ongoing states uint64[n, words], bool[n, actions]."""
    masks = np.empty((len(states), rules.actions(game)), np.bool_)
    _write_legal(game, states, masks)
    return masks


@kernel
def _replay(game: Any, moves: Any, offsets: Any, states: Any, masks: Any) -> Any:
    for i in range(states.shape[0]):
        state = states[i]
        rules.start(game, state)
        for at in range(offsets[i], offsets[i + 1]):
            move: Any = np.int64(moves[at])
            if rules.outcome(game, state) != ONGOING or not 0 <= move < masks.shape[1]:
                return i
            rules.legal(game, state, masks[i])
            if not masks[i, move]:
                return i
            rules.apply(game, state, move, state)
        if rules.outcome(game, state) != ONGOING:
            return i
        rules.legal(game, state, masks[i])
    return _ALL_LEGAL


@kernel
def _write_legal(game: Any, states: Any, masks: Any) -> None:
    for i in range(states.shape[0]):
        rules.legal(game, states[i], masks[i])
