"""Memory of the current process, on every system."""

from __future__ import annotations

import sys
from typing import Any

_MIB = 1 << 20
_PEAK_UNITS_IN_MIB = _MIB if sys.platform == "darwin" else 1 << 10


def current_memory() -> float:
    """Return the memory that this process uses now, in MiB."""
    return float(_information().rss) / _MIB


def peak_memory() -> int:
    """Return the peak memory use of this process so far, in whole MiB."""
    try:
        import resource  # noqa: PLC0415  only on Unix, where psutil knows no peak
    except ModuleNotFoundError:
        return int(_information().peak_wset // _MIB)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _PEAK_UNITS_IN_MIB)


def _information() -> Any:
    """Return psutil's counters of this process, in bytes."""
    import psutil  # noqa: PLC0415  few commands need it

    return psutil.Process().memory_info()
