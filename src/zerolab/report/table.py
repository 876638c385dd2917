"""Tables of text, numbers and intervals, and their CSV format."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerolab.report.interval import Cell, Interval, Link


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
    """Columns, or only titles of columns without a number format; titles are unique."""
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
        """True for each column that has only numbers, with or without intervals."""
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


def _plain_values(title: str, cell: Cell, is_split: bool) -> dict[str, str | int | float | None]:
    if isinstance(cell, Link):
        cell = cell.text
    if isinstance(cell, Interval):
        return {title: cell.value, f"{title}_low": cell.low, f"{title}_high": cell.high}
    return {title: cell, f"{title}_low": None, f"{title}_high": None} if is_split else {title: cell}
