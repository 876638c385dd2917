"""What a report consists of, without any thought of how it looks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zerolab.studies.claims import Verdict
from zerolab.studies.report.cells import Cell, Interval
from zerolab.studies.report.provenance import Provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A figure; it says in its legend or caption what its dots, bands and bars are."""

    name: str
    """Of its files, without an ending."""
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    number_format: str = ""
    """Of numbers and estimates, as for `format`, such as ``+.0f`` or ``.1%``; or `P_VALUE`."""


@dataclass(frozen=True)
class DataTable:
    """Texts, numbers, and estimates with their intervals."""

    name: str
    """Of its file, without an ending."""
    title: str
    columns: Sequence[str | Column]
    """A bare title has numbers as they come. Titles differ from one another."""
    rows: Sequence[Sequence[Cell]]

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
        """Whether each column holds numbers or estimates and nothing else."""
        return [
            any(row[i] is not None for row in self.rows)
            and not any(isinstance(row[i], str) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def records(self) -> list[dict[str, str | int | float | None]]:
        """Return the rows with plain values by column.

        A column with estimates becomes three: its title, and this with _low and _high added.
        """
        split = [any(isinstance(row[i], Interval) for row in self.rows) for i in self._indices]
        return [
            {
                name: value
                for title, cell, is_split in zip(self.titles, row, split, strict=True)
                for name, value in _plain(title, cell, is_split).items()
            }
            for row in self.rows
        ]

    @property
    def _indices(self) -> range:
        return range(len(self.columns))


def _plain(title: str, cell: Cell, split: bool) -> dict[str, str | int | float | None]:
    if isinstance(cell, Interval):
        return {title: cell.value, f"{title}_low": cell.low, f"{title}_high": cell.high}
    return {title: cell, f"{title}_low": None, f"{title}_high": None} if split else {title: cell}


@dataclass(frozen=True)
class ClaimTable:
    """What became of the claims of a study."""

    verdicts: Sequence[Verdict]
    name: str = "claims"

    def as_table(self) -> DataTable:
        """Return everything about the claims as a table."""
        titles = ["key", "claim", "source", "statistic", "direction", "threshold", "found", "p"]
        rows: list[list[Cell]] = [
            [
                each.claim.key, each.claim.text, each.claim.source, each.claim.statistic,
                each.claim.direction, each.claim.threshold, each.estimate, each.p, each.adjusted,
                each.word, each.note,
            ]
            for each in self.verdicts
        ]  # fmt: skip
        return DataTable(self.name, "Claims", [*titles, "adjusted p", "verdict", "note"], rows)


Block = Heading | Paragraph | Picture | DataTable | ClaimTable


@dataclass(frozen=True)
class Document:
    """A report: the same content for every writer."""

    title: str
    limits: str
    """Heads every report: the scale, and what cannot be concluded from it."""
    blocks: Sequence[Block]
    provenance: Provenance

    def __post_init__(self) -> None:
        names = [each.name for each in self.blocks if not isinstance(each, Heading | Paragraph)]
        if len(set(names)) < len(names):
            raise ValueError(f"tables and pictures share a name: {sorted(names)}")
        for name in names:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a file: {_FILE_NAME.pattern}")
        if not self.limits.strip():
            raise ValueError("a report says what cannot be concluded from it")

    @property
    def pictures(self) -> list[Picture]:
        """All pictures."""
        return [each for each in self.blocks if isinstance(each, Picture)]

    @property
    def tables(self) -> list[DataTable]:
        """All tables, claims among them."""
        return [
            each.as_table() if isinstance(each, ClaimTable) else each
            for each in self.blocks
            if isinstance(each, DataTable | ClaimTable)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return titles, tables, verdicts and provenance for JSON; unknown numbers are None."""
        claims = [each for each in self.blocks if isinstance(each, ClaimTable)]
        return {
            "title": self.title,
            "limits": self.limits,
            "claims": [verdict.as_dict() for each in claims for verdict in each.verdicts],
            "tables": {
                each.name: [_finite(record) for record in each.records()]
                for each in self.blocks
                if isinstance(each, DataTable)
            },
            "provenance": self.provenance.as_dict(),
        }


def _finite(record: Mapping[str, str | int | float | None]) -> dict[str, str | int | float | None]:
    infinite = (float("inf"), float("-inf"))
    return {
        name: None if value in infinite or value != value else value  # noqa: PLR0124  NaN
        for name, value in record.items()
    }
