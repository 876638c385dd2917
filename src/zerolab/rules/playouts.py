"""What games with a playout of their own share, and batches of playouts."""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules.interface import LOSS, WIN, playout

_PLAYOUTS_PER_THREAD = 1000
"""Waking a thread takes some 50 microseconds."""


@inlined
def random_bits(key, ply, previous):
    """Return 64 bits of which the upper 32 are random, which is all that `streams.below` uses.

    Two plies share one draw of the stream `key`: `previous` is what was returned for ply - 1.
    """
    return previous << np.uint64(32) if ply & 1 else streams.bits(key, ply >> 1)


@inlined
def win_after(plies):
    """Return the outcome for the first mover when the last of `plies` plies wins."""
    return WIN if plies & 1 else LOSS


@inlined
def mean_playout(game, state, count, key, out, moves):
    """Return the mean outcome of `count` playouts for the mover of `state`.

    Playout j uses the stream `fold(key, j)`. `out` and `moves` are as for `interface.playout`;
    `moves` keeps the last playout.
    """
    total = 0
    for number in range(count):
        total += playout(game, state, streams.fold(key, number), out, moves)
    return total / count


def threads_for_playouts(playouts: int, threads: int) -> int:
    """Return how many of `threads` threads are worth waking for some playouts."""
    return min(threads, 1 + playouts // _PLAYOUTS_PER_THREAD)
