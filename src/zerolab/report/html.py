"""Reports as self-contained HTML pages, and as folders of files.

A folder contains ``index.html``, the page; ``README.md``, the report for GitHub; ``NAME.csv`` for
each table; ``NAME.png`` and ``NAME.svg`` for each picture; and ``report.json``, the list of these
files.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import atomic_replace, make_folder, read_text, remove_file, write_text
from zerolab.report.claims import Claim, ClaimTable, Verdict, VerdictWord
from zerolab.report.document import (
    Block,
    Document,
    Heading,
    Image,
    Paragraph,
    Picture,
    bibtex,
    document_references,
    link_citations,
    render_picture,
    summary_sentences,
)
from zerolab.report.table import Cell, Interval, Link, Table, cell_text, p_value_text, table_as_csv
from zerolab.report.text import markdown_page

_TEXT = re.compile(r"(?<=>)[^<>]+(?=<)")
"""Text between tags; attributes and embedded files are inside tags."""
_MAX_SVG_BYTES = 400_000  # larger pictures, with thousands of dots, are embedded as PNG
_PIXELS_PER_INCH = 96
_CLASSES: Mapping[VerdictWord, str] = {"holds": "holds", "does not hold": "fails"}
_WIDTH, _HEIGHT = 160, 20  # size of an interval drawing, in SVG units


def html_page(document: Document, images: Mapping[str, Image]) -> str:
    """Return a document as an HTML page; `images` contains its pictures by name."""
    body = [
        *_summary(document),
        f'<p class="limits"><strong>Limits.</strong> {_prose(document.limitations)}</p>',
        *_contents(document.blocks),
        "<main>",
        *render_blocks(document.blocks, images),
        "</main>",
    ]
    if document.citation is not None:
        body = [_TEXT.sub(_with_linked_citations, part) for part in body]
    style = files("zerolab.report").joinpath("style.css").read_text("utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(document.title)}</title>",
            f"<style>\n{style}</style></head>",
            "<body>",
            f"<h1>{escape(document.title)}</h1>",
            *body,
            *_citation(document),
            f"<footer>{escape(document.provenance.summary())}</footer>",
            "</body></html>",
            "",
        ]
    )


def _with_linked_citations(text: re.Match[str]) -> str:
    return link_citations(
        text[0], lambda key: f'<a class="cited" href="#{_reference_id(key)}">{key}</a>'
    )


def _summary(document: Document) -> list[str]:
    sentences = summary_sentences(document)
    return [f'<p class="summary">{_prose(" ".join(sentences))}</p>'] if sentences else []


def _citation(document: Document) -> Iterable[str]:
    """Yield the references of a report and the facts needed to cite it."""
    citation = document.citation
    if citation is None:
        return
    if references := document_references(document):
        yield '<section id="references"><h2>References</h2><ul>'
        for each in references:
            link = f' <a href="{escape(each.url)}">{escape(each.url)}</a>' if each.url else ""
            yield (
                f'<li id="{_reference_id(each.key)}"><strong>[{each.key}]</strong>'
                f" {escape(each.text)}{link}</li>"
            )
        yield "</ul></section>"
    yield (
        '<section id="cite"><h2>Cite this report</h2><dl>'
        f"<dt>Command</dt><dd><code>{escape(citation.command)}</code></dd>"
        f"<dt>Written</dt><dd>{citation.date}, by zerolab {escape(citation.version)}</dd></dl>"
        f"<pre>{escape(bibtex(document, citation))}</pre></section>"
    )


def _reference_id(key: str) -> str:
    return f"reference-{key.lower()}"


def _contents(blocks: Iterable[Block]) -> list[str]:
    headings = [block.text for block in blocks if isinstance(block, Heading)]
    if not headings:
        return []
    lines = [
        f'<li><a href="#section-{number}">{escape(text)}</a></li>'
        for number, text in enumerate(headings, 1)
    ]
    return ["<nav><details open><summary>Contents</summary><ol>", *lines, "</ol></details></nav>"]


def render_blocks(blocks: Iterable[Block], images: Mapping[str, Image]) -> Iterable[str]:
    """Yield the HTML of each block; `images` contains the pictures by name."""
    number = count(1)
    for block in blocks:
        match block:
            case Heading():
                yield f'<h2 id="section-{next(number)}">{escape(block.text)}</h2>'
            case Paragraph():
                yield f"<p>{_prose(block.text)}</p>"
            case Picture():
                yield _picture(block, images[block.name])
            case Table():
                yield _data_table(block)
            case ClaimTable():
                yield _claim_table(block)


def _picture(picture: Picture, image: Image) -> str:
    subtype, content = ("svg+xml", image.svg)
    if len(content) > _MAX_SVG_BYTES:
        subtype, content = ("png", image.png)
    caption = escape(picture.caption)
    width = round(_PIXELS_PER_INCH * picture.figure.get_figwidth())
    url = _data_url(f"image/{subtype}", content)
    return (
        f'<figure><img alt="{caption}" width="{width}" src="{url}">'
        f"<figcaption>{_prose(picture.caption)}</figcaption></figure>"
    )


def _prose(text: str) -> str:
    """Return escaped text with no-break spaces before percent signs."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def _download(table: Table) -> str:
    url = _data_url("text/csv", table_as_csv(table).encode())
    return f'<a download="{escape(table.name)}.csv" href="{url}">CSV</a>'


def _data_table(table: Table) -> str:
    is_numeric, formats = table.is_numeric, table.number_formats
    head = _row("th", map(escape, table.column_titles), is_numeric)
    body = (
        _row("td", (_cell(*each) for each in zip(row, formats, strict=True)), is_numeric)
        for row in table.rows
    )
    caption = f"{escape(table.title)} {_download(table)}" if table.name else escape(table.title)
    label = table.title or table.name
    html = _table(label, caption, head, body)
    return html if _has_data(table) else _folded(f"{label}: no data", html)


def _has_data(table: Table) -> bool:
    """Return whether a table has content, not counting the first of several columns."""
    return any(cell not in (None, "") for row in table.rows for cell in row[1:] or row)


def _folded(title: str, html: str) -> str:
    return f'<details class="folded"><summary>{escape(title)}</summary>\n{html}\n</details>'


def _table(label: str, caption: str, head: str, body: Iterable[str], kind: str = "data") -> str:
    """Return a table with an HTML caption, in a region that can be scrolled with the keyboard."""
    rows = "\n".join(body)
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(label or "table")}">'
        f'<table class="{kind}"><caption>{caption}</caption>\n'
        f"<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(tag: str, cells: Iterable[str], is_numeric: Sequence[bool]) -> str:
    attributes = (' class="number"' if each else "" for each in is_numeric)
    inner = (
        f"<{tag}{attribute}>{cell}</{tag}>"
        for cell, attribute in zip(cells, attributes, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"


def _cell(cell: Cell, number_format: str = "") -> str:
    """Return the HTML of a cell, with minus signs in numbers and a CSS class for the interval."""
    text = escape(cell_text(cell, number_format))
    if isinstance(cell, Link) and cell.target:
        return f'<a href="{escape(cell.target)}">{text}</a>'
    if isinstance(cell, str | Link):
        return text
    text = text.replace("-", "\N{MINUS SIGN}")
    if not isinstance(cell, Interval):
        return text
    value, _, interval = text.partition("(")
    return f'{value}<span class="interval">({interval}</span>'


def _claim_table(claims: ClaimTable) -> str:
    """Return a table of verdicts; claims without data follow in a collapsed table."""
    table = claims.as_table()
    caption = f"{escape(table.title)} {_download(table)}"
    tested = [each for each in claims.verdicts if each.estimate is not None]
    missing = [each for each in claims.verdicts if each.estimate is None]
    if not missing:
        return _verdict_table(table.title, caption, tested)
    count = f"{len(missing)} finding{'s' * (len(missing) != 1)} without data"
    folded = _folded(count, _verdict_table(count, "" if tested else caption, missing))
    return f"{_verdict_table(table.title, caption, tested)}\n{folded}" if tested else folded


def _verdict_table(label: str, caption: str, verdicts: Sequence[Verdict]) -> str:
    is_numeric = [False, False, False, True, True, False]
    drawing = '<span class="unseen">drawing of the interval</span>'
    head = _row("th", ["verdict", "claim", "claimed", "found", "p (Holm)", drawing], is_numeric)
    body = (_row("td", _verdict(each), is_numeric) for each in verdicts)
    return _table(label, caption, head, body, "claims")


def _verdict(verdict: Verdict) -> list[str]:
    claim, css_class = verdict.claim, _CLASSES.get(verdict.word, "open")
    note = f' <span class="note">{escape(verdict.note)}</span>' if verdict.note else ""
    return [
        f'<span class="verdict {css_class}">{escape(verdict.title)}</span>{note}',
        f'{escape(claim.text)} <span class="source">{escape(claim.source)}</span>'
        f'<span class="statistic">{escape(claim.statistic)}</span>',
        escape(claim.claimed_relation),
        _cell(verdict.estimate),
        escape(p_value_text(verdict.adjusted_p_value)),
        _bar(claim, verdict.estimate, css_class) if verdict.estimate else "",
    ]


def _bar(claim: Claim, estimate: Interval, css_class: str) -> str:
    """Return an SVG drawing of an interval, with the values for which the claim holds shaded.

    The threshold is in the centre. Infinite ends are outside the drawing.
    """
    claimed_low, claimed_high = claim.claimed_range
    numbers = (estimate.value, estimate.low, estimate.high, claimed_low, claimed_high)
    reach = max([abs(each - claim.threshold) for each in numbers if math.isfinite(each)]) or 1.0

    def x_position(number: float) -> float:
        offset = max(-2.0, min(2.0, (number - claim.threshold) / reach))  # always finite
        return round(_WIDTH / 2 + offset * 0.45 * _WIDTH, 1)

    middle, half = _HEIGHT // 2, _WIDTH // 2
    left, right = x_position(claimed_low), x_position(claimed_high)
    title = f"{cell_text(estimate)}; claimed {claim.claimed_relation}"
    return (
        f'<svg class="bar {css_class}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<rect class="claimed" x="{left}" width="{right - left:.1f}" height="{_HEIGHT}"/>'
        f'<line class="threshold" x1="{half}" x2="{half}" y2="{_HEIGHT}"/>'
        f'<line class="range" x1="{x_position(estimate.low)}" x2="{x_position(estimate.high)}"'
        f' y1="{middle}" y2="{middle}"/>'
        f'<circle class="value" cx="{x_position(estimate.value)}" cy="{middle}" r="4"/></svg>'
    )


class NotebookView:
    """Base class of results that a notebook shows as tables and figures."""

    def _blocks(self) -> Iterable[Block]:
        """Return the tables and figures."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return the tables and figures as HTML for a notebook."""
        return html_fragment(self._blocks())


class NotebookDocument(NotebookView):
    """Report for a notebook, without the parts that only a full page needs."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def _blocks(self) -> Iterable[Block]:
        document = self.document
        yield Heading(document.title)
        yield Paragraph(f"Limits. {document.limitations}")
        yield from document.blocks
        yield Paragraph(document.provenance.summary())


def html_fragment(blocks: Iterable[Block]) -> str:
    """Return tables, figures and text as part of an HTML page."""
    every = list(blocks)
    images = {each.name: render_picture(each) for each in every if isinstance(each, Picture)}
    return "\n".join(render_blocks(every, images))


SCHEMA = 1
"""Schema version of report.json."""
_MANIFEST = "report.json"
_MAX_MANIFEST_BYTES = 1 << 20
HTML_PAGE = "index.html"
"""Name of the report as an HTML page."""
_PAGES = (HTML_PAGE, "README.md")
_REPORT_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(html|md|csv|png|svg)")


def is_report_file_name(name: str) -> bool:
    """Return whether a report can contain a file with this name."""
    return _REPORT_FILE.fullmatch(name) is not None


def save_document(document: Document, folder: Path) -> None:
    """Write a document as the files of a report, and remove the other files of a previous report.

    Equal documents result in identical bytes. Raises UserError if writing fails. Also raises
    UserError, without writing anything, if the folder contains pages from another source or a
    damaged list of files.
    """
    make_folder(folder)
    previous = _listed_files(folder)
    for name in _PAGES:
        if name not in previous and (folder / name).exists():
            raise UserError(f"{quoted(folder / name)} is not a study report: move it elsewhere")
    contents = _file_contents(document)
    # Even if the process crashes after this line, the list includes every file that may exist.
    _write_list(folder, [*previous, *contents])
    for name, content in contents.items():
        with atomic_replace(folder / name) as temporary:
            temporary.write_bytes(content)
    for name in previous:
        if name not in contents:
            remove_file(folder / name)
    _write_list(folder, contents)


def _file_contents(document: Document) -> dict[str, bytes]:
    """Return the content of every file by name."""
    images = {picture.name: render_picture(picture) for picture in document.pictures}
    return {
        HTML_PAGE: html_page(document, images).encode(),
        "README.md": markdown_page(document).encode(),
        **{f"{each.name}.csv": table_as_csv(each).encode() for each in document.tables},
        **{f"{name}.png": image.png for name, image in images.items()},
        **{f"{name}.svg": image.svg for name, image in images.items()},
    }


def _write_list(folder: Path, names: Iterable[str]) -> None:
    content = {"schema_version": SCHEMA, "files": sorted(set(names))}
    write_text(folder / _MANIFEST, json.dumps(content, indent=1) + "\n")


def _listed_files(folder: Path) -> list[str]:
    """Return the names of the files of the report in a folder; empty if there is no report."""
    path = folder / _MANIFEST
    if not path.exists():
        return []
    text = read_text(path, _MAX_MANIFEST_BYTES)
    try:
        table = json.loads(text)
        schema, names = table["schema_version"], list(table["files"])
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _damaged(path, one_line(error)) from error
    if schema != SCHEMA:
        raise UserError(
            f"{quoted(path)} has schema version {quoted(schema)}: expected {SCHEMA}; move the"
            " report elsewhere"
        )
    if not all(isinstance(name, str) and is_report_file_name(name) for name in names):
        raise _damaged(path, "it lists files that are not part of reports")
    return names


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{quoted(path)} is damaged ({reason}): move the report elsewhere")
