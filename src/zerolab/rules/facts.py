"""Facts about positions, from which heads compute their targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating[Any]]
"""float16 or float32."""


class Facts(NamedTuple):
    """Columns of numbers, a row per position.

    Where a position stands for several, a column holds their weighted mean. Columns of many numbers
    are float16 in the window and float32 in batches; they are empty, [N, 0], where nobody needs
    them. All others are float32.
    """

    policies: Numbers
    """[N, actions]: what the search recommends."""
    replies: Numbers
    """[N, actions]: what it recommends to the opponent after the move; NaN where none is known."""
    moves: Numbers
    """[N, actions]: 1 at the action that was played."""
    action_values: Numbers
    """[N, actions]: the mover's expected outcome by action; NaN where not searched."""
    features: Numbers
    """[N, features]: what another network sees in the position and in later ones of its game; NaN
    where the game was over. They do not turn with the position."""
    values: NDArray[np.float32]
    """[N]: the outcome for the mover, discounted by the plies that led there."""
    draws: NDArray[np.float32]
    """[N]: the probability of a draw; what the discount takes off a win or loss counts as one."""
    root_values: NDArray[np.float32]
    """[N]: the mover's expected outcome according to the search."""
    root_draws: NDArray[np.float32]
    """[N]: the probability of a draw according to the search; NaN where it kept none."""
    plies_left: NDArray[np.float32]
    """[N]: plies to the end of the game."""
    plies: NDArray[np.float32]
    """[N]: plies played before, counted from 0."""


ACTION_COLUMNS = ("policies", "replies", "moves", "action_values")
"""The facts with an entry per action, which turn with the position."""

VECTOR_COLUMNS = (*ACTION_COLUMNS, "features")
"""The facts of many numbers."""
