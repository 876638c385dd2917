"""Confidence intervals, and numbers, intervals and times as text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """Number with its 95 % interval, whose ends are infinite if unknown."""

    value: float
    low: float
    high: float

    @classmethod
    def unbounded(cls, value: float) -> Interval:
        """Return a number whose interval is unknown."""
        return cls(value, -math.inf, math.inf)

    def __repr__(self) -> str:
        return f"Interval({self.value:.4g}, {self.low:.4g}, {self.high:.4g})"

    @property
    def is_bounded(self) -> bool:
        """True if both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def margins(self) -> tuple[float, float]:
        """Distances from the value to the lower and upper end; 0 if the interval is unknown.

        They are never negative, although rounding can put a rate of 0 or 1 outside its interval.
        """
        if not self.is_bounded:
            return 0.0, 0.0
        return max(0.0, self.value - self.low), max(0.0, self.high - self.value)


class Link(NamedTuple):
    """Text that leads to a page or a figure."""

    text: str
    target: str
    """Relative path or URL; a link without a target is plain text."""


Cell = str | int | float | Interval | Link | None
"""Content of a table cell; None is empty."""

P_VALUE_FORMAT = "p"
"""Format of p-values; see `p_value_text`."""

_NO_NUMBER = "\N{EN DASH}"


def cell_text(cell: Cell, number_format: str = "") -> str:
    """Return a cell as text, with a space before percent signs.

    `number_format` is a format specification such as ``.1%``, or `P_VALUE_FORMAT`. By default,
    floats have four significant digits, and the digits of a number with an interval depend on the
    width of the interval.
    """
    if cell is None:
        return ""
    if isinstance(cell, str | Link):
        return cell if isinstance(cell, str) else cell.text
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return (
            p_value_text(cell) if number_format == P_VALUE_FORMAT else _number(cell, number_format)
        )
    number_format = number_format or _interval_format(cell)
    value = _number(cell.value, number_format)
    if not cell.is_bounded:
        return f"{value} (no interval)"
    low, high = (_number(end, number_format).removesuffix(" %") for end in (cell.low, cell.high))
    return f"{value} ({low} to {high})"


def p_value_text(p: float | None) -> str:
    """Return a p-value as text."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _number(number: float, number_format: str) -> str:
    if not math.isfinite(number):
        return _NO_NUMBER
    if not number_format:
        return str(number) if isinstance(number, int) else f"{number:.4g}"
    text = format(number, number_format)
    text = text[:-1] + " %" if text.endswith("%") else text
    unsigned = text.removeprefix("-")  # 0.0 rather than -0.0 for -0.04
    return text if any(digit in unsigned for digit in "123456789") else unsigned


def _interval_format(estimate: Interval) -> str:
    """Return the format in which half the width of the interval has two significant digits."""
    margin = (estimate.high - estimate.low) / 2
    if not math.isfinite(margin) or margin <= 0.0:
        return ".4g"
    return f".{min(6, max(0, 1 - math.floor(math.log10(margin))))}f"


Z95 = NormalDist().inv_cdf(0.975)
"""Number of standard errors from an estimate to the ends of its 95 % interval, about 1.96."""


def wilson_interval(rate: float, trials: float, z: float = Z95) -> Interval:
    """Return the Wilson interval of a probability, at 95 % by default [Wilson1927].

    If p is the observed rate and n the number of trials, the ends are::

        (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    if not trials:
        return Interval(rate, 0.0, 1.0)
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    margin = z / (1 + z * z / trials) * spread
    return Interval(rate, max(0.0, centre - margin), min(1.0, centre + margin))


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
