"""Documents and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zerolab.report.claims import ClaimTable, Verdict
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import cell_text, p_text
from zerolab.report.table import Table

_SPECIAL = re.compile(r"([\\`*_\[\]|$~]|<(?=[a-z/!?])|&(?=#?\w+;)|^>)", re.IGNORECASE)
_LIST_OR_HEADING = re.compile(r"^(\d*)([#+=-]+|[.)])(?=\s|$)")


def markdown(document: Document) -> str:
    """Return a document with links to the files NAME.png, NAME.svg and NAME.csv."""
    parts = [f"# {escaped(document.title)}", f"> **Limits.** {escaped(document.limits)}"]
    parts += [_block(block) for block in document.blocks]
    parts.append(f"*{escaped(document.provenance.line())}*")
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Return text on one line with the special characters of Markdown escaped."""
    line = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST_OR_HEADING.sub(r"\1\\\2", line)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {escaped(block.text)}"
        case Paragraph():
            return escaped(block.text)
        case Picture():
            caption = escaped(block.caption)
            link = f"![{caption}]({block.name}.png)"
            return f"{link}\n\n*{caption}* ([SVG]({block.name}.svg))"
        case Table():
            return (
                f"**{escaped(block.title)}** ([CSV]({block.name}.csv))\n\n{markdown_table(block)}"
            )
        case ClaimTable():
            return f"{_claim_table(block.verdicts)}\n\n([CSV]({block.name}.csv))"


def titled_table(table: Table) -> str:
    """Return a table with its title above it, for pages other than reports."""
    return f"**{escaped(table.title)}**\n\n{markdown_table(table)}"


def markdown_table(table: Table) -> str:
    """Return the header and rows of a table."""
    rows = [
        [escaped(cell_text(*each)) for each in zip(row, table.formats, strict=True)]
        for row in table.rows
    ]
    rule = ["---:" if numeric else ":---" for numeric in table.numeric]
    return _lines([list(map(escaped, table.titles)), rule, *rows])


def _claim_table(verdicts: Sequence[Verdict]) -> str:
    titles = ["verdict", "claim", "statistic", "claimed", "found", "p (Holm)"]
    rows = [
        [
            f"**{each.word}**" + (f": {escaped(each.note)}" if each.note else ""),
            escaped(f"{each.claim.text} {each.claim.source}"),
            escaped(each.claim.statistic),
            escaped(f"{each.claim.direction} {each.claim.threshold:g}"),
            escaped(cell_text(each.estimate)),
            escaped(p_text(each.adjusted)),
        ]
        for each in verdicts
    ]
    return _lines([titles, [":---"] * 4 + ["---:"] * 2, *rows])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
