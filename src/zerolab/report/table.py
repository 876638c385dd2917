"""Tables of texts, numbers and intervals, and their CSV form."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerolab.report.interval import Cell, IntervalLike


def csv_text(table: Table) -> str:
    """Return a table as CSV with all digits.

    A number with an interval has three columns; unknown numbers and ends are left empty.
    """
    records = table.records()
    names = list(records[0]) if records else table.titles
    return csv_rows([names, *([_csv_value(record[name]) for name in names] for record in records)])


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """Return rows of cells as lines of CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")  # so that all line breaks in cells are quoted
    lines = []
    for row in rows:
        text.seek(0)
        text.truncate()
        writer.writerow(row)
        lines.append(text.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def _csv_value(value: str | int | float | None) -> str | int | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    number_format: str = ""
    """Format of numbers, as for `cell_text`: ``+.0f``, ``.1%`` or `P_VALUE`."""


@dataclass(frozen=True)
class Table:
    """Rows of texts, numbers, and numbers with intervals."""

    name: str
    """Name of its file, without an ending; empty for a table that is only shown."""
    title: str
    """Above the table; may be empty."""
    columns: Sequence[str | Column]
    """A title alone means a column without a number format. Titles are unique."""
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    """Below the table in a terminal."""

    def __post_init__(self) -> None:
        titles = self.titles
        if len(set(titles)) < len(titles):
            raise ValueError(f"table {self.name}: columns share a title: {titles}")
        for row in self.rows:
            if len(row) != len(titles):
                raise ValueError(f"table {self.name}: {len(row)} cells for {len(titles)} columns")

    @property
    def titles(self) -> list[str]:
        """The titles of the columns."""
        return [each.title if isinstance(each, Column) else each for each in self.columns]

    @property
    def formats(self) -> list[str]:
        """The number formats of the columns."""
        return [each.number_format if isinstance(each, Column) else "" for each in self.columns]

    @property
    def numeric(self) -> list[bool]:
        """True for each column that holds numbers only, with or without intervals."""
        return [
            any(row[i] is not None for row in self.rows)
            and not any(isinstance(row[i], str) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def records(self) -> list[dict[str, str | int | float | None]]:
        """Return the rows as dictionaries of plain values.

        A column with intervals becomes three, whose titles end in nothing, _low and _high.
        """
        split = [any(isinstance(row[i], IntervalLike) for row in self.rows) for i in self._indices]
        return [
            {
                name: value
                for title, cell, is_split in zip(self.titles, row, split, strict=True)
                for name, value in _columns_of(title, cell, is_split).items()
            }
            for row in self.rows
        ]

    @property
    def _indices(self) -> range:
        return range(len(self.columns))


def _columns_of(title: str, cell: Cell, split: bool) -> dict[str, str | int | float | None]:
    if isinstance(cell, IntervalLike):
        return {title: cell.value, f"{title}_low": cell.low, f"{title}_high": cell.high}
    return {title: cell, f"{title}_low": None, f"{title}_high": None} if split else {title: cell}
