"""Resignation in self-play, and the share of resignations that would have been wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules.facts import Numbers
from zerolab.rules.rules import LOSS
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord


@kernel
def draw_played_on(keys, share, played_on):
    """Write to bool[n] whether each game is played on; `keys` uint64[n] are the games' streams."""
    for i in range(keys.shape[0]):
        played_on[i] = streams.uniform(keys[i], 0) < share


def gives_up(root_values: Numbers, full: NDArray[np.bool_], threshold: float) -> NDArray[np.bool_]:
    """Return whether a player resigns, bool[n], given the root values of its searches.

    Only full searches count, whose values are more reliable; `full`, bool[n], excludes quick
    searches and random plies.
    """
    # Without the conversion, numpy would round the threshold to float16.
    return full & (root_values.astype(np.float64) < threshold)


def resignation_counts(
    examples: Examples, games: Sequence[GameRecord], threshold: float
) -> dict[str, float]:
    """Return the field `resignations` of `SelfPlayRecord` for the games of an iteration.

    `examples` are those of all games, ordered by game and ply. A resigned game has no example of
    the position in which its player gave up, so all examples in which a player would have resigned
    belong to games that were played on. The first of them counts in each game.
    """
    would_resign = np.flatnonzero(gives_up(examples.root_values, examples.full, threshold))
    _, first = np.unique(examples.games[would_resign], return_index=True)
    outcomes = examples.outcomes[would_resign[first]]
    false_count = int((outcomes != LOSS).sum())
    counts: dict[str, float] = {
        "resigned": sum(game.is_forfeited for game in games),
        "played_on": len(outcomes),
        "false": false_count,
    }
    return {**counts, "false_rate": false_count / len(outcomes)} if len(outcomes) else counts
