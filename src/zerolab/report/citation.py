"""Summary of a report in three sentences, the facts needed to cite it, and its references.

``references.json`` has the entries of docs/references.md as plain text; tools/generate_tables.py
writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from zerolab.report.claims import ClaimTable, Verdict
from zerolab.report.table import Table, cell_text, p_value_text

if TYPE_CHECKING:
    from zerolab.report.document import Document

_SPECIAL_IN_TEX = re.compile(r"([#$%&_{}])")
_NO_DATA = "no data"


class Citation(NamedTuple):
    """Origin of a report."""

    name: str
    """Name of the study, such as ``warm-start``."""
    command: str
    """Command that repeats the measurements."""
    date: str
    """Day on which the report was written, as 2026-01-31."""
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
        "equal": ("is an equality", "are equalities"),
        "undecided": ("is undecided", "are undecided"),
        _NO_DATA: ("has no data", "have no data"),
    }  # fmt: skip
    counts = {word: sum(each.word == word for each in verdicts) for word in phrases}
    parts = [f"{n} {phrases[word][n != 1]}" for word, n in counts.items() if n]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _clearest(verdicts: Sequence[Verdict]) -> str:
    decided = [each for each in verdicts if each.is_decided and each.adjusted is not None]
    if not decided:
        return "No finding is decided, which does not mean that there is no effect."
    clearest = min(decided, key=lambda each: each.adjusted or 0.0)
    claim, found = clearest.claim, cell_text(clearest.estimate)
    p_value = p_value_text(clearest.adjusted)
    equals = "" if p_value.startswith("<") else "= "
    return (
        f"The clearest verdict, {clearest.title}, is on \u201c{claim.text.rstrip('.')}\u201d"
        f" {claim.source} (claimed {claim.claimed}, found {found}, p {equals}{p_value})."
    )


def document_references(document: Document) -> list[Reference]:
    """Return the references that a report cites anywhere, in alphabetical order."""
    texts = [document.title, document.limits]
    for block in document.blocks:
        match block:
            case ClaimTable():
                claims = [each.claim for each in block.verdicts]
                texts += [text for each in claims for text in (each.source, each.text)]
            case Table():
                texts += [block.title, block.note]
                texts += [cell for row in block.rows for cell in row if isinstance(cell, str)]
            case _:
                texts.append(getattr(block, "text", "") or getattr(block, "caption", ""))
    return cited_references(texts)


def bibtex(document: Document, citation: Citation) -> str:
    """Return an entry for BibTeX."""
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
"""Key at the start of a citation, or a further key with a year, as in [Silver2017; Wu2019]."""


class Reference(NamedTuple):
    """Work that texts cite."""

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
