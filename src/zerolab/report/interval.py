"""Intervals around numbers, and both as text."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class IntervalLike(Protocol):
    """Anything with a value and the ends of its 95 % interval, such as an estimate."""

    @property
    def value(self) -> float:
        """The number itself."""
        ...

    @property
    def low(self) -> float:
        """The lower end."""
        ...

    @property
    def high(self) -> float:
        """The upper end."""
        ...


class Interval(NamedTuple):
    """A number with its 95 % interval; unknown ends are infinite."""

    value: float
    low: float
    high: float


Cell = str | int | float | IntervalLike | None
"""Content of a table's cell; None is empty."""

P_VALUE = "p"
"""Format of p-values; see `p_text`."""

_NO_NUMBER = "\N{EN DASH}"


def cell_text(cell: Cell, number_format: str = "") -> str:
    """Return a cell as text.

    `number_format` is that of `format`, with a space before the sign of percentages such as
    ``.1%``, or `P_VALUE`. Without a format, floats have four significant digits, and a number with
    an interval has as many as the interval justifies.
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return p_text(cell) if number_format == P_VALUE else _number(cell, number_format)
    number_format = number_format or _sensible(cell)
    value = _number(cell.value, number_format)
    if not (math.isfinite(cell.low) and math.isfinite(cell.high)):
        return f"{value} (no interval)"
    low, high = (_number(end, number_format).removesuffix(" %") for end in (cell.low, cell.high))
    return f"{value} ({low} to {high})"


def p_text(p: float | None) -> str:
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
    unsigned = text.removeprefix("-")  # no -0.0 for -0.04
    return text if any(digit in unsigned for digit in "123456789") else unsigned


def _sensible(estimate: IntervalLike) -> str:
    """Return the format in which half the interval has two significant digits."""
    margin = (estimate.high - estimate.low) / 2
    if not math.isfinite(margin) or margin <= 0.0:
        return ".4g"
    return f".{min(6, max(0, 1 - math.floor(math.log10(margin))))}f"


Z95 = NormalDist().inv_cdf(0.975)
"""Standard errors on either side of an estimate in a 95 % interval: 1.96."""


def wilson(rate: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's interval of a probability, 95 % by default, from the rate in some trials.

    With p the rate and n the trials, [Wilson1927]::

        (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    if not trials:
        return 0.0, 1.0
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    margin = z / (1 + z * z / trials) * spread
    return max(0.0, centre - margin), min(1.0, centre + margin)
