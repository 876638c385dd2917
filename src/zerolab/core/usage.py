"""How much memory this process uses."""

from __future__ import annotations

import resource
import sys

_UNITS_IN_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10


def peak_memory() -> int:
    """Return the most memory that this process has used so far, in MiB."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _UNITS_IN_MIB)
