"""Rows of the window: columns, a hash table from states to rows, and the merging of equal ones.

The table has open addressing and linear probing. It holds row numbers; the states, which are
compared word by word, stay in the rows. Removing closes the gap [Knuth1998, Section 6.4,
Algorithm R], so that no entry is left behind that would slow down later searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.streams import mix
from zerolab.replay.window_rules import Merging

RowNumbers = NDArray[np.int32]
Columns = Mapping[str, NDArray[Any]]
"""Equally long columns by name, [N, ...]."""

STATES = "states"
"""The column by which rows are equal."""

_LEAST = 1024


class Rows:
    """Rows that stay in place until they are removed; free rows are used again.

    Memory grows by half where rows run out, one column after the other, so that little is held
    twice. Pages that no row has reached yet take no memory.
    """

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        """[capacity, ...] each; the content of free rows is undefined."""
        self.capacity = 0
        self._free = np.empty(0, np.int32)  # the next one last

    def take(self, count: int, like: Columns) -> RowNumbers:
        """Reserve rows, int32[count], in ascending order while memory is new.

        Columns are made or enlarged with the types and widths of `like`.
        """
        if not self.columns or count > len(self._free):
            self._grow(self.capacity + count - len(self._free), like)
        taken = self._free[: -count - 1 : -1].copy()
        self._free = self._free[: len(self._free) - count]
        return taken

    def give_back(self, numbers: RowNumbers) -> None:
        """Free removed rows."""
        self._free = np.concatenate([self._free, numbers])

    def write(self, numbers: RowNumbers, columns: Columns) -> None:
        """Set whole rows."""
        for name, column in columns.items():
            self.columns[name][numbers] = column

    def _grow(self, wanted: int, like: Columns) -> None:
        size = max(wanted, self.capacity * 3 // 2, _LEAST)
        for name, column in like.items():
            grown = np.empty((size, *column.shape[1:]), column.dtype)
            if name in self.columns:
                grown[: self.capacity] = self.columns[name]
            self.columns[name] = grown
        new = np.arange(size - 1, self.capacity - 1, -1, dtype=np.int32)
        self._free = np.concatenate([new, self._free])
        self.capacity = size


_EMPTY = -1


def empty_table(rows: int) -> NDArray[np.int32]:
    """Return a table for `rows` rows, int32[size]: at most half of it gets filled."""
    return np.full(1 << max(4, (2 * rows - 1).bit_length()), _EMPTY, np.int32)


@inlined
def _home(table, states, row):
    """Return the entry at which the search for a state begins."""
    key = np.uint64(0)
    for word in range(states.shape[1]):
        key = mix(key ^ states[row, word])
    return np.int64(key & np.uint64(table.shape[0] - 1))


@inlined
def _are_equal(one, i, other, j):
    same = True
    for word in range(one.shape[1]):
        same &= one[i, word] == other[j, word]
    return same


@inlined
def _entry(table, states, wanted, i):
    """Return the entry of state i of `wanted`, or the empty one where it belongs."""
    last = table.shape[0] - 1
    entry = _home(table, wanted, i)
    while table[entry] != _EMPTY and not _are_equal(states, table[entry], wanted, i):
        entry = (entry + 1) & last
    return entry


@kernel
def find_or_insert(table, states, wanted, fresh, owners):
    """Find the row of each of `wanted`, uint64[N, words], or enter it with the next fresh row.

    Writes owners int32[N]. `states`, uint64[capacity, words], are those of all rows; the states of
    `fresh` rows, int32[at least N], are set as they are used. Returns the number of rows used.
    """
    used = 0
    for i in range(wanted.shape[0]):
        entry = _entry(table, states, wanted, i)
        if table[entry] == _EMPTY:
            row = fresh[used]
            used += 1
            table[entry] = row
            for word in range(wanted.shape[1]):
                states[row, word] = wanted[i, word]
        owners[i] = table[entry]
    return used


@kernel
def insert(table, states, numbers):
    """Enter rows int32[N] whose states are not in the table."""
    for i in range(numbers.shape[0]):
        table[_entry(table, states, states, numbers[i])] = numbers[i]


@kernel
def remove(table, states, numbers):
    """Remove rows int32[N], which must be in the table."""
    last = table.shape[0] - 1
    for i in range(numbers.shape[0]):
        gap = _entry(table, states, states, numbers[i])
        entry = (gap + 1) & last
        while table[entry] != _EMPTY:
            home = _home(table, states, table[entry])
            if ((entry - home) & last) >= ((entry - gap) & last):
                table[gap] = table[entry]
                gap = entry
            entry = (entry + 1) & last
        table[gap] = _EMPTY


class Merger:
    """Finds the rows of equal positions, and merges new ones into them."""

    def __init__(self, merging: Merging, rows: Rows) -> None:
        self._merging = merging
        self._rows = rows
        self._table = empty_table(0)
        self._held = 0
        self._counts = np.empty(0, np.int32)  # by row: the number of positions it stands for

    def add(self, columns: Columns) -> RowNumbers:
        """Add rows or merge them into equal ones, in their order; return their rows, int32[N].

        NaN, in a row or in one of its actions, is unknown: the other's value stays. Sums are
        computed in float32 and rounded once, at the end.
        """
        count, rows = len(columns[STATES]), self._rows
        fresh = rows.take(count, columns)
        self._make_room(count)
        owners = np.empty(count, np.int32)
        used = find_or_insert(self._table, rows.columns[STATES], columns[STATES], fresh, owners)
        rows.give_back(fresh[used:][::-1])
        self._held += used
        self._counts[fresh[:used]] = 0
        numbers = np.empty(count, np.int32)
        _count(owners, self._counts, numbers)
        first = np.flatnonzero(numbers == 1)
        rows.write(owners[first], {name: column[first] for name, column in columns.items()})
        self._fold(owners, numbers, columns)
        return owners

    @property
    def bytes_each(self) -> int:
        """Bytes of memory per row."""
        return self._counts.itemsize + self._table.nbytes // max(1, self._held)

    def remove(self, numbers: RowNumbers) -> None:
        """Forget rows, which stay reserved."""
        remove(self._table, self._rows.columns[STATES], numbers)
        self._held -= len(numbers)

    def _make_room(self, count: int) -> None:
        """Enlarge the table before half of it can be filled."""
        capacity = self._rows.capacity
        self._counts = np.concatenate(
            [self._counts, np.zeros(capacity - len(self._counts), np.int32)]
        )
        if 2 * (self._held + count) > len(self._table):
            held = self._table[self._table >= 0]
            self._table = empty_table(3 * (self._held + count) // 2)
            insert(self._table, self._rows.columns[STATES], held)

    def _fold(self, owners: RowNumbers, numbers: NDArray[np.int32], columns: Columns) -> None:
        """Merge the new rows that are not the first of theirs."""
        again = np.flatnonzero(numbers > 1)
        if not again.size:
            return
        merged, places = np.unique(owners[again], return_inverse=True)
        shares = self._merging.shares(numbers[again])
        for name, column in columns.items():
            if name == STATES or not column.size:
                continue
            kept = self._rows.columns[name]
            folded = kept[merged].astype(np.float32).reshape(len(merged), -1)
            new = column[again].astype(np.float32).reshape(len(again), -1)
            _blend(folded, new, places, shares)
            kept[merged] = folded.reshape(kept[merged].shape)


@kernel
def _count(owners, counts, numbers):
    """Write numbers int32[N]: the count of positions in each one's row, itself included."""
    for i in range(owners.shape[0]):
        counts[owners[i]] += 1
        numbers[i] = counts[owners[i]]


@kernel
def _blend(folded, new, places, shares):
    """Merge rows `new`, float32[N, width], into the rows `places`, int64[N], of `folded`."""
    for i in range(new.shape[0]):
        row, share = folded[places[i]], shares[i]
        for j in range(new.shape[1]):
            if np.isnan(row[j]):
                row[j] = new[i, j]
            elif not np.isnan(new[i, j]):
                row[j] = (np.float32(1) - share) * row[j] + share * new[i, j]
