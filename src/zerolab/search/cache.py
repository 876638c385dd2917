"""Evaluations by position: one for equal positions of a wave, kept for later waves.

Both uses are exact, because an evaluator answers equal states equally. The table is bounded: a
position may stand in any of four neighbouring places, and the oldest there makes room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.core.streams import mix

_PLACES = 4
NOWHERE = -1


class Cache(NamedTuple):
    """`size` evaluations, a power of two; the last places wrap around to the first."""

    states: NDArray[np.uint64]  # [size, words]
    wave: NDArray[np.int64]  # [size] the wave that asked for it, 0 where there is none
    row: NDArray[np.int32]  # [size] its row in that wave's batch
    priors: NDArray[np.float32]  # [size, actions]
    values: NDArray[np.float32]  # [size]


def empty_cache(positions: int, words: int, actions: int) -> Cache:
    """Allocate a cache for at least `positions` positions."""
    size = max(_PLACES, 1 << (positions - 1).bit_length())
    return Cache(
        states=np.zeros((size, words), np.uint64),
        wave=np.zeros(size, np.int64),
        row=np.zeros(size, np.int32),
        priors=np.empty((size, actions), np.float32),
        values=np.empty(size, np.float32),
    )


@inlined
def hash_state(state):
    """Return 64 bits that depend on every word of a state."""
    key = np.uint64(0)
    for word in range(state.shape[0]):
        key = mix(key ^ state[word])
    return key


@inlined
def find(cache, state, earliest):
    """Return the place of a state asked for in wave `earliest` or later, or NOWHERE."""
    size = cache.wave.shape[0]
    place = np.int64(hash_state(state) & np.uint64(size - 1))
    for _ in range(_PLACES):
        if cache.wave[place] >= earliest and cache.wave[place] > 0:
            same = True
            for word in range(state.shape[0]):
                same &= cache.states[place, word] == state[word]
            if same:
                return place
        place = (place + 1) & (size - 1)
    return NOWHERE


@inlined
def claim(cache, state, wave, row):
    """Reserve a place for a state whose evaluation is row `row` of the batch of this wave.

    Returns NOWHERE if all its places are waiting for evaluations of this wave.
    """
    size = cache.wave.shape[0]
    place = np.int64(hash_state(state) & np.uint64(size - 1))
    oldest = place
    for _ in range(_PLACES):
        if cache.wave[place] < cache.wave[oldest]:
            oldest = place
        place = (place + 1) & (size - 1)
    if cache.wave[oldest] == wave:
        return NOWHERE
    cache.wave[oldest] = wave
    cache.row[oldest] = row
    cache.states[oldest] = state
    return oldest
