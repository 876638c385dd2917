"""Evaluations by position: one for equal positions of a step, kept for later steps.

Both uses change nothing where the evaluator's answers do not depend on the batch (see
`SearchSettings.cache`). The table is bounded: a position may be stored in any of four neighbouring
slots, and the oldest entry there is replaced.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.core.streams import mix

_WAYS = 4
NO_SLOT = -1


class Cache(NamedTuple):
    """`size` evaluations, a power of two; the last slots wrap around to the first."""

    states: NDArray[np.uint64]  # [size, words]
    step: NDArray[np.int64]  # [size] the step that requested it, 0 where there is none
    row: NDArray[np.int32]  # [size] its row in that step's batch
    priors: NDArray[np.float32]  # [size, actions]
    values: NDArray[np.float32]  # [size]
    draws: NDArray[np.float32]  # [size], or [0] where they are not wanted
    action_values: NDArray[np.float32]  # [size, actions], or [size, 0]


def empty_cache(positions: int, words: int, actions: int, wanted: Collection[str] = ()) -> Cache:
    """Allocate a cache for at least `positions` positions; see `interface.read` for `wanted`."""
    size = max(_WAYS, 1 << (positions - 1).bit_length())
    return Cache(
        states=np.zeros((size, words), np.uint64),
        step=np.zeros(size, np.int64),
        row=np.zeros(size, np.int32),
        priors=np.empty((size, actions), np.float32),
        values=np.empty(size, np.float32),
        draws=np.empty(size if "draws" in wanted else 0, np.float32),
        action_values=np.empty((size, actions if "action_values" in wanted else 0), np.float32),
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
    """Return the slot of a state requested in step `earliest` or later, or NO_SLOT."""
    size = cache.step.shape[0]
    slot = np.int64(hash_state(state) & np.uint64(size - 1))
    for _ in range(_WAYS):
        if cache.step[slot] >= earliest and cache.step[slot] > 0:
            same = True
            for word in range(state.shape[0]):
                same &= cache.states[slot, word] == state[word]
            if same:
                return slot
        slot = (slot + 1) & (size - 1)
    return NO_SLOT


@inlined
def reserve(cache, state, step, row):
    """Reserve a slot for a state whose evaluation is row `row` of the batch of this step.

    Returns NO_SLOT if all its slots are waiting for evaluations of this step.
    """
    size = cache.step.shape[0]
    slot = np.int64(hash_state(state) & np.uint64(size - 1))
    oldest = slot
    for _ in range(_WAYS):
        if cache.step[slot] < cache.step[oldest]:
            oldest = slot
        slot = (slot + 1) & (size - 1)
    if cache.step[oldest] == step:
        return NO_SLOT
    cache.step[oldest] = step
    cache.row[oldest] = row
    cache.states[oldest] = state
    return oldest
