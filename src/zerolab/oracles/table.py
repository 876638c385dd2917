"""The transposition table: bounds of positions already searched, in bounded memory.

An entry keeps the whole state, not only a hash of it, so that no position is mistaken for another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.memory import copy_row

NO_MOVE = 0xFFFF
LOWEST = -(1 << 14)
HIGHEST = 1 << 14

_FIELD = np.uint64(0xFFFF)
_BIAS = 1 << 15


class Table(NamedTuple):
    """Pairs of entries: in each, the first keeps the larger effort, the second the latest."""

    keys: NDArray[np.uint64]  # [entries, words] states
    bounds: NDArray[np.uint64]  # [entries] four fields of 16 bits; 0 where the entry is empty


class Entry(NamedTuple):
    """What is known of a position: bounds of its value, and the move that caused a cutoff."""

    low: np.int64
    high: np.int64
    move: np.int64
    effort: np.int64
    """The binary logarithm of the nodes that were searched, at least 1; 0 if nothing is known."""


def empty_table(words: int, mebibytes: int) -> Table:
    """Return a table that takes at most `mebibytes` MiB."""
    bytes_each = 8 * (words + 1)
    entries = 2
    while 2 * entries * bytes_each <= mebibytes << 20:
        entries *= 2
    return Table(np.zeros((entries, words), np.uint64), np.zeros(entries, np.uint64))


@inlined
def _pair_of(table, state):
    """Return the index of the first entry of the only pair that may hold a state."""
    hashed = np.uint64(0)
    for word in range(state.shape[0]):
        hashed = streams.mix(hashed ^ state[word])
    return np.int64(hashed & np.uint64(table.bounds.shape[0] - 1)) & ~1


@inlined
def _holds(table, entry, state):
    for word in range(state.shape[0]):
        if table.keys[entry, word] != state[word]:
            return False
    return table.bounds[entry] != np.uint64(0)


@inlined
def _unpack(packed):
    return Entry(
        np.int64(packed & _FIELD) - _BIAS,
        np.int64((packed >> np.uint64(16)) & _FIELD) - _BIAS,
        np.int64((packed >> np.uint64(32)) & _FIELD),
        np.int64(packed >> np.uint64(48)),
    )


@inlined
def _pack(low, high, move, effort):
    return (
        np.uint64(low + _BIAS)
        | np.uint64(high + _BIAS) << np.uint64(16)
        | np.uint64(move) << np.uint64(32)
        | np.uint64(effort) << np.uint64(48)
    )


@inlined
def probe(table, state):
    """Return the entry of a state: LOWEST, HIGHEST, NO_MOVE and 0 if nothing is known."""
    pair = _pair_of(table, state)
    if _holds(table, pair, state):
        return _unpack(table.bounds[pair])
    if _holds(table, pair + 1, state):
        return _unpack(table.bounds[pair + 1])
    return Entry(np.int64(LOWEST), np.int64(HIGHEST), np.int64(NO_MOVE), np.int64(0))


@inlined
def store(table, state, low, high, move, effort):
    """Intersect bounds of a state with those known; NO_MOVE keeps the move that is known."""
    pair = _pair_of(table, state)
    entry = pair + 1
    if _holds(table, pair, state):
        entry = pair
    if _holds(table, entry, state):
        known = _unpack(table.bounds[entry])
        low = max(low, known.low)
        high = min(high, known.high)
        effort = max(effort, known.effort)
        if move == NO_MOVE:
            move = known.move
    elif effort >= _unpack(table.bounds[pair]).effort:
        copy_row(table.keys[pair], table.keys[pair + 1])
        table.bounds[pair + 1] = table.bounds[pair]
        entry = pair
    copy_row(state, table.keys[entry])
    table.bounds[entry] = _pack(low, high, move, effort)
