"""Rows of the replay window: storage, a hash table from states to rows, and merging.

The table uses open addressing with linear probing. Its entries are row numbers, and states in the
rows are compared word by word. Removal closes gaps [Knuth1998, Section 6.4, Algorithm R], so there
are no deleted entries to slow down later lookups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.streams import mix64
from zerolab.replay.window_rules import Merging

RowNumbers = NDArray[np.int32]
Columns = Mapping[str, NDArray[Any]]
"""Columns of equal length by name, [N, ...]."""

STATE_COLUMN = "states"
"""Name of the column that determines whether rows are equal."""

_MIN_CAPACITY = 1024


class RowPool:
    """Rows that keep their numbers until they are freed; free rows are reused.

    When too few rows are free, the capacity grows by at least half. Columns grow one at a time, so
    only one column is in memory twice. Pages that have not yet been written take no memory.
    """

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        """Columns by name, [capacity, ...]; the content of free rows is undefined."""
        self.capacity = 0
        """Number of rows, including free rows."""
        self._free = np.empty(0, np.int32)  # used from the end

    def allocate(self, count: int, like: Columns) -> RowNumbers:
        """Reserve rows and return their numbers, int32[count].

        New rows are in ascending order. Columns are created or enlarged with the types and widths
        of `like`.
        """
        if not self.columns or count > len(self._free):
            self._grow(self.capacity + count - len(self._free), like)
        numbers = self._free[: -count - 1 : -1].copy()
        self._free = self._free[: len(self._free) - count]
        return numbers

    def free(self, row_numbers: RowNumbers) -> None:
        """Return rows to the pool."""
        self._free = np.concatenate([self._free, row_numbers])

    def write(self, row_numbers: RowNumbers, columns: Columns) -> None:
        """Write columns to the rows with the given numbers."""
        for name, column in columns.items():
            self.columns[name][row_numbers] = column

    def _grow(self, required: int, like: Columns) -> None:
        size = max(required, self.capacity * 3 // 2, _MIN_CAPACITY)
        for name, column in like.items():
            grown = np.empty((size, *column.shape[1:]), column.dtype)
            if name in self.columns:
                grown[: self.capacity] = self.columns[name]
            self.columns[name] = grown
        new = np.arange(size - 1, self.capacity - 1, -1, dtype=np.int32)
        self._free = np.concatenate([new, self._free])
        self.capacity = size


_EMPTY = -1


def empty_hash_table(row_count: int) -> NDArray[np.int32]:
    """Return an empty table, int32[size]; `row_count` rows fill at most half of it."""
    return np.full(1 << max(4, (2 * row_count - 1).bit_length()), _EMPTY, np.int32)


@inlined
def _home(table, states, row):
    """Return the entry at which the lookup of a state begins."""
    key = np.uint64(0)
    for word in range(states.shape[1]):
        key = mix64(key ^ states[row, word])
    return np.int64(key & np.uint64(table.shape[0] - 1))


@inlined
def _are_equal(one, i, other, j):
    same = True
    for word in range(one.shape[1]):
        same &= one[i, word] == other[j, word]
    return same


@inlined
def _entry(table, states, keys, i):
    """Return the entry of the state keys[i], or an empty entry for it."""
    last = table.shape[0] - 1
    entry = _home(table, keys, i)
    while table[entry] != _EMPTY and not _are_equal(states, table[entry], keys, i):
        entry = (entry + 1) & last
    return entry


@kernel
def find_or_insert_rows(table, states, keys, free_rows, found_rows):
    """Find the rows of the states `keys`, uint64[N, words], inserting them where necessary.

    The row numbers are written to `found_rows`, int32[N]. `states`, uint64[capacity, words], are
    the states of all rows. Inserted states use the next rows of `free_rows`, int32 with at least N
    entries, and are written to `states`. Returns the number of inserted states.
    """
    used = 0
    for i in range(keys.shape[0]):
        entry = _entry(table, states, keys, i)
        if table[entry] == _EMPTY:
            row = free_rows[used]
            used += 1
            table[entry] = row
            for word in range(keys.shape[1]):
                states[row, word] = keys[i, word]
        found_rows[i] = table[entry]
    return used


@kernel
def insert_rows(table, states, row_numbers):
    """Insert rows, int32[N], whose states are not in the table."""
    for i in range(row_numbers.shape[0]):
        table[_entry(table, states, states, row_numbers[i])] = row_numbers[i]


@kernel
def remove_rows(table, states, row_numbers):
    """Remove rows, int32[N], which must be in the table."""
    last = table.shape[0] - 1
    for i in range(row_numbers.shape[0]):
        gap = _entry(table, states, states, row_numbers[i])
        entry = (gap + 1) & last
        while table[entry] != _EMPTY:
            home = _home(table, states, table[entry])
            if ((entry - home) & last) >= ((entry - gap) & last):
                table[gap] = table[entry]
                gap = entry
            entry = (entry + 1) & last
        table[gap] = _EMPTY


class Merger:
    """Hash table of rows, which merges each new position into the row of an equal position."""

    def __init__(self, merging: Merging, rows: RowPool) -> None:
        self._merging = merging
        self._rows = rows
        self._table = empty_hash_table(0)
        self._row_count = 0
        self._counts = np.empty(0, np.int32)  # number of positions merged into each row

    def add(self, columns: Columns) -> RowNumbers:
        """Add positions in order, merging equal ones; return their row numbers, int32[N].

        NaN means unknown, so merging keeps the known value. Means are computed in float32 and
        rounded only once, at the end.
        """
        count, rows = len(columns[STATE_COLUMN]), self._rows
        free_rows = rows.allocate(count, columns)
        self._make_room(count)
        found_rows = np.empty(count, np.int32)
        used = find_or_insert_rows(
            self._table, rows.columns[STATE_COLUMN], columns[STATE_COLUMN], free_rows, found_rows
        )
        rows.free(free_rows[used:][::-1])
        self._row_count += used
        self._counts[free_rows[:used]] = 0
        occurrences = np.empty(count, np.int32)
        _count_occurrences(found_rows, self._counts, occurrences)
        first = np.flatnonzero(occurrences == 1)
        rows.write(found_rows[first], {name: column[first] for name, column in columns.items()})
        self._merge(found_rows, occurrences, columns)
        return found_rows

    @property
    def bytes_per_row(self) -> int:
        """Memory of the merger per row, in bytes."""
        return self._counts.itemsize + self._table.nbytes // max(1, self._row_count)

    def remove(self, row_numbers: RowNumbers) -> None:
        """Remove rows from the table without freeing them."""
        remove_rows(self._table, self._rows.columns[STATE_COLUMN], row_numbers)
        self._row_count -= len(row_numbers)

    def _make_room(self, count: int) -> None:
        """Enlarge the table if `count` more rows could fill more than half of it."""
        capacity = self._rows.capacity
        self._counts = np.concatenate(
            [self._counts, np.zeros(capacity - len(self._counts), np.int32)]
        )
        if 2 * (self._row_count + count) > len(self._table):
            numbers = self._table[self._table >= 0]
            self._table = empty_hash_table(3 * (self._row_count + count) // 2)
            insert_rows(self._table, self._rows.columns[STATE_COLUMN], numbers)

    def _merge(
        self, found_rows: RowNumbers, occurrences: NDArray[np.int32], columns: Columns
    ) -> None:
        """Merge each position into its row, unless it is the first position of that row."""
        repeated = np.flatnonzero(occurrences > 1)
        if not repeated.size:
            return
        rows, indices = np.unique(found_rows[repeated], return_inverse=True)
        weights = self._merging.new_position_weights(occurrences[repeated])
        for name, column in columns.items():
            if name == STATE_COLUMN or not column.size:
                continue
            stored = self._rows.columns[name]
            merged = stored[rows].astype(np.float32).reshape(len(rows), -1)
            new = column[repeated].astype(np.float32).reshape(len(repeated), -1)
            _blend(merged, new, indices, weights)
            stored[rows] = merged.reshape(stored[rows].shape)


@kernel
def _count_occurrences(rows, counts, occurrences):
    """Add each position to its row's count; write the new counts to `occurrences`, int32[N]."""
    for i in range(rows.shape[0]):
        counts[rows[i]] += 1
        occurrences[i] = counts[rows[i]]


@kernel
def _blend(merged, new, indices, weights):
    """Merge rows `new`, float32[N, width], into the rows `indices`, int64[N], of `merged`."""
    for i in range(new.shape[0]):
        row, weight = merged[indices[i]], weights[i]
        for j in range(new.shape[1]):
            if np.isnan(row[j]):
                row[j] = new[i, j]
            elif not np.isnan(new[i, j]):
                row[j] = (np.float32(1) - weight) * row[j] + weight * new[i, j]
