"""What random playouts share."""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.rules.interface import LOSS, WIN


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
