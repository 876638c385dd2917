"""What is in the window, in the order in which it was last played, and what leaves it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.replay.interface import Merging, WindowSize
from zerolab.replay.merging import Merger
from zerolab.replay.rows import Columns, Rows, Slots


class Contents:
    """The rows of a window.

    A row that a new position is merged into is as new as that position: it moves to the end, so
    that openings which are played in every iteration never leave.
    """

    def __init__(self, size: WindowSize, merging: Merging) -> None:
        self._size = size
        self._rows = Rows()
        self._merger = Merger(merging, self._rows) if merging.is_on else None
        self._is_precise = merging.is_precise
        self._played = np.empty(0, np.int32)  # by slot: the iteration that played it last
        self.order: Slots = np.empty(0, np.int32)
        """The slots of the rows, int32[N], the oldest first."""
        self.iteration = 0
        """The latest iteration added."""
        self.total = 0
        """Positions of all iterations so far, whether or not they are still here."""
        self.fresh = 0
        """Rows that the latest iteration has brought or changed, while they are here."""
        self.merged = 0
        """Positions of the latest iteration that were equal to earlier ones."""

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name, [capacity, ...]; `order` says which slots are rows."""
        return self._rows.columns

    @property
    def bytes_each(self) -> int:
        """Bytes of memory that a row takes, the books about it included."""
        books = self.order.itemsize + self._played.itemsize
        books += self._merger.bytes_each if self._merger else 0
        return books + sum(column[:1].nbytes for column in self.columns.values())

    def skip(self, iteration: int, positions: int) -> None:
        """Go on after an iteration, of which nothing is left, nor of the `positions` up to it."""
        self.iteration, self.total = iteration, positions

    def add(self, columns: Columns) -> None:
        """Add the positions of the next iteration; what the window does not keep leaves it."""
        self.iteration += 1
        if self._is_precise:
            columns = {name: _precise(column) for name, column in columns.items()}
        slots = self._slots(columns)
        self.total += len(slots)
        newest = self._mark(slots)
        self.merged, self.fresh = len(slots) - len(newest), len(newest)
        earlier = self.order[self._played[self.order] != self.iteration]
        self.merged += len(self.order) - len(earlier)
        self.order = np.concatenate([earlier, newest])
        self._trim()

    def _slots(self, columns: Columns) -> Slots:
        """Store rows; return the slot of each."""
        if self._merger:
            return self._merger.add(columns)
        slots = self._rows.take(len(next(iter(columns.values()))), columns)
        self._rows.write(slots, columns)
        return slots

    def _mark(self, slots: Slots) -> Slots:
        """Mark slots as played now; return each of them once, ordered by its last appearance."""
        missing = np.zeros(self._rows.capacity - len(self._played), np.int32)
        self._played = np.concatenate([self._played, missing])
        newest = np.empty(len(slots), np.int32)
        count = _mark(slots, self._played, self.iteration, newest)
        return newest[len(newest) - count :]

    def _trim(self) -> None:
        """Remove the oldest rows, as far as the window does not keep them."""
        oldest = self._size.oldest(self.iteration)
        gone = int(np.searchsorted(self._played[self.order], oldest))
        limit = self._size.positions(self.iteration, self.total)
        if limit is not None:
            gone = max(gone, len(self.order) - limit)
        leaving, self.order = self.order[:gone], self.order[gone:].copy()
        if self._merger:
            self._merger.remove(leaving)
        self._rows.give_back(leaving)
        self.fresh = min(self.fresh, len(self.order))

    def __len__(self) -> int:
        return len(self.order)


def _precise(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(np.float32) if column.dtype == np.float16 else column


@kernel
def _mark(slots, played, iteration, newest):
    """Write the different ones of int32[N] slots to the end of `newest`; return their number."""
    count = 0
    for i in range(slots.shape[0] - 1, -1, -1):
        if played[slots[i]] != iteration:
            played[slots[i]] = iteration
            count += 1
            newest[slots.shape[0] - count] = slots[i]
    return count
