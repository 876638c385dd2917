"""Tables as CSV, with all digits."""

from __future__ import annotations

import csv
import io
import math

from zerolab.studies.report.document import DataTable


def comma_separated(table: DataTable) -> str:
    """Return the table: an estimate has three columns, an unknown number or end is left empty."""
    records = table.records()
    names = list(records[0]) if records else table.titles
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([_plain(record[name]) for name in names])
    return text.getvalue()


def _plain(value: str | int | float | None) -> str | int | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
