"""The positions that learning draws from, served as batches under symmetries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.replay.canonical import canonical
from zerolab.replay.contents import Contents
from zerolab.replay.facts import PER_ACTION, WIDE, Facts
from zerolab.replay.interface import Merging, WindowSize
from zerolab.replay.merging import NoMerging
from zerolab.replay.rows import STATES, Columns, Slots
from zerolab.rules import encoding, host
from zerolab.rules.interface import Game

Symmetries = Literal["all", "random", "none"]
"""Every sample under each symmetry ([Wang2019], [Wang2020a], [Wang2020b]), under a random one each
time, or as it is ([Clausen2021])."""

_NUMBERS = "numbers"
_SINGLE = tuple(name for name in Facts._fields if name not in WIDE)
"""Facts of which a position has one; they are kept in one column, which is faster to read."""


class Batch(NamedTuple):
    """What one learning step sees, every sample under its symmetry."""

    planes: NDArray[np.float32]
    """[N, planes, rows, columns]"""
    facts: Facts
    """What is known of the samples."""


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

    `size` says how many are kept, `merging` what becomes of equal ones.
    """

    def __init__(self, game: Game, size: WindowSize, merging: Merging | None = None) -> None:
        self.game = game
        self._merging = merging or NoMerging()
        self.contents = Contents(size, self._merging)
        self._cell_images, self._action_images = host.symmetry_tables(game)

    def add(self, states: NDArray[np.uint64], facts: Facts) -> None:
        """Add the positions of the next iteration; the oldest may leave the window.

        States are uint64[N, words].
        """
        columns: Columns = {STATES: states, **facts._asdict()}
        if self._merging.is_symmetric:
            columns = canonical(self.game, columns)
        numbers = np.stack([columns[name] for name in _SINGLE], axis=1)
        wide = {name: columns[name] for name in WIDE if columns[name].shape[1]}
        self.contents.add({STATES: columns[STATES], _NUMBERS: numbers, **wide})

    def skip(self, iteration: int, positions: int) -> None:
        """Go on after an iteration, of which nothing is left, nor of the `positions` up to it."""
        self.contents.skip(iteration, positions)

    @property
    def total(self) -> int:
        """Positions that were added so far, whether or not they are still here."""
        return self.contents.total

    @property
    def fresh(self) -> int:
        """Examples that are new since the latest iteration; where equal ones are merged, rows."""
        return self.contents.fresh

    @property
    def merged(self) -> int | None:
        """Positions of the latest iteration that were merged into equal ones, if that is on."""
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
            slots = self.contents.order[picks]
            for i in range(min(epoch, count - first)):
                part = slice(i * size, (i + 1) * size)
                yield self._batch(slots[part], images[part])

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

    def _batch(self, slots: Slots, images: NDArray[np.int64]) -> Batch:
        rows, columns = self.game[:2]
        shape = len(slots), encoding.planes(self.game), rows * columns
        planes, plain = np.empty(shape, np.float32), np.empty(shape[1:], np.float32)
        states = self.contents.columns[STATES].take(slots, axis=0)
        _draw(self.game, self._cell_images, states, images, planes, plain)
        numbers = self.contents.columns[_NUMBERS].take(slots, axis=0).T.copy()
        single = dict(zip(_SINGLE, numbers, strict=True))
        wide = {
            name: self._turned(name, slots, images)
            if name in PER_ACTION
            else self._stored(name, slots)
            for name in WIDE
        }
        return Batch(planes.reshape(*shape[:2], rows, columns), Facts(**single, **wide))

    def _turned(self, name: str, slots: Slots, images: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return entries per action under symmetries; none where they are not kept."""
        plain = self._stored(name, slots)
        turned = np.empty_like(plain)
        _turn(self._action_images, plain, images, turned)
        return turned

    def _stored(self, name: str, slots: Slots) -> NDArray[np.float32]:
        """Return a column of many numbers as it is; none of them where it is not kept."""
        stored = self.contents.columns.get(name)
        if stored is None:
            return np.empty((len(slots), 0), np.float32)
        return stored.take(slots, axis=0).astype(np.float32, copy=False)
