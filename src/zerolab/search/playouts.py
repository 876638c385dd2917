"""Random playouts as the value of a position."""

from __future__ import annotations

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules import interface as rules


@inlined
def mean_playout(game, state, playouts, key, scratch, trace):
    """Return the mean outcome of random playouts for a state's mover, the last one in `trace`."""
    total = 0
    for number in range(playouts):
        total += rules.playout(game, state, streams.fold(key, number), scratch, trace)
    return total / playouts
