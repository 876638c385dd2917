"""The replay window: positions to learn from, served as batches under symmetries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.replay.rows import STATES, Columns, Merger, RowNumbers, Rows
from zerolab.replay.window_rules import Merging, NoMerging, WindowSize
from zerolab.rules import encoding, python
from zerolab.rules.facts import ACTION_COLUMNS, VECTOR_COLUMNS, Facts
from zerolab.rules.python import smallest_images
from zerolab.rules.rules import Game


class Contents:
    """The rows of a window, in the order in which they were last played.

    A row that a new position is merged into is as new as that position: it moves to the end, so
    that openings played in every iteration never leave.
    """

    def __init__(self, size: WindowSize, merging: Merging) -> None:
        self._size = size
        self._rows = Rows()
        self._merger = Merger(merging, self._rows) if merging.is_on else None
        self._is_precise = merging.is_precise
        self._played = np.empty(0, np.int32)  # by row: the iteration that played it last
        self.order: RowNumbers = np.empty(0, np.int32)
        """The rows in use, int32[N], the oldest first."""
        self.iteration = 0
        """The latest iteration added."""
        self.total = 0
        """Positions of all iterations so far, including those that have left."""
        self.fresh = 0
        """Rows that the latest iteration has added or changed, while they are here."""
        self.merged = 0
        """Positions of the latest iteration that were equal to earlier ones."""

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns by name, [capacity, ...]; `order` lists the rows in use."""
        return self._rows.columns

    @property
    def bytes_each(self) -> int:
        """Bytes of memory per row, bookkeeping included."""
        books = self.order.itemsize + self._played.itemsize
        books += self._merger.bytes_each if self._merger else 0
        return books + sum(column[:1].nbytes for column in self.columns.values())

    def skip(self, iteration: int, positions: int) -> None:
        """Resume after `iteration`; all `positions` up to it have left the window."""
        self.iteration, self.total = iteration, positions

    def add(self, columns: Columns) -> None:
        """Add the positions of the next iteration, and drop those that the window does not keep."""
        self.iteration += 1
        if self._is_precise:
            columns = {name: _precise(column) for name, column in columns.items()}
        numbers = self._store(columns)
        self.total += len(numbers)
        newest = self._mark(numbers)
        self.merged, self.fresh = len(numbers) - len(newest), len(newest)
        earlier = self.order[self._played[self.order] != self.iteration]
        self.merged += len(self.order) - len(earlier)
        self.order = np.concatenate([earlier, newest])
        self._trim()

    def _store(self, columns: Columns) -> RowNumbers:
        """Store positions; return the row of each."""
        if self._merger:
            return self._merger.add(columns)
        numbers = self._rows.take(len(next(iter(columns.values()))), columns)
        self._rows.write(numbers, columns)
        return numbers

    def _mark(self, numbers: RowNumbers) -> RowNumbers:
        """Mark rows as played now; return each of them once, ordered by its last appearance."""
        missing = np.zeros(self._rows.capacity - len(self._played), np.int32)
        self._played = np.concatenate([self._played, missing])
        newest = np.empty(len(numbers), np.int32)
        count = _mark(numbers, self._played, self.iteration, newest)
        return newest[len(newest) - count :]

    def _trim(self) -> None:
        """Remove the oldest rows that the window does not keep."""
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
def _mark(numbers, played, iteration, newest):
    """Write the distinct ones of int32[N] rows to the end of `newest`; return their number."""
    count = 0
    for i in range(numbers.shape[0] - 1, -1, -1):
        if played[numbers[i]] != iteration:
            played[numbers[i]] = iteration
            count += 1
            newest[numbers.shape[0] - count] = numbers[i]
    return count


def canonical(game: Game, columns: Columns) -> Columns:
    """Return rows with the smallest image of each state, read as a number.

    Columns with entries per action, [N, actions], are turned along with the states.
    """
    states, symmetries = smallest_images(game, columns[STATES])
    _, action_images = python.symmetry_tables(game)
    turned = dict(columns)
    for name, column in columns.items():
        if name in ACTION_COLUMNS and column.size:
            turned[name] = np.empty_like(column)
            np.put_along_axis(turned[name], action_images[symmetries], column, axis=1)
    return {**turned, STATES: states}


Symmetries = Literal["all", "random", "none"]
"""Every sample under each symmetry ([Wang2019], [Wang2020a], [Wang2020b]), under a random one each
time, or unchanged ([Clausen2021])."""

_SINGLE_COLUMNS = "single"
_SINGLE = tuple(name for name in Facts.forms() if name not in VECTOR_COLUMNS)
"""Facts with one entry per position; they share a column, which is faster to read."""


class Batch(NamedTuple):
    """Input of one learning step, every sample under its symmetry."""

    planes: NDArray[np.float32]
    """[N, planes, rows, columns]"""
    facts: Facts
    """Facts about the samples."""


@kernel
def _draw(game, cell_images, states, symmetries, planes, plain):
    """Write the planes of states uint64[N, words], each under its symmetry int64[N].

    `planes` is float32[N, planes, cells], `plain` scratch memory, float32[planes, cells].
    """
    for i in range(states.shape[0]):
        encoding.encode(game, states[i], plain)
        for plane in range(plain.shape[0]):
            for cell in range(plain.shape[1]):
                planes[i, plane, cell_images[symmetries[i], cell]] = plain[plane, cell]


@kernel
def _turn(action_images, column, symmetries, turned):
    """Write a column float32[N, actions], each row under its symmetry int64[N]."""
    for i in range(column.shape[0]):
        for action in range(column.shape[1]):
            turned[i, action_images[symmetries[i], action]] = column[i, action]


class Window:
    """The positions that the network learns from, kept as states, not planes.

    `size` limits their number, `merging` combines equal ones.
    """

    def __init__(self, game: Game, size: WindowSize, merging: Merging | None = None) -> None:
        self.game = game
        self._merging = merging or NoMerging()
        self.contents = Contents(size, self._merging)
        self._cell_images, self._action_images = python.symmetry_tables(game)

    def add(self, states: NDArray[np.uint64], facts: Facts) -> None:
        """Add the positions of the next iteration; the oldest may leave the window.

        States are uint64[N, words].
        """
        columns: Columns = {STATES: states, **facts.columns()}
        if self._merging.is_symmetric:
            columns = canonical(self.game, columns)
        numbers = np.stack([columns[name] for name in _SINGLE], axis=1)
        wide = {name: columns[name] for name in VECTOR_COLUMNS if columns[name].shape[1]}
        self.contents.add({STATES: columns[STATES], _SINGLE_COLUMNS: numbers, **wide})

    def skip(self, iteration: int, positions: int) -> None:
        """Resume after `iteration`; all `positions` up to it have left the window."""
        self.contents.skip(iteration, positions)

    @property
    def total(self) -> int:
        """Positions added so far, including those that have left."""
        return self.contents.total

    @property
    def fresh(self) -> int:
        """Examples added by the latest iteration; where equal ones are merged, rows."""
        return self.contents.fresh

    @property
    def merged(self) -> int | None:
        """Positions of the latest iteration that were merged; None without merging."""
        return self.contents.merged if self._merging.is_on else None

    def __len__(self) -> int:
        return len(self.contents)

    def batches_per_epoch(self, size: int, symmetries: Symmetries) -> int:
        """Return the number of batches of `size` in one pass over the window, at least one."""
        images = len(self._cell_images) if symmetries == "all" else 1
        return max(1, len(self) * images // size)

    def batches(
        self, random: np.random.Generator, size: int, count: int, symmetries: Symmetries
    ) -> Iterator[Batch]:
        """Yield `count` batches from passes over the window, of which the last may end early.

        Each pass shows every sample at most once. Samples left over after its last full batch are
        dropped, unless they are all.
        """
        epoch = self.batches_per_epoch(size, symmetries)
        for first in range(0, count, epoch):
            picks, images = self._order(random, len(self), symmetries)
            numbers = self.contents.order[picks]
            for i in range(min(epoch, count - first)):
                part = slice(i * size, (i + 1) * size)
                yield self._batch(numbers[part], images[part])

    def _order(
        self, random: np.random.Generator, samples: int, symmetries: Symmetries
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        count = len(self._cell_images)
        if symmetries == "all":
            order = random.permutation(samples * count)
            return order // count, order % count
        picks = random.permutation(samples)
        if symmetries == "random":
            return picks, random.integers(count, size=samples)
        return picks, np.zeros(samples, np.int64)

    def _batch(self, numbers: RowNumbers, images: NDArray[np.int64]) -> Batch:
        rows, columns = self.game[:2]
        shape = len(numbers), encoding.planes(self.game), rows * columns
        planes, plain = np.empty(shape, np.float32), np.empty(shape[1:], np.float32)
        states = self.contents.columns[STATES].take(numbers, axis=0)
        _draw(self.game, self._cell_images, states, images, planes, plain)
        values = self.contents.columns[_SINGLE_COLUMNS].take(numbers, axis=0).T.copy()
        single = dict(zip(_SINGLE, values, strict=True))
        wide = {
            name: self._turned(name, numbers, images)
            if name in ACTION_COLUMNS
            else self._stored(name, numbers)
            for name in VECTOR_COLUMNS
        }
        return Batch(planes.reshape(*shape[:2], rows, columns), Facts(**single, **wide))

    def _turned(
        self, name: str, numbers: RowNumbers, images: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return entries per action under symmetries; empty where they are not kept."""
        plain = self._stored(name, numbers)
        turned = np.empty_like(plain)
        _turn(self._action_images, plain, images, turned)
        return turned

    def _stored(self, name: str, numbers: RowNumbers) -> NDArray[np.float32]:
        """Return a vector column as it is; empty where it is not kept."""
        stored = self.contents.columns.get(name)
        if stored is None:
            return np.empty((len(numbers), 0), np.float32)
        return stored.take(numbers, axis=0).astype(np.float32, copy=False)
