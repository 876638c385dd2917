"""What decides on the content of the window: how much it keeps, and what equal positions become.

Both are chosen in a run's settings. Another package adds a kind by registering it in `WINDOWS` or
`MERGINGS` from a module that the entry-point group ``zerolab.training`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import Choice
from zerolab.core.registry import Registry


class WindowSize(Choice):
    """Base of windows: which positions are kept after an iteration, counted from 1.

    The positions of a window are ordered by when they were last played, and the oldest leave.
    """

    @property
    def last(self) -> int | None:
        """The iteration in which the window has its final size, if it is known in advance."""
        return None

    def oldest(self, iteration: int) -> int:
        """Return the earliest iteration whose positions are kept."""
        return 1

    def positions(self, iteration: int, total: int) -> int | None:
        """Return the most positions that are kept, or None for any number of them.

        `total` positions were played in the run so far, equal ones counted each.
        """
        return None

    def first_needed(self, iteration: int, total: int, played: Callable[[int], int]) -> int:
        """Return the earliest iteration of which positions are in the window after `iteration`.

        `played` gives the positions of an iteration; it is asked for no more of them than needed.
        Where equal positions are merged, earlier iterations left traces in the window, too.
        """
        oldest, kept, since = self.oldest(iteration), float("inf"), 0
        while iteration >= oldest and since < kept:
            limit = self.positions(iteration, total - since)
            if limit is not None:
                kept = min(kept, since + limit)
            since += played(iteration)
            iteration -= 1
        return iteration + 1


class Merging(Choice):
    """Base of mergings: how much a position changes what is known of an equal one.

    Every column of a row, such as its policy, becomes (1 - share) * old + share * new.
    """

    is_on: ClassVar[bool] = True
    """Whether anything is merged."""
    is_precise: ClassVar[bool] = False
    """Whether shares become so small that columns of float16 would lose them."""

    @property
    def is_symmetric(self) -> bool:
        """Whether positions are equal that a symmetry of the game turns into each other."""
        return False

    def shares(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the shares of new positions, float32[N].

        `counts` numbers each among the equal ones, in the order in which they came: 2 or more.
        """
        raise NotImplementedError


WINDOWS: Registry[type[WindowSize]] = Registry("window")
MERGINGS: Registry[type[Merging]] = Registry("merging")
