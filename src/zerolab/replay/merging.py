"""Equal positions of the window become one row, whose targets are means of theirs.

Games of self-play meet the same openings again and again. Unmerged, these fill the window, and a
network is asked to learn several different targets for one and the same input.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.compiled import kernel
from zerolab.replay import table
from zerolab.replay.rows import STATES, Columns, Rows, Slots
from zerolab.replay.window_rules import MERGINGS, Merging


class NoMerging(Merging):
    """Every position is a row of its own."""

    name: Literal["none"] = "none"
    is_on = False


class _On(Merging):
    """Base of what merges."""

    across_symmetries: bool = False
    """Merge positions that a symmetry of the game turns into each other, too; `learn.symmetries`
    then has to show the network the other images. [Clausen2021]: false."""

    @property
    def is_symmetric(self) -> bool:
        """See `Merging.is_symmetric`."""
        return self.across_symmetries


class Newest(_On):
    """z = (1 - weight) * z_old + weight * z_new, in order of appearance [Clausen2021].

    What was played last, by the strongest network, counts most.
    """

    name: Literal["newest"] = "newest"

    weight: float = Field(default=0.8, gt=0, le=1)
    """Share of a new position in what a row becomes; 1 keeps the newest alone. [Clausen2021]:
    0.8."""

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `Merging.shares`."""
        return np.full(len(counts), self.weight, np.float32)


class Mean(_On):
    """The plain mean of all positions that a row stands for.

    Targets that are not there at every position, such as replies, are means with the weight of
    positions: where only the first has one, the next counts as if it had come after as many.
    """

    name: Literal["mean"] = "mean"
    is_precise = True

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `Merging.shares`."""
        return (1 / counts).astype(np.float32)


for _kind in (NoMerging, Newest, Mean):
    MERGINGS.add(_kind.model_fields["name"].default, _kind)


class Merger:
    """Finds the rows of equal positions, and merges new ones into them."""

    def __init__(self, merging: Merging, rows: Rows) -> None:
        self._merging = merging
        self._rows = rows
        self._table = table.empty_table(0)
        self._held = 0
        self._counts = np.empty(0, np.int32)  # by slot: how many positions a row stands for

    def add(self, columns: Columns) -> Slots:
        """Add rows or merge them into equal ones, in their order; return their slots, int32[N].

        NaN, in a row or in one of its actions, is what is not known: the other's value stays. The
        sums are made in float32 and rounded once, at the end.
        """
        count, rows = len(columns[STATES]), self._rows
        fresh = rows.take(count, columns)
        self._make_room(count)
        owners = np.empty(count, np.int32)
        used = table.find_or_insert(
            self._table, rows.columns[STATES], columns[STATES], fresh, owners
        )
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

    def remove(self, slots: Slots) -> None:
        """Forget rows; their slots are still theirs."""
        table.remove(self._table, self._rows.columns[STATES], slots)
        self._held -= len(slots)

    def _make_room(self, count: int) -> None:
        """Enlarge the table before half of it can be filled."""
        capacity = self._rows.capacity
        self._counts = np.concatenate(
            [self._counts, np.zeros(capacity - len(self._counts), np.int32)]
        )
        if 2 * (self._held + count) > len(self._table):
            held = self._table[self._table >= 0]
            self._table = table.empty_table(3 * (self._held + count) // 2)
            table.insert(self._table, self._rows.columns[STATES], held)

    def _fold(self, owners: Slots, numbers: NDArray[np.int32], columns: Columns) -> None:
        """Merge the rows that are not the first of theirs."""
        again = np.flatnonzero(numbers > 1)
        if not again.size:
            return
        slots, places = np.unique(owners[again], return_inverse=True)
        shares = self._merging.shares(numbers[again])
        for name, column in columns.items():
            if name == STATES or not column.size:
                continue
            kept = self._rows.columns[name]
            folded = kept[slots].astype(np.float32).reshape(len(slots), -1)
            new = column[again].astype(np.float32).reshape(len(again), -1)
            _blend(folded, new, places, shares)
            kept[slots] = folded.reshape(kept[slots].shape)


@kernel
def _count(owners, counts, numbers):
    """Write numbers int32[N]: how many positions each row's slot stands for, with that row."""
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
