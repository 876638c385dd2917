"""One image for all states that the symmetries of a game turn into each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.rules import encoding
from zerolab.rules.interface import Game


def smallest_images(
    game: Game, states: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the smallest image of each state uint64[n, words], and the symmetry int64[n] to it.

    Images are compared word by word. Two states have the same one exactly if a symmetry takes one
    to the other.
    """
    images, symmetries = np.empty_like(states), np.empty(len(states), np.int64)
    _smallest(game, states, images, symmetries, np.empty(states.shape[1], np.uint64))
    return images, symmetries


@kernel
def _smallest(game: Any, states: Any, images: Any, symmetries: Any, image: Any) -> None:
    for i in range(states.shape[0]):
        copy_row(states[i], images[i])
        symmetries[i] = 0
        for symmetry in range(1, encoding.symmetries(game)):
            encoding.transform(game, states[i], symmetry, image)
            if _precedes(image, images[i]):
                copy_row(image, images[i])
                symmetries[i] = symmetry


@inlined
def _precedes(one: Any, other: Any) -> bool:
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return bool(one[word] < other[word])
    return False
