"""Documents and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zerolab.report.citation import bibtex, document_references, summary_sentences
from zerolab.report.claims import ClaimTable, Verdict
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import Cell, Link, cell_text, p_value_text
from zerolab.report.table import Table

_SPECIAL = re.compile(r"([\\`*_\[\]|$~]|<(?=[a-z/!?])|&(?=#?\w+;)|^>)", re.IGNORECASE)
_LIST_OR_HEADING = re.compile(r"^(\d*)([#+=-]+|[.)])(?=\s|$)")


def markdown_page(document: Document) -> str:
    """Return a document as Markdown, with links to the files NAME.png, NAME.svg and NAME.csv."""
    summary = " ".join(summary_sentences(document))
    parts = [
        f"# {escape_markdown(document.title)}",
        *([escape_markdown(summary)] if summary else []),
        f"> **Limits.** {escape_markdown(document.limits)}",
    ]
    parts += [_block(block) for block in document.blocks]
    parts += _citation(document)
    parts.append(f"*{escape_markdown(document.provenance.summary())}*")
    return "\n\n".join(parts) + "\n"


def _citation(document: Document) -> Iterable[str]:
    """Yield the references of a report and the facts needed to cite it."""
    citation = document.citation
    if citation is None:
        return
    if references := document_references(document):
        yield "## References"
        yield "\n".join(
            f"- **{escape_markdown(f'[{each.key}]')}** {escape_markdown(each.text)}"
            + (f" <{each.url}>" if each.url else "")
            for each in references
        )
    yield "## Cite this report"
    yield (
        f"Written on {citation.date} by zerolab {escape_markdown(citation.version)}. This command"
        " repeats the measurements:"
    )
    yield f"```\n{citation.command}\n```"
    yield f"```bibtex\n{bibtex(document, citation)}\n```"


def escape_markdown(text: str) -> str:
    """Return text as one line, with the special characters of Markdown escaped."""
    line = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST_OR_HEADING.sub(r"\1\\\2", line)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {escape_markdown(block.text)}"
        case Paragraph():
            return escape_markdown(block.text)
        case Picture():
            caption = escape_markdown(block.caption)
            link = f"![{caption}]({block.name}.png)"
            return f"{link}\n\n*{caption}* ([SVG]({block.name}.svg))"
        case Table():
            if not block.name:
                return titled_markdown_table(block)
            title = f"**{escape_markdown(block.title)}** ([CSV]({block.name}.csv))"
            return f"{title}\n\n{markdown_table(block)}"
        case ClaimTable():
            return f"{_claim_table(block.verdicts)}\n\n([CSV]({block.name}.csv))"


def titled_markdown_table(table: Table) -> str:
    """Return a table with its title above, for pages other than reports."""
    return f"**{escape_markdown(table.title)}**\n\n{markdown_table(table)}"


def markdown_table(table: Table) -> str:
    """Return the header and rows of a table as Markdown."""
    rows = [
        [_cell(*each) for each in zip(row, table.number_formats, strict=True)] for row in table.rows
    ]
    rule = ["---:" if is_numeric else ":---" for is_numeric in table.is_numeric]
    return _lines([list(map(escape_markdown, table.column_titles)), rule, *rows])


def _cell(cell: Cell, number_format: str) -> str:
    text = escape_markdown(cell_text(cell, number_format))
    return f"[{text}]({cell.target})" if isinstance(cell, Link) and cell.target else text


def _claim_table(verdicts: Sequence[Verdict]) -> str:
    titles = ["verdict", "claim", "statistic", "claimed", "found", "p (Holm)"]
    rows = [
        [
            f"**{each.title}**" + (f": {escape_markdown(each.note)}" if each.note else ""),
            escape_markdown(f"{each.claim.text} {each.claim.source}"),
            escape_markdown(each.claim.statistic),
            escape_markdown(each.claim.claimed),
            escape_markdown(cell_text(each.estimate)),
            escape_markdown(p_value_text(each.adjusted)),
        ]
        for each in verdicts
    ]
    return _lines([titles, [":---"] * 4 + ["---:"] * 2, *rows])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
