"""The examples of the last iterations, served as batches under symmetries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.replay.facts import Facts
from zerolab.rules import encoding, host
from zerolab.rules.interface import Game

Symmetries = Literal["all", "random", "none"]
"""Every sample under each symmetry ([Wang2019], [Wang2020a], [Wang2020b]), under a random one each
time, or as it is ([Clausen2021])."""


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
    """The examples of the last `iterations` iterations (rs), kept as states, not planes."""

    def __init__(self, game: Game, iterations: int) -> None:
        self.game = game
        self._iterations: deque[tuple[NDArray[np.uint64], Facts]] = deque(maxlen=iterations)
        self._cell_images, self._action_images = host.symmetry_tables(game)

    def add(self, states: NDArray[np.uint64], facts: Facts) -> None:
        """Add an iteration's positions; those of the oldest iteration may leave the window.

        States are uint64[N, words].
        """
        self._iterations.append((states, facts))

    def __len__(self) -> int:
        return sum(len(states) for states, _ in self._iterations)

    def batches_per_epoch(self, size: int, symmetries: Symmetries) -> int:
        """Return the number of batches of `size` in one pass over the window, at least one."""
        images = len(self._cell_images) if symmetries == "all" else 1
        return max(1, len(self) * images // size)

    def batches(
        self, random: np.random.Generator, size: int, epochs: int, symmetries: Symmetries
    ) -> Iterator[Batch]:
        """Yield the batches of `epochs` passes; each pass shows every sample at most once.

        Samples left over after the last full batch of a pass are dropped, unless they are all.
        """
        states = np.concatenate([states for states, _ in self._iterations])
        columns = zip(*(facts for _, facts in self._iterations), strict=True)
        facts = Facts(*map(np.concatenate, columns))
        for _ in range(epochs):
            picks, images = self._order(random, len(states), symmetries)
            for i in range(self.batches_per_epoch(size, symmetries)):
                part = slice(i * size, (i + 1) * size)
                yield self._batch(states, facts, picks[part], images[part])

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

    def _batch(
        self,
        states: NDArray[np.uint64],
        facts: Facts,
        picks: NDArray[np.int64],
        images: NDArray[np.int64],
    ) -> Batch:
        rows, columns = self.game[:2]
        shape = len(picks), encoding.planes(self.game), rows * columns
        planes, plain = np.empty(shape, np.float32), np.empty(shape[1:], np.float32)
        _draw(self.game, self._cell_images, states[picks], images, planes, plain)
        turned = Facts(*(self._turned(column[picks], images) for column in facts))
        return Batch(planes.reshape(*shape[:2], rows, columns), turned)

    def _turned(
        self, column: NDArray[np.floating[Any]], images: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return a column under symmetries; only entries per action depend on them."""
        plain = column.astype(np.float32, copy=False)
        if plain.ndim == 1:
            return plain
        turned = np.empty_like(plain)
        _turn(self._action_images, plain, images, turned)
        return turned
