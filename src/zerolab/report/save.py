"""Reports as folders of files.

====================  ==================================================================
File                  Content
====================  ==================================================================
``index.html``        the report as a self-contained page
``README.md``         the report for GitHub
``NAME.csv``          a table
``NAME.png``, .svg    a picture
``report.json``       the list of these files
====================  ==================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import atomic_replace, make_folder, read_text, remove_file, write_text
from zerolab.report.document import Document, render_picture
from zerolab.report.html import html_page
from zerolab.report.table import table_as_csv
from zerolab.report.text import markdown_page

SCHEMA = 1
"""Schema version of report.json."""

_MANIFEST = "report.json"
_MAX_MANIFEST_BYTES = 1 << 20
HTML_PAGE = "index.html"
"""Name of the report as an HTML page."""
_PAGES = (HTML_PAGE, "README.md")
_REPORT_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(html|md|csv|png|svg)")


def is_report_file_name(name: str) -> bool:
    """Return whether a file of a report can have a name."""
    return _REPORT_FILE.fullmatch(name) is not None


def save_document(document: Document, folder: Path) -> None:
    """Write a document as the files of a report, and remove the other files of a previous report.

    Equal documents have equal bytes. Raises UserError if writing fails. Also raises UserError,
    without writing anything, if the folder contains pages from another source or a damaged list of
    files.
    """
    make_folder(folder)
    previous = _listed_files(folder)
    for name in _PAGES:
        if name not in previous and (folder / name).exists():
            raise UserError(f"{quoted(folder / name)} is not a study report: move it elsewhere")
    contents = _contents(document)
    # If the process crashes from here on, the list includes every file that can exist.
    _write_list(folder, [*previous, *contents])
    for name, content in contents.items():
        with atomic_replace(folder / name) as temporary:
            temporary.write_bytes(content)
    for name in previous:
        if name not in contents:
            remove_file(folder / name)
    _write_list(folder, contents)


def _contents(document: Document) -> dict[str, bytes]:
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
    except (ValueError, TypeError, LookupError) as error:
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
