"""The examples of the last iterations, served as batches under symmetries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.rules import encoding, host
from zerolab.rules.interface import Game

Symmetries = Literal["all", "random", "none"]
"""Every sample under each symmetry ([Wang2019], [Wang2020a], [Wang2020b]), under a random one each
time, or as it is ([Clausen2021])."""


class Batch(NamedTuple):
    """What one learning step sees."""

    planes: NDArray[np.float32]  # [N, planes, rows, columns]
    policies: NDArray[np.float32]  # [N, actions]
    values: NDArray[np.float32]  # [N] the final outcome for the mover


@kernel
def _fill(
    game, cell_table, action_table, states, policies, values, picks, symmetries, batch, plain
):
    """Write the examples `picks` int64[N], each under its symmetry int64[N], into a batch.

    `plain` is scratch memory, float32[planes, cells].
    """
    planes, out_policies, out_values = batch
    for i in range(picks.shape[0]):
        pick = picks[i]
        symmetry = symmetries[i]
        encoding.encode(game, states[pick], plain)
        for plane in range(plain.shape[0]):
            for cell in range(plain.shape[1]):
                planes[i, plane, cell_table[symmetry, cell]] = plain[plane, cell]
        for action in range(policies.shape[1]):
            out_policies[i, action_table[symmetry, action]] = policies[pick, action]
        out_values[i] = values[pick]


class Window:
    """The examples of the last `iterations` iterations (rs), kept as states, not planes."""

    def __init__(self, game: Game, iterations: int) -> None:
        self.game = game
        self._iterations: deque[tuple[NDArray[Any], ...]] = deque(maxlen=iterations)
        self._cell_images, self._action_images = host.symmetry_tables(game)

    def add(
        self, states: NDArray[np.uint64], policies: NDArray[np.float16], values: NDArray[np.int8]
    ) -> None:
        """Add an iteration's examples; those of the oldest iteration may leave the window.

        States uint64[N, words], policy targets float16[N, actions], outcomes for the mover int8[N].
        """
        self._iterations.append((states, policies, values))

    def __len__(self) -> int:
        return sum(len(states) for states, _, _ in self._iterations)

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
        arrays = [np.concatenate(column) for column in zip(*self._iterations, strict=True)]
        states, policies, values = arrays[0], arrays[1].astype(np.float32), arrays[2]
        for _ in range(epochs):
            picks, images = self._order(random, len(states), symmetries)
            for i in range(self.batches_per_epoch(size, symmetries)):
                part = slice(i * size, (i + 1) * size)
                yield self._batch(states, policies, values, picks[part], images[part])

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
        states: NDArray[Any],
        policies: NDArray[Any],
        values: NDArray[Any],
        picks: NDArray[Any],
        images: NDArray[Any],
    ) -> Batch:
        size, planes = len(picks), encoding.planes(self.game)
        rows, columns = self.game[:2]
        batch = Batch(
            np.empty((size, planes, rows * columns), np.float32),
            np.empty((size, policies.shape[1]), np.float32),
            np.empty(size, np.float32),
        )
        plain = np.empty((planes, rows * columns), np.float32)
        _fill(
            self.game, self._cell_images, self._action_images, states, policies, values,
            picks, images, batch, plain,
        )  # fmt: skip
        return batch._replace(planes=batch.planes.reshape(size, planes, rows, columns))
