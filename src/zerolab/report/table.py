"""Tables of text, numbers and confidence intervals, as CSV and as data frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.core.errors import MissingExtraError

if TYPE_CHECKING:
    from pandas import DataFrame


def table_as_csv(table: Table) -> str:
    """Return a table as CSV with full precision.

    A column with intervals becomes three columns; unknown numbers and ends are empty.
    """
    records = table.records()
    names = list(records[0]) if records else table.column_titles
    rows: list[list[object]] = [list(names)]
    for record in records:
        cells = (record[name] for name in names)
        rows.append([None if isinstance(x, float) and not math.isfinite(x) else x for x in cells])
    return rows_as_csv(rows)


def rows_as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as lines of CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")  # to quote both kinds of line breaks in cells
    lines = []
    for row in rows:
        text.seek(0)
        text.truncate()
        writer.writerow(row)
        lines.append(text.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def data_frame(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows as a data frame; raise MissingExtraError if pandas is not installed."""
    try:
        from pandas import DataFrame  # noqa: PLC0415  slow, and only for notebooks
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_package("a data frame", "pandas", "notebook") from error
    return DataFrame(list(rows))


@dataclass(frozen=True)
class Column:
    """Column of a table."""

    title: str
    number_format: str = ""
    """Number format for `cell_text`, such as ``+.0f``, ``.1%`` or `P_VALUE_FORMAT`."""


@dataclass(frozen=True)
class Table:
    """Rows of text, numbers, and numbers with intervals."""

    name: str
    """Name of the CSV file, without an extension; empty for a table that is never saved."""
    title: str
    """Title above the table; can be empty."""
    columns: Sequence[str | Column]
    """Columns, or just titles for columns without a number format; titles are unique."""
    rows: Sequence[Sequence[Cell]]
    """Cells by row and column."""
    note: str = ""
    """Note below the table in a terminal."""

    def __post_init__(self) -> None:
        titles = self.column_titles
        if len(set(titles)) < len(titles):
            raise ValueError(f"table {self.name}: columns share a title: {titles}")
        for row in self.rows:
            if len(row) != len(titles):
                raise ValueError(f"table {self.name}: {len(row)} cells for {len(titles)} columns")

    @property
    def column_titles(self) -> list[str]:
        """Titles of the columns."""
        return [each.title if isinstance(each, Column) else each for each in self.columns]

    @property
    def number_formats(self) -> list[str]:
        """Number formats of the columns; empty strings for the default format."""
        return [each.number_format if isinstance(each, Column) else "" for each in self.columns]

    @property
    def is_numeric(self) -> list[bool]:
        """True for each column that contains only numbers, with or without intervals."""
        return [
            any(row[i] is not None for row in self.rows)
            and not any(isinstance(row[i], str | Link) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def records(self) -> list[dict[str, str | int | float | None]]:
        """Return each row as a dictionary from column titles to text and numbers.

        A column TITLE with intervals becomes three columns: TITLE, TITLE_low and TITLE_high.
        """
        have_intervals = [
            any(isinstance(row[i], Interval) for row in self.rows) for i in range(len(self.columns))
        ]
        return [
            {
                name: value
                for title, cell, is_split in zip(
                    self.column_titles, row, have_intervals, strict=True
                )
                for name, value in _plain_values(title, cell, is_split).items()
            }
            for row in self.rows
        ]


def table_from_columns(key: str, columns: Mapping[Column, Sequence[Cell]]) -> Table:
    """Return a table without a title from columns of equal length; empty columns are left out."""
    filled = {
        column: cells
        for column, cells in columns.items()
        if any(each not in (None, "") for each in cells)
    }
    return Table(key, "", list(filled), list(zip(*filled.values(), strict=True)))


def _plain_values(title: str, cell: Cell, is_split: bool) -> dict[str, str | int | float | None]:
    if isinstance(cell, Link):
        cell = cell.text
    if isinstance(cell, Interval):
        return {title: cell.value, f"{title}_low": cell.low, f"{title}_high": cell.high}
    return {title: cell, f"{title}_low": None, f"{title}_high": None} if is_split else {title: cell}


class Interval(NamedTuple):
    """Number with its 95 % interval; unknown ends are infinite."""

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

        The distances are never negative, although rounding can put a rate of 0 or 1 outside its
        interval.
        """
        if not self.is_bounded:
            return 0.0, 0.0
        return max(0.0, self.value - self.low), max(0.0, self.high - self.value)


class Link(NamedTuple):
    """Text that links to a page or a figure."""

    text: str
    target: str
    """Relative path or URL; a link without a target is plain text."""


Cell = str | int | float | Interval | Link | None
"""Content of a table cell; None is empty."""

P_VALUE_FORMAT = "p"
"""Format of p-values; see `p_value_text`."""

_NO_NUMBER = "\N{EN DASH}"
_MOST_DECIMALS = 6
_SMALLEST_MARGIN = 0.5 * 10**-_MOST_DECIMALS
"""Margins below this would be rounded to 0."""


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


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage with `digits` decimal places, such as ``75.0 %``."""
    return cell_text(share, f".{digits}%")


def p_value_text(p: float | None) -> str:
    """Return a p-value as text; empty for None."""
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
    """Return the format in which half the width of the interval has two significant digits.

    There are at most six decimal places; a narrower interval gets the format without an interval.
    """
    margin = (estimate.high - estimate.low) / 2
    if not math.isfinite(margin) or margin < _SMALLEST_MARGIN:
        return ".4g"
    return f".{min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(margin))))}f"


Z95 = NormalDist().inv_cdf(0.975)
"""Number of standard errors from an estimate to the ends of its 95 % interval, about 1.96."""


def wilson_interval(rate: float, trials: float, z: float = Z95) -> Interval:
    """Return the Wilson interval of a probability, at 95 % by default [Wilson1927].

    If p is the observed rate and n the number of trials, the ends are::

        (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Without trials, the interval is 0 to 1.
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
    """Whole word, as in axis labels."""
    seconds: float


_UNITS = (
    TimeUnit("s", "seconds", 1.0),
    TimeUnit("min", "minutes", 60.0),
    TimeUnit("h", "hours", 3600.0),
)
_SMALLEST_NUMBER = 3.0


def time_unit(seconds: Iterable[float]) -> TimeUnit:
    """Return the largest unit in which the longest time is at least 3; seconds if none is."""
    longest = max(seconds, default=0.0)
    suitable = [unit for unit in _UNITS if longest >= _SMALLEST_NUMBER * unit.seconds]
    return suitable[-1] if suitable else _UNITS[0]
