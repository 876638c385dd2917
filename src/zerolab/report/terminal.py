"""Documents and tables in the terminal."""

from __future__ import annotations

import rich.table
from rich.console import Console
from rich.text import Text

from zerolab.core.errors import printable
from zerolab.report.claims import ClaimTable, Verdict, Word
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import cell_text, p_value_text
from zerolab.report.table import Table

_STYLES: dict[Word, str] = {"holds": "bold green", "does not hold": "bold red"}
_WIDEST_WORD = len("equal within 0.005")


def print_document(document: Document, console: Console) -> None:
    """Print a document, with file names in place of pictures."""
    _print(console, Text(document.title, "bold"))
    _print(console, Text(f"Limits: {document.limits}"))
    for block in document.blocks:
        console.print()
        _print_block(block, console)
    console.print()
    _print(console, Text(document.provenance.summary(), "dim"))


def print_table(console: Console, table: Table) -> None:
    """Print a table with control characters escaped."""
    console.print(rich_table(table), highlight=False)


def rich_table(table: Table) -> rich.table.Table:
    """Return a table as an object that a rich console prints."""
    output = rich.table.Table(
        box=None, header_style="bold", title_justify="left", caption_justify="left",
        title=Text(table.title, "italic") if table.title else None,
        caption=Text(table.note) if table.note else None,
    )  # fmt: skip
    for title, is_numeric in zip(table.column_titles, table.is_numeric, strict=True):
        output.add_column(Text(printable(title)), justify="right" if is_numeric else "left")
    for row in table.rows:
        cells = (cell_text(*each) for each in zip(row, table.number_formats, strict=True))
        output.add_row(*(Text(printable(cell)) for cell in cells))
    return output


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
    word = Text(verdict.title.ljust(_WIDEST_WORD), _STYLES.get(verdict.word, "bold"))
    _print(console, word + Text(f"  {claim.text} {claim.source}"))
    if verdict.estimate is None:
        result = verdict.note
    else:
        result = f"{cell_text(verdict.estimate)}, adjusted p {p_value_text(verdict.adjusted)}"
    line = f"{claim.statistic}: {result}; claimed {claim.claimed}"
    _print(console, Text(" " * (_WIDEST_WORD + 2) + line))


def _print(console: Console, text: Text) -> None:
    console.print(text, highlight=False)
