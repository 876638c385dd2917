"""`zerolab findings`: verdicts on all published findings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from zerolab.cli.output import Console, print_json, say
from zerolab.cli.progress import progress_bar
from zerolab.cli.study import STUDIES_FOLDER
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_output_path, write_text
from zerolab.studies.study import REPORT_FOLDER

if TYPE_CHECKING:
    from zerolab.report.document import Document

_SUFFIXES = (".md", ".html")


def findings(
    *,
    folder: Path = STUDIES_FOLDER,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Show the verdict on every published finding, from the ledgers of all studies.

    Each finding has its place in the paper, the statistic that tests it with an interval, and the
    verdict, power and seeds at every measured scale.

    Examples:
      zerolab findings
      zerolab findings --folder docs/results --output docs/findings.md
      zerolab findings --json

    Args:
        folder: Folder whose folders contain ledgers: that of studies, or one with published
            reports.
        output: Write a page to this file, whose name ends in .md or .html, instead of printing
            tables.
        json: Print all findings as JSON.
    """
    from zerolab.report.text import print_document
    from zerolab.studies.findings import (
        findings_as_dict,
        findings_document,
        judge_studies,
        read_ledgers,
    )

    if output is not None and output.suffix not in _SUFFIXES:
        raise UserError(f"--output {quoted(output)}: expected a name that ends in .md or .html")
    if output is not None and json:
        raise UserError("--json prints the findings: leave out --output")
    if output is not None:
        check_output_path(output)
    if not folder.is_dir():
        raise UserError(f"--folder {quoted(folder)}: expected the folder of studies")
    ledgers, refused = read_ledgers(folder)
    with progress_bar("findings", len(ledgers), "ledgers") as update:
        studies, unfit = judge_studies(ledgers, update)
    refused += unfit
    for message in refused:
        say(f"left out: {message}", error=True)
    if json:
        print_json(findings_as_dict(studies))
        return
    start = output.parent if output else Path()
    document = findings_document(studies, lambda path, name: _link(path, name, start), refused)
    if output is None:
        print_document(document, Console())
    else:
        _write(document, output)


def _link(ledger: Path, figure: str, start: Path) -> str:
    """Return the path of a figure or page of the report beside a ledger, relative to a folder."""
    for folder in (ledger.parent, ledger.parent / REPORT_FOLDER):
        path = folder / (f"{figure}.png" if figure else "README.md")
        if path.is_file():
            return quote(Path(os.path.relpath(path, start)).as_posix())
    return ""


def _write(document: Document, output: Path) -> None:
    from zerolab.report.html import html_page
    from zerolab.report.text import markdown_page

    page = html_page(document, {}) if output.suffix == ".html" else markdown_page(document)
    write_text(output, page)
    say(f"written: {output}")
