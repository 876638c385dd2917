"""Rows of the window in slots: what is added, found again or removed never moves the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int32]
Columns = Mapping[str, NDArray[Any]]
"""Equally many rows by the names of their columns, [N, ...]."""

STATES = "states"
"""The column by which rows are equal."""

_LEAST = 1024


class Rows:
    """Rows that stay in their slots until they are removed; free slots are used again.

    Memory grows by half where there are not enough slots, one column after the other, so that
    little is held twice. Pages that no row has reached yet take no memory.
    """

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        """[capacity, ...] each; the content of free slots is undefined."""
        self.capacity = 0
        self._free = np.empty(0, np.int32)  # the next one last

    def take(self, count: int, like: Columns) -> Slots:
        """Reserve slots, int32[count], in ascending order while memory is new.

        Columns are made or enlarged with the types and widths of `like`.
        """
        if not self.columns or count > len(self._free):
            self._grow(self.capacity + count - len(self._free), like)
        taken = self._free[: -count - 1 : -1].copy()
        self._free = self._free[: len(self._free) - count]
        return taken

    def give_back(self, slots: Slots) -> None:
        """Free the slots of removed rows."""
        self._free = np.concatenate([self._free, slots])

    def write(self, slots: Slots, columns: Columns) -> None:
        """Set whole rows."""
        for name, column in columns.items():
            self.columns[name][slots] = column

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
