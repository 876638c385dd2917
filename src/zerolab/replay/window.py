"""Replay window, which provides training batches of positions with symmetries applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.replay.rows import STATE_COLUMN, Columns, Merger, RowNumbers, RowPool
from zerolab.replay.window_rules import Merging, NoMerging, WindowRule
from zerolab.rules import compiled_rules, encoding
from zerolab.rules.compiled_rules import canonical_states
from zerolab.rules.facts import ACTION_COLUMN_NAMES, VECTOR_COLUMN_NAMES, Facts
from zerolab.rules.rules import Game


class WindowContents:
    """Rows of a window, in the order in which they were last played.

    When a new position is merged into a row, the row moves to the end. Openings played in every
    iteration therefore never leave the window.
    """

    def __init__(self, size: WindowRule, merging: Merging) -> None:
        self._size = size
        self._rows = RowPool()
        self._merger = Merger(merging, self._rows) if merging.is_active else None
        self._needs_float32 = merging.needs_float32
        self._last_played = np.empty(0, np.int32)  # iteration that last played each row
        self.order: RowNumbers = np.empty(0, np.int32)
        """Numbers of the rows in use, int32[N], oldest first."""
        self.iteration = 0
        """Latest iteration added."""
        self.added_count = 0
        """Number of positions added so far, including those that have left the window."""
        self.latest_updated_count = 0
        """Number of rows in the window that the latest iteration added or changed."""
        self.latest_merged_count = 0
        """Number of positions of the latest iteration that were merged into other rows."""

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns by name, [capacity, ...]; `order` lists the rows in use."""
        return self._rows.columns

    @property
    def bytes_per_row(self) -> int:
        """Memory per row in bytes, including bookkeeping."""
        overhead = self.order.itemsize + self._last_played.itemsize
        overhead += self._merger.bytes_per_row if self._merger else 0
        return overhead + sum(column[:1].nbytes for column in self.columns.values())

    def resume_after(self, iteration: int, position_count: int) -> None:
        """Resume with an empty window after `iteration`, `position_count` positions into a run."""
        self.iteration, self.added_count = iteration, position_count

    def add(self, columns: Columns) -> None:
        """Add the positions of the next iteration, and remove the oldest that no longer fit."""
        self.iteration += 1
        if self._needs_float32:
            columns = {
                name: column.astype(np.float32) if column.dtype == np.float16 else column
                for name, column in columns.items()
            }
        numbers = self._store(columns)
        self.added_count += len(numbers)
        newest = self._mark_played(numbers)
        self.latest_merged_count = len(numbers) - len(newest)
        self.latest_updated_count = len(newest)
        earlier = self.order[self._last_played[self.order] != self.iteration]
        self.latest_merged_count += len(self.order) - len(earlier)
        self.order = np.concatenate([earlier, newest])
        self._trim()

    def _store(self, columns: Columns) -> RowNumbers:
        """Store positions; return their row numbers."""
        if self._merger:
            return self._merger.add(columns)
        numbers = self._rows.allocate(len(next(iter(columns.values()))), columns)
        self._rows.write(numbers, columns)
        return numbers

    def _mark_played(self, numbers: RowNumbers) -> RowNumbers:
        """Mark rows as played now; return the distinct ones in order of their last appearance."""
        new_rows = np.zeros(self._rows.capacity - len(self._last_played), np.int32)
        self._last_played = np.concatenate([self._last_played, new_rows])
        newest = np.empty(len(numbers), np.int32)
        count = _mark_played(numbers, self._last_played, self.iteration, newest)
        return newest[len(newest) - count :]

    def _trim(self) -> None:
        """Remove the oldest rows that exceed the size of the window."""
        oldest = self._size.oldest_iteration(self.iteration)
        count = int(np.searchsorted(self._last_played[self.order], oldest))
        limit = self._size.max_positions(self.iteration, self.added_count)
        if limit is not None:
            count = max(count, len(self.order) - limit)
        removed, self.order = self.order[:count], self.order[count:].copy()
        if self._merger:
            self._merger.remove(removed)
        self._rows.free(removed)
        self.latest_updated_count = min(self.latest_updated_count, len(self.order))

    def __len__(self) -> int:
        return len(self.order)


@kernel
def _mark_played(numbers, last_played, iteration, newest):
    """Mark rows, int32[N], as played; write the distinct ones to the end of `newest`.

    Returns the number of distinct rows.
    """
    count = 0
    for i in range(numbers.shape[0] - 1, -1, -1):
        if last_played[numbers[i]] != iteration:
            last_played[numbers[i]] = iteration
            count += 1
            newest[numbers.shape[0] - count] = numbers[i]
    return count


def canonical_columns(game: Game, columns: Columns) -> Columns:
    """Return columns with each state replaced by its canonical state.

    Columns with one entry per action, [N, actions], are transformed with the states.
    """
    states, symmetries = canonical_states(game, columns[STATE_COLUMN])
    _, action_images = compiled_rules.symmetry_tables(game)
    images = dict(columns)
    for name, column in columns.items():
        if name in ACTION_COLUMN_NAMES and column.size:
            images[name] = np.empty_like(column)
            np.put_along_axis(images[name], action_images[symmetries], column, axis=1)
    return {**images, STATE_COLUMN: states}


SymmetryUse = Literal["all", "random", "none"]
"""Symmetries under which each sample is used in a pass over the window.

A sample is used under all symmetries ([Wang2019], [Wang2020a], [Wang2020b]), under one random
symmetry, or unchanged ([Clausen2021]).
"""

_SCALAR_COLUMNS = "scalars"
_SCALAR_FACTS = tuple(name for name in Facts.column_forms() if name not in VECTOR_COLUMN_NAMES)
"""Facts with one entry per position, stored in a single column, which is faster to read."""


class Batch(NamedTuple):
    """Input of a training step, with a symmetry applied to every sample."""

    planes: NDArray[np.float32]
    """float32[N, planes, rows, columns]: network planes."""
    facts: Facts
    """Facts about the samples."""


def systematic_sample(weights: NDArray[np.float32], offset: float) -> NDArray[np.int64]:
    """Return N indices of `weights`, float32[N], in ascending order, int64[N].

    Index i is returned c or c + 1 times, where c is the whole part of N * weights[i] / sum. Its
    mean count over all offsets in [0, 1) is exactly N * weights[i] / sum.
    """
    ends = np.cumsum(weights, dtype=np.float64)
    points = (np.arange(len(weights)) + offset) * (ends[-1] / len(weights))
    indices = np.searchsorted(ends, points, side="right")
    return np.minimum(indices, len(weights) - 1)  # rounding can put the last point beyond the end


@kernel
def _encode_images(game, cell_images, states, symmetries, planes, buffer):
    """Write the planes of the images of states under symmetries.

    `states` is uint64[N, words], `symmetries` is int64[N], and `planes` is float32[N, planes,
    cells]. `buffer`, float32[planes, cells], is workspace.
    """
    for i in range(states.shape[0]):
        encoding.encode(game, states[i], buffer)
        for plane in range(buffer.shape[0]):
            for cell in range(buffer.shape[1]):
                planes[i, plane, cell_images[symmetries[i], cell]] = buffer[plane, cell]


@kernel
def _transform_actions(action_images, column, symmetries, images):
    """Write the images of a column, float32[N, actions], under symmetries, int64[N]."""
    for i in range(column.shape[0]):
        for action in range(column.shape[1]):
            images[i, action_images[symmetries[i], action]] = column[i, action]


class Window:
    """Replay window of positions for training, stored as states rather than planes.

    `size` determines which positions are kept, and `merging` combines equal positions. With
    `has_sampling_weights`, positions are used in proportion to their `Facts.sampling_weights`;
    without it, all are used equally often.
    """

    def __init__(
        self,
        game: Game,
        size: WindowRule,
        merging: Merging | None = None,
        *,
        has_sampling_weights: bool = False,
    ) -> None:
        self.game = game
        self._merging = merging or NoMerging()
        self._has_sampling_weights = has_sampling_weights
        self.contents = WindowContents(size, self._merging)
        self._cell_images, self._action_images = compiled_rules.symmetry_tables(game)

    def add(self, states: NDArray[np.uint64], facts: Facts) -> None:
        """Add the next iteration's positions, uint64[N, words]; remove the oldest beyond `size`."""
        columns: Columns = {STATE_COLUMN: states, **facts.columns()}
        if self._merging.merges_across_symmetries:
            columns = canonical_columns(self.game, columns)
        scalars = np.stack([columns[name] for name in _SCALAR_FACTS], axis=1)
        vectors = {name: columns[name] for name in VECTOR_COLUMN_NAMES if columns[name].shape[1]}
        self.contents.add(
            {STATE_COLUMN: columns[STATE_COLUMN], _SCALAR_COLUMNS: scalars, **vectors}
        )

    def resume_after(self, iteration: int, position_count: int) -> None:
        """Resume with an empty window after `iteration`, `position_count` positions into a run."""
        self.contents.resume_after(iteration, position_count)

    @property
    def added_count(self) -> int:
        """Number of positions added so far, including those that have left the window."""
        return self.contents.added_count

    @property
    def latest_updated_count(self) -> int:
        """Number of rows in the window that the latest iteration added or changed."""
        return self.contents.latest_updated_count

    @property
    def latest_merged_count(self) -> int | None:
        """Number of positions of the latest iteration that were merged; None without merging."""
        return self.contents.latest_merged_count if self._merging.is_active else None

    def __len__(self) -> int:
        return len(self.contents)

    def batches_per_epoch(self, batch_size: int, symmetries: SymmetryUse) -> int:
        """Return the number of batches in one pass over the window, at least one."""
        images = len(self._cell_images) if symmetries == "all" else 1
        return max(1, len(self) * images // batch_size)

    def batches(
        self,
        random: np.random.Generator,
        batch_size: int,
        batch_count: int,
        symmetries: SymmetryUse,
    ) -> Iterator[Batch]:
        """Yield batches from passes over the window; the last pass can be incomplete.

        Without sampling weights, each pass uses every sample at most once under each of its
        symmetries. Images that do not fill a batch at the end of a pass are dropped, except that a
        pass with fewer than `batch_size` images yields one smaller batch.
        """
        epoch = self.batches_per_epoch(batch_size, symmetries)
        for first in range(0, batch_count, epoch):
            indices, images = self._shuffle(random, len(self), symmetries)
            numbers = self._numbers_of_pass(random)[indices]
            for i in range(min(epoch, batch_count - first)):
                part = slice(i * batch_size, (i + 1) * batch_size)
                yield self._batch(numbers[part], images[part])

    def _numbers_of_pass(self, random: np.random.Generator) -> RowNumbers:
        """Return the row numbers of a pass, int32[N], drawn in proportion to their weights."""
        order = self.contents.order
        if not self._has_sampling_weights:
            return order
        column = self.contents.columns[_SCALAR_COLUMNS][:, _SCALAR_FACTS.index("sampling_weights")]
        return order[systematic_sample(column[order], random.random())]

    def _shuffle(
        self, random: np.random.Generator, samples: int, symmetries: SymmetryUse
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of a pass's samples and their symmetries, both int64[N]."""
        count = len(self._cell_images)
        if symmetries == "all":
            order = random.permutation(samples * count)
            return order // count, order % count
        indices = random.permutation(samples)
        if symmetries == "random":
            return indices, random.integers(count, size=samples)
        return indices, np.zeros(samples, np.int64)

    def _batch(self, numbers: RowNumbers, symmetries: NDArray[np.int64]) -> Batch:
        rows, columns = self.game[:2]
        shape = len(numbers), encoding.plane_count(self.game), rows * columns
        planes, buffer = np.empty(shape, np.float32), np.empty(shape[1:], np.float32)
        states = self.contents.columns[STATE_COLUMN].take(numbers, axis=0)
        _encode_images(self.game, self._cell_images, states, symmetries, planes, buffer)
        scalars = self.contents.columns[_SCALAR_COLUMNS].take(numbers, axis=0).T.copy()
        facts = dict(zip(_SCALAR_FACTS, scalars, strict=True))
        for name in VECTOR_COLUMN_NAMES:
            if name in ACTION_COLUMN_NAMES:
                facts[name] = self._transformed_vectors(name, numbers, symmetries)
            else:
                facts[name] = self._vectors(name, numbers)
        return Batch(planes.reshape(*shape[:2], rows, columns), Facts(**facts))

    def _transformed_vectors(
        self, name: str, numbers: RowNumbers, symmetries: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return transformed rows of a column with one entry per action; may be empty."""
        column = self._vectors(name, numbers)
        images = np.empty_like(column)
        _transform_actions(self._action_images, column, symmetries, images)
        return images

    def _vectors(self, name: str, numbers: RowNumbers) -> NDArray[np.float32]:
        """Return rows of a vector column, untransformed; empty if it is not stored."""
        column = self.contents.columns.get(name)
        if column is None:
            return np.empty((len(numbers), 0), np.float32)
        return column.take(numbers, axis=0).astype(np.float32, copy=False)
