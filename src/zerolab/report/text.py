"""Documents and tables as text: in the terminal, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from zerolab.core.errors import escape_unprintable
from zerolab.report.claims import ClaimTable, Verdict, VerdictWord
from zerolab.report.document import (
    Block,
    Document,
    Heading,
    Paragraph,
    Picture,
    bibtex,
    document_references,
    summary_sentences,
)
from zerolab.report.table import Cell, Link, Table, cell_text, p_value_text

_STYLES: dict[VerdictWord, str] = {"holds": "bold green", "does not hold": "bold red"}
_WIDEST_WORD = len("equal within 0.005")
_PADDING = 2  # columns of space around the cells of a column


def print_document(document: Document, console: Console) -> None:
    """Print a document, with file names in place of pictures."""
    _print(console, Text(document.title, "bold"))
    if summary := " ".join(summary_sentences(document)):
        _print(console, Text(summary))
    _print(console, Text(f"Limits: {document.limitations}"))
    for block in document.blocks:
        console.print()
        _print_block(block, console)
    console.print()
    _print(console, Text(document.provenance.summary(), "dim"))


def print_table(console: Console, table: Table) -> None:
    """Print a table with control characters escaped.

    In a terminal that is too narrow, text is wrapped between words. If words still do not fit, the
    columns are printed in several parts, one below another, each with the first column.
    """
    if console.soft_wrap:
        console.print(rich_table(table), highlight=False)
        return
    least, natural = _column_widths(table)
    for number, indices in enumerate(_parts(least, console.width)):
        widths = _shrunk([natural[i] for i in indices], [least[i] for i in indices], console.width)
        columns = [table.columns[i] for i in indices]
        rows = [[row[i] for i in indices] for row in table.rows]
        if number:
            console.print()
        part = Table(table.name, "" if number else table.title, columns, rows)
        console.print(rich_table(part, widths), highlight=False)
    if table.note:
        _print(console, Text(table.note))


def rich_table(table: Table, widths: Sequence[int] | None = None) -> rich.table.Table:
    """Return a table for a rich console, optionally with fixed column widths."""
    output = rich.table.Table(
        box=None, header_style="bold", title_justify="left", caption_justify="left",
        title=Text(table.title, "italic") if table.title else None,
        caption=Text(table.note) if table.note else None,
    )  # fmt: skip
    for index, (title, is_numeric) in enumerate(
        zip(table.column_titles, table.is_numeric, strict=True)
    ):
        justify: Literal["left", "right"] = "right" if is_numeric else "left"
        width = None if widths is None else widths[index]
        output.add_column(Text(escape_unprintable(title)), justify=justify, width=width)
    for row in _cell_texts(table):
        output.add_row(*map(Text, row))
    return output


def _cell_texts(table: Table) -> list[list[str]]:
    return [
        [
            escape_unprintable(cell_text(*each))
            for each in zip(row, table.number_formats, strict=True)
        ]
        for row in table.rows
    ]


def _column_widths(table: Table) -> tuple[list[int], list[int]]:
    """Return the smallest column widths at which no word is broken, and the natural widths.

    A number and its interval are treated as one word.
    """
    titles = [escape_unprintable(title) for title in table.column_titles]
    columns = [list(column) for column in zip(titles, *_cell_texts(table), strict=True)]
    natural = [max(map(cell_len, column)) for column in columns]
    least = [
        max(
            cell_len(word)
            for row, text in enumerate(column)
            for word in ([text] if row and is_numeric else text.split(" "))
        )
        for column, is_numeric in zip(columns, table.is_numeric, strict=True)
    ]
    return least, natural


def _parts(least: Sequence[int], width: int) -> list[list[int]]:
    """Divide the columns into parts that fit, each with the first column; return their indices."""
    parts = [[0]] if least else []
    for index in range(1, len(least)):
        extended = [*parts[-1], index]
        fits = sum(least[i] + _PADDING for i in extended) <= width
        if fits or len(parts[-1]) == 1:
            parts[-1] = extended
        else:
            parts.append([0, index])
    return parts


def _shrunk(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return column widths that fit if possible, narrowing the widest columns first."""
    widths = list(natural)
    while sum(widths) + _PADDING * len(widths) > width:
        wider = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not wider:
            break
        widths[max(wider, key=widths.__getitem__)] -= 1
    return widths


def _print_block(block: Block, console: Console) -> None:
    match block:
        case Heading():
            _print(console, Text(block.text, "bold underline"))
        case Paragraph():
            _print(console, Text(block.text))
        case Picture():
            _print(console, Text(f"Figure {block.name}.png: {block.caption}"))
        case Table():
            print_table(console, block)
        case ClaimTable():
            for verdict in block.verdicts:
                _print_verdict(verdict, console)


def _print_verdict(verdict: Verdict, console: Console) -> None:
    claim = verdict.claim
    word = Text(verdict.title, _STYLES.get(verdict.word, "bold"))
    if verdict.estimate is None:
        result = verdict.note
    else:
        result = (
            f"{cell_text(verdict.estimate)}, adjusted p {p_value_text(verdict.adjusted_p_value)}"
        )
    line = f"{claim.statistic}: {result}; claimed {claim.claimed_relation}"
    grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=_WIDEST_WORD)
    grid.add_column()
    grid.add_row(word, Text(f"{claim.text} {claim.source}\n{line}"))
    console.print(grid, highlight=False)


def _print(console: Console, text: Text) -> None:
    console.print(text, highlight=False)


_SPECIAL = re.compile(r"([\\`*_\[\]|$~]|<(?=[a-z/!?])|&(?=#?\w+;)|^>)", re.IGNORECASE)
_LIST_OR_HEADING = re.compile(r"^(\d*)([#+=-]+|[.)])(?=\s|$)")


def markdown_page(document: Document) -> str:
    """Return a document as Markdown, with links to the files NAME.png, NAME.svg and NAME.csv."""
    summary = " ".join(summary_sentences(document))
    parts = [
        f"# {escape_markdown(document.title)}",
        *([escape_markdown(summary)] if summary else []),
        f"> **Limits.** {escape_markdown(document.limitations)}",
    ]
    parts += [_markdown_block(block) for block in document.blocks]
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


def _markdown_block(block: Block) -> str:
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
        [_markdown_cell(*each) for each in zip(row, table.number_formats, strict=True)]
        for row in table.rows
    ]
    rule = ["---:" if is_numeric else ":---" for is_numeric in table.is_numeric]
    return _lines([list(map(escape_markdown, table.column_titles)), rule, *rows])


def _markdown_cell(cell: Cell, number_format: str) -> str:
    text = escape_markdown(cell_text(cell, number_format))
    return f"[{text}]({cell.target})" if isinstance(cell, Link) and cell.target else text


def _claim_table(verdicts: Sequence[Verdict]) -> str:
    titles = ["verdict", "claim", "statistic", "claimed", "found", "p (Holm)"]
    rows = [
        [
            f"**{each.title}**" + (f": {escape_markdown(each.note)}" if each.note else ""),
            escape_markdown(f"{each.claim.text} {each.claim.source}"),
            escape_markdown(each.claim.statistic),
            escape_markdown(each.claim.claimed_relation),
            escape_markdown(cell_text(each.estimate)),
            escape_markdown(p_value_text(each.adjusted_p_value)),
        ]
        for each in verdicts
    ]
    return _lines([titles, [":---"] * 4 + ["---:"] * 2, *rows])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
