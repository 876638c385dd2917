"""Content of a report, independent of its format, and the facts needed to cite it.

``references.json`` contains the entries of docs/references.md as plain text. The file is generated
by tools/generate_tables.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.report.claims import ClaimTable, Verdict
from zerolab.report.figures import figure_bytes
from zerolab.report.table import Table, cell_text, p_value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MAX_RANGES = 4  # more ranges of seeds are summarised
_DIGITS = 16  # hexadecimal digits of a digest


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
        """Return the provenance in one line; if there are no runs, only software and machine."""
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
    """Return numbers as text, such as ``0 to 2, 5``, or ``none`` if there are none.

    If there are more than four ranges, only the count, the smallest and the largest of the numbers
    are given.
    """
    distinct = sorted(set(numbers))
    ranges: list[list[int]] = []
    for number in distinct:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    if len(ranges) > _MAX_RANGES:
        return f"{distinct[0]} to {distinct[-1]} ({len(distinct)} of them)"
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
    limitations: str
    """First paragraph: limitations, such as the scale of the runs, and conclusions that the report
    does not support."""
    blocks: Sequence[Block]
    """Headings, paragraphs, pictures and tables in order."""
    provenance: Provenance
    """Origin of the results."""
    citation: ReportCitation | None = None
    """Origin of the report; None for a page that is not meant to be cited. Such a page has neither
    a summary nor a list of references."""

    def __post_init__(self) -> None:
        named = (each for each in self.blocks if not isinstance(each, Heading | Paragraph))
        names = [each.name for each in named if each.name]
        if len(set(names)) < len(names):
            raise ValueError(f"tables and pictures share a name: {sorted(names)}")
        for name in names:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a file name: expected {_FILE_NAME.pattern}")
        if not self.limitations.strip():
            raise ValueError("the limits are empty: expected the limitations of the report")

    @property
    def pictures(self) -> list[Picture]:
        """All pictures in order."""
        return [each for each in self.blocks if isinstance(each, Picture)]

    @property
    def tables(self) -> list[Table]:
        """Named tables in order, including claim tables."""
        return [
            each.as_table() if isinstance(each, ClaimTable) else each
            for each in self.blocks
            if isinstance(each, Table | ClaimTable) and each.name
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all content for JSON, without pictures and prose; unknown numbers are None."""
        claims = [each for each in self.blocks if isinstance(each, ClaimTable)]
        return {
            "title": self.title,
            "limits": self.limitations,
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
    """Rendered picture, as the bytes of a PNG file and of an SVG file."""

    png: bytes
    svg: bytes


def render_picture(picture: Picture) -> Image:
    """Render a picture in both formats."""
    return Image(figure_bytes(picture.figure, "png"), figure_bytes(picture.figure, "svg"))


_SPECIAL_IN_TEX = re.compile(r"([#$%&_{}])")
_NO_DATA = "no data"


class ReportCitation(NamedTuple):
    """Origin of a report."""

    name: str
    """Name of the study, such as ``warm-start``."""
    command: str
    """Command that repeats the measurements."""
    date: str
    """Date of the report, such as 2026-01-31."""
    version: str
    """Version of zerolab that wrote the report."""


def summary_sentences(document: Document) -> list[str]:
    """Return three sentences on the verdicts of a report; none without claims or a citation."""
    if document.citation is None:
        return []
    verdicts = [each for block in _claim_tables(document) for each in block.verdicts]
    if not verdicts:
        return []
    count, runs = len(verdicts), document.provenance.run_count
    tested = "1 finding" if count == 1 else f"{count} findings"
    basis = f"{runs:,} run{'s' * (runs != 1)}" if runs else "games without training"
    return [
        f"This report tests {tested} with {basis}.",
        f"Of these, {_numbers_by_word(verdicts)}.",
        _clearest(verdicts),
    ]


def _claim_tables(document: Document) -> Iterator[ClaimTable]:
    return (block for block in document.blocks if isinstance(block, ClaimTable))


def _numbers_by_word(verdicts: Sequence[Verdict]) -> str:
    phrases = {
        "holds": ("holds", "hold"), "does not hold": ("does not hold", "do not hold"),
        "equal": ("shows equality", "show equality"),
        "undecided": ("is undecided", "are undecided"),
        _NO_DATA: ("has no data", "have no data"),
    }  # fmt: skip
    counts = {word: sum(each.word == word for each in verdicts) for word in phrases}
    parts = [f"{n} {phrases[word][n != 1]}" for word, n in counts.items() if n]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _clearest(verdicts: Sequence[Verdict]) -> str:
    decided = [each for each in verdicts if each.is_decided and each.adjusted_p_value is not None]
    if not decided:
        return "No finding is decided, which does not mean that there is no effect."
    clearest = min(decided, key=lambda each: each.adjusted_p_value or 0.0)
    claim, found = clearest.claim, cell_text(clearest.estimate)
    p_value = p_value_text(clearest.adjusted_p_value)
    equals = "" if p_value.startswith("<") else "= "
    return (
        f"The clearest verdict is \u201c{clearest.title}\u201d, on the claim"
        f" \u201c{claim.text.rstrip('.')}\u201d, {claim.source}"
        f" (claimed {claim.claimed_relation}, found {found}, p {equals}{p_value})."
    )


def document_references(document: Document) -> list[Reference]:
    """Return the references that a report cites anywhere, in alphabetical order."""
    texts = [document.title, document.limitations]
    for block in document.blocks:
        match block:
            case ClaimTable():
                for verdict in block.verdicts:
                    claim = verdict.claim
                    texts += [claim.source, claim.text, claim.statistic, verdict.note]
            case Table():
                texts += [block.title, block.note, *block.column_titles]
                texts += [cell_text(cell) for row in block.rows for cell in row]
            case _:
                texts.append(getattr(block, "text", "") or getattr(block, "caption", ""))
    return cited_references(texts)


def bibtex(document: Document, citation: ReportCitation) -> str:
    """Return a BibTeX entry for a report."""
    year = citation.date[:4]
    has_runs = document.provenance.run_count > 0
    digest = f"; digest of the runs {document.provenance.digest}" if has_runs else ""
    fields = {
        "author": "{The zerolab developers}",
        "title": f"{{{_tex(document.title)}}}",
        "year": year,
        "howpublished": f"zerolab {_tex(citation.version)}, \\texttt{{{_tex(citation.command)}}}",
        "note": f"Written on {citation.date}{digest}",
    }
    lines = ",\n".join(f"  {name:12} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{zerolab-{citation.name}-{year},\n{lines}\n}}"


def _tex(text: str) -> str:
    return _SPECIAL_IN_TEX.sub(r"\\\1", text.replace("\\", "/"))


_CITED = re.compile(r"(?<=\[)([A-Z]\w+)(?=[\],;])|(?<=[,;] )([A-Z]\w*\d{4}[a-z]?)(?=[\],;])")
"""Key at the start of a citation, or a later key with a year, as in [Silver2017; Wu2019]."""


class Reference(NamedTuple):
    """Cited work."""

    key: str
    text: str
    """Authors, title and publication, without links."""
    url: str
    """Address of the work; empty if there is none."""


@cache
def all_references() -> dict[str, Reference]:
    """Return all references by key."""
    table = json.loads(files("zerolab.report").joinpath("references.json").read_text("utf-8"))
    return {key: Reference(key, *entry) for key, entry in table.items()}


def cited_references(texts: Iterable[str]) -> list[Reference]:
    """Return the references that texts cite, by key in alphabetical order."""
    known = all_references()
    keys = {match[0] for text in texts for match in _CITED.finditer(text)}
    return [known[key] for key in sorted(keys & known.keys(), key=str.casefold)]


def link_citations(text: str, link: Callable[[str], str]) -> str:
    """Replace each key of a known reference in a text by the result of `link`."""
    known = all_references()
    return _CITED.sub(lambda match: link(match[0]) if match[0] in known else match[0], text)
