"""In what time is shown: runs last seconds at one scale, and days at another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TimeUnit(NamedTuple):
    """A unit of time."""

    name: str
    seconds: float


_UNITS = (TimeUnit("s", 1.0), TimeUnit("min", 60.0), TimeUnit("h", 3600.0))
_FEWEST = 3.0


def time_unit(seconds: Iterable[float]) -> TimeUnit:
    """Return the largest unit of which the longest time has three or more; seconds if none."""
    longest = max(seconds, default=0.0)
    fitting = [unit for unit in _UNITS if longest >= _FEWEST * unit.seconds]
    return fitting[-1] if fitting else _UNITS[0]
