"""Choice of the unit in which a table or figure shows times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TimeUnit(NamedTuple):
    """Unit of time for tables and figures."""

    symbol: str
    plural: str
    """The whole word, as in the label of an axis."""
    seconds: float


_UNITS = (
    TimeUnit("s", "seconds", 1.0),
    TimeUnit("min", "minutes", 60.0),
    TimeUnit("h", "hours", 3600.0),
)
_SMALLEST_NUMBER = 3.0


def time_unit(seconds: Iterable[float]) -> TimeUnit:
    """Return the largest unit in which the longest time is at least 3, by default seconds."""
    longest = max(seconds, default=0.0)
    suitable = [unit for unit in _UNITS if longest >= _SMALLEST_NUMBER * unit.seconds]
    return suitable[-1] if suitable else _UNITS[0]
