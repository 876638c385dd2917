"""What random playouts share."""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules.interface import LOSS, WIN, playout


@inlined
def draw(key, ply, last):
    """Return bits of which the upper 32 are random, for `streams.below`; `last` drew for ply - 1.

    Two plies share a draw of the stream: each uses a half, which is all that `below` looks at.
    """
    return last << np.uint64(32) if ply & 1 else streams.bits(key, ply >> 1)


@inlined
def last_mover_wins(plies):
    """Return the outcome for the first mover of a playout that its last mover wins."""
    return WIN if plies & 1 else LOSS


@inlined
def mean_playout(game, state, count, key, out, moves):
    """Return the mean outcome of random playouts for a state's mover, the last one in `moves`.

    The stream of playout j is `fold(key, j)`; `out` is overwritten.
    """
    total = 0
    for number in range(count):
        total += playout(game, state, streams.fold(key, number), out, moves)
    return total / count
