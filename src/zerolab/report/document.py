"""Content of a report, independent of its format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.report.citation import Citation
from zerolab.report.claims import ClaimTable
from zerolab.report.figures import figure_bytes
from zerolab.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MAX_RANGES = 4  # of seeds listed separately
_DIGITS = 16  # of a digest


@dataclass(frozen=True)
class Provenance:
    """Runs, software and machines behind the results of a report."""

    run_count: int
    """Number of runs."""
    run_digests: Sequence[str]
    """Digest of the settings and the best network of each run."""
    versions: Mapping[str, str]
    """Versions of zerolab, Python and libraries by name; all versions if runs differ."""
    seeds: Sequence[int]
    """Seeds of the runs."""
    machine: str
    """Machine, such as ``AMD EPYC 9654, x86_64, bfloat16, 1 core per run``; all machines if runs
    differ."""
    training_hours: float
    """Total training time of all runs in hours, without tournaments."""

    @property
    def digest(self) -> str:
        """Digest of all run digests, independent of their order."""
        text = "\n".join(sorted(self.run_digests))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def summary(self) -> str:
        """Return the provenance in one line; without runs, only software and machine."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        if not self.run_count:
            return f"No runs; {versions}; {self.machine}."
        runs = f"{self.run_count} run" if self.run_count == 1 else f"{self.run_count} runs"
        return (
            f"{runs}, digest {self.digest}; {versions}; seeds {_ranges(self.seeds)};"
            f" {self.machine}; {self.training_hours:.3g} hours of training."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the provenance for JSON."""
        return {
            "runs": self.run_count,
            "digest": self.digest,
            "versions": dict(self.versions),
            "seeds": sorted(set(self.seeds)),
            "machine": self.machine,
            "hours": self.training_hours,
        }


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as ``0 to 2, 5``, or ``none`` without numbers.

    More than four ranges are summarised by their total count and ends.
    """
    distinct = sorted(set(numbers))
    ranges: list[list[int]] = []
    for number in distinct:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    if len(ranges) > _MAX_RANGES:
        return f"{len(distinct)} between {distinct[0]} and {distinct[-1]}"
    texts = (f"{each[0]} to {each[-1]}" if len(each) > 1 else str(each[0]) for each in ranges)
    return ", ".join(texts) or "none"


_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Heading:
    """Title of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Picture:
    """Figure with a name and a caption.

    The legend or the caption explains dots, bands and bars.
    """

    name: str
    """Name of the image files, without an extension."""
    figure: Figure
    caption: str


Block = Heading | Paragraph | Picture | Table | ClaimTable


@dataclass(frozen=True)
class Document:
    """Content of a report, independent of its format."""

    title: str
    """Title of the report."""
    limits: str
    """First paragraph: limitations, such as the scale of the runs, and conclusions that the report
    does not support."""
    blocks: Sequence[Block]
    """Headings, paragraphs, pictures and tables in order."""
    provenance: Provenance
    """Origin of the results."""
    citation: Citation | None = None
    """Origin of the report; None for a page that is not cited, without a summary
    and a list of references."""

    def __post_init__(self) -> None:
        named = (each for each in self.blocks if not isinstance(each, Heading | Paragraph))
        names = [each.name for each in named if each.name]
        if len(set(names)) < len(names):
            raise ValueError(f"tables and pictures share a name: {sorted(names)}")
        for name in names:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a file name: expected {_FILE_NAME.pattern}")
        if not self.limits.strip():
            raise ValueError("the limits are empty: expected the limitations of the report")

    @property
    def pictures(self) -> list[Picture]:
        """All pictures in order."""
        return [each for each in self.blocks if isinstance(each, Picture)]

    @property
    def tables(self) -> list[Table]:
        """Tables with a name in order, including claim tables."""
        return [
            each.as_table() if isinstance(each, ClaimTable) else each
            for each in self.blocks
            if isinstance(each, Table | ClaimTable) and each.name
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all content except pictures and prose for JSON; unknown numbers are None."""
        claims = [each for each in self.blocks if isinstance(each, ClaimTable)]
        return {
            "title": self.title,
            "limits": self.limits,
            "claims": [verdict.as_dict() for each in claims for verdict in each.verdicts],
            "tables": {
                each.name: [_finite_record(record) for record in each.records()]
                for each in self.blocks
                if isinstance(each, Table) and each.name
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
    """Picture as files in both formats."""

    png: bytes
    svg: bytes


def render_picture(picture: Picture) -> Image:
    """Return a picture as files in both formats."""
    return Image(figure_bytes(picture.figure, "png"), figure_bytes(picture.figure, "svg"))
