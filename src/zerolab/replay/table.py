"""Where the window has a state: a hash table of slots with open addressing and linear probing.

It holds numbers of slots; the states themselves, which are compared word by word, stay in the rows.
Removing closes the gap [Knuth1998, Section 6.4, Algorithm R], so that no entry is left behind
that would slow down what comes later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.streams import mix

_EMPTY = -1


def empty_table(rows: int) -> NDArray[np.int32]:
    """Return a table for `rows` rows, int32[size]: at most half of it gets filled."""
    return np.full(1 << max(4, (2 * rows - 1).bit_length()), _EMPTY, np.int32)


@inlined
def _home(table, states, slot):
    """Return the entry at which a state is looked for first."""
    key = np.uint64(0)
    for word in range(states.shape[1]):
        key = mix(key ^ states[slot, word])
    return np.int64(key & np.uint64(table.shape[0] - 1))


@inlined
def _are_equal(one, i, other, j):
    same = True
    for word in range(one.shape[1]):
        same &= one[i, word] == other[j, word]
    return same


@inlined
def _entry(table, states, wanted, i):
    """Return the entry of state i of `wanted`, or the empty one where it would go."""
    last = table.shape[0] - 1
    entry = _home(table, wanted, i)
    while table[entry] != _EMPTY and not _are_equal(states, table[entry], wanted, i):
        entry = (entry + 1) & last
    return entry


@kernel
def find_or_insert(table, states, wanted, fresh, owners):
    """Find the slot of each of `wanted`, uint64[N, words], or enter it with the next fresh slot.

    Writes owners int32[N]. `states`, uint64[capacity, words], are those of all slots; the states of
    `fresh` slots, int32[at least N], are set as they are used. Returns how many were.
    """
    used = 0
    for i in range(wanted.shape[0]):
        entry = _entry(table, states, wanted, i)
        if table[entry] == _EMPTY:
            slot = fresh[used]
            used += 1
            table[entry] = slot
            for word in range(wanted.shape[1]):
                states[slot, word] = wanted[i, word]
        owners[i] = table[entry]
    return used


@kernel
def insert(table, states, slots):
    """Enter `slots`, int32[N], whose states are not in the table."""
    for i in range(slots.shape[0]):
        table[_entry(table, states, states, slots[i])] = slots[i]


@kernel
def remove(table, states, slots):
    """Remove `slots`, int32[N], which must be in the table."""
    last = table.shape[0] - 1
    for i in range(slots.shape[0]):
        gap = _entry(table, states, states, slots[i])
        entry = (gap + 1) & last
        while table[entry] != _EMPTY:
            home = _home(table, states, table[entry])
            if ((entry - home) & last) >= ((entry - gap) & last):
                table[gap] = table[entry]
                gap = entry
            entry = (entry + 1) & last
        table[gap] = _EMPTY
