"""Kernels for many positions at once: their moves replayed, their masks, their canonical images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.rules import encoding
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


def canonical_images(game: Game, states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the smallest image of each state uint64[n, words] under the game's symmetries.

    Two states have the same one exactly if a symmetry takes one to the other.
    """
    images = np.empty_like(states)
    _write_smallest(game, states, images)
    return images


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


@kernel
def _write_smallest(game: Any, states: Any, images: Any) -> None:
    image = np.empty(states.shape[1], np.uint64)
    for i in range(states.shape[0]):
        copy_row(states[i], images[i])
        for symmetry in range(1, encoding.symmetries(game)):
            encoding.transform(game, states[i], symmetry, image)
            if _precedes(image, images[i]):
                copy_row(image, images[i])


@inlined
def _precedes(one: Any, other: Any) -> bool:
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return bool(one[word] < other[word])
    return False
