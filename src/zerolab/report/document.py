"""Content of a report, independent of its format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.report.claims import ClaimTable
from zerolab.report.figures import figure_bytes
from zerolab.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_RANGES = 4  # of seeds: more are not listed
_DIGITS = 16  # of a digest


@dataclass(frozen=True)
class Provenance:
    """Origin of the results in a report: runs, software and machines, without names of folders."""

    runs: int
    digests: Sequence[str]
    """One per run, of its settings and its network."""
    versions: Mapping[str, str]
    """Of zerolab, Python and libraries; if runs differ, all versions of each."""
    seeds: Sequence[int]
    machine: str
    """Such as ``AMD EPYC 9654, x86_64, bfloat16, 1 core per run``; several if runs differ."""
    hours: float
    """Hours of training of all runs; tournaments are not counted."""

    @property
    def digest(self) -> str:
        """Digest of all digests, independent of their order."""
        text = "\n".join(sorted(self.digests))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def line(self) -> str:
        """Return the provenance in one line; without runs, software and machine only."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        if not self.runs:
            return f"No runs; {versions}; {self.machine}."
        runs = f"{self.runs} run" if self.runs == 1 else f"{self.runs} runs"
        return (
            f"{runs}, digest {self.digest}; {versions}; seeds {_ranges(self.seeds)};"
            f" {self.machine}; {self.hours:.3g} hours of training."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for JSON."""
        return {
            "runs": self.runs,
            "digest": self.digest,
            "versions": dict(self.versions),
            "seeds": sorted(set(self.seeds)),
            "machine": self.machine,
            "hours": self.hours,
        }


def _ranges(numbers: Iterable[int]) -> str:
    """Return 0, 1, 2, 5 as ``0 to 2, 5``, many ranges as one, and no numbers as ``none``."""
    found = sorted(set(numbers))
    parts: list[list[int]] = []
    for number in found:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    if len(parts) > _RANGES:
        return f"{len(found)} between {found[0]} and {found[-1]}"
    texts = (f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return ", ".join(texts) or "none"


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
    """A figure whose legend or caption explains its dots, bands and bars."""

    name: str
    """Name of its files, without an ending."""
    figure: Figure
    caption: str


Block = Heading | Paragraph | Picture | Table | ClaimTable


@dataclass(frozen=True)
class Document:
    """A report, independent of the format in which it is written."""

    title: str
    limits: str
    """First paragraph of every report: the scale, and conclusions it does not support."""
    blocks: Sequence[Block]
    provenance: Provenance

    def __post_init__(self) -> None:
        names = [each.name for each in self.blocks if not isinstance(each, Heading | Paragraph)]
        if len(set(names)) < len(names):
            raise ValueError(f"tables and pictures share a name: {sorted(names)}")
        for name in names:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a file name: expected {_FILE_NAME.pattern}")
        if not self.limits.strip():
            raise ValueError("expected the limits of the report: conclusions it does not support")

    @property
    def pictures(self) -> list[Picture]:
        """All pictures."""
        return [each for each in self.blocks if isinstance(each, Picture)]

    @property
    def tables(self) -> list[Table]:
        """All tables, including those of claims."""
        return [
            each.as_table() if isinstance(each, ClaimTable) else each
            for each in self.blocks
            if isinstance(each, Table | ClaimTable)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything but figures and prose for JSON; unknown numbers are None."""
        claims = [each for each in self.blocks if isinstance(each, ClaimTable)]
        return {
            "title": self.title,
            "limits": self.limits,
            "claims": [verdict.as_dict() for each in claims for verdict in each.verdicts],
            "tables": {
                each.name: [_finite_record(record) for record in each.records()]
                for each in self.blocks
                if isinstance(each, Table)
            },
            "provenance": self.provenance.as_dict(),
        }


def _finite_record(
    record: Mapping[str, str | int | float | None],
) -> dict[str, str | int | float | None]:
    infinite = (float("inf"), float("-inf"))
    return {
        name: None if value in infinite or value != value else value  # noqa: PLR0124  NaN
        for name, value in record.items()
    }


class Image(NamedTuple):
    """A figure in both file formats."""

    png: bytes
    svg: bytes


def draw_picture(picture: Picture) -> Image:
    """Draw a figure in both file formats."""
    return Image(figure_bytes(picture.figure, "png"), figure_bytes(picture.figure, "svg"))
