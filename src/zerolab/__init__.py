"""zerolab: a laboratory for AlphaZero-like self-play on small board games."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zerolab.rules.position import Position

__all__ = ["Position"]
__version__ = "0.1.0"

# Threads that wait for each other in torch spin first. On a machine that does other things too,
# the default number of spins makes learning many times slower; it is read when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """Import what users reach for only when they do: the command line starts faster without."""
    if name == "Position":
        from zerolab.rules.position import Position  # noqa: PLC0415

        return Position
    raise AttributeError(f"module 'zerolab' has no attribute {name!r}")
