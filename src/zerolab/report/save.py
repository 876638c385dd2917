"""Reports as folders of files.

====================  ==================================================================
File                  What it is
====================  ==================================================================
``index.html``        the report as one self-contained page
``README.md``         the report for GitHub
``NAME.csv``          a table
``NAME.png``, .svg    a figure
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
from zerolab.report.document import Document, draw_picture
from zerolab.report.html import page
from zerolab.report.markdown import markdown
from zerolab.report.table import csv_text

SCHEMA = 1
"""Of report.json."""

_MANIFEST = "report.json"
_LARGEST = 1 << 20
_OWN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(html|md|csv|png|svg)")
_PAGES = ("index.html", "README.md")


def save(document: Document, folder: Path) -> None:
    """Write the files of a report into a folder; remove those of an earlier one.

    Equal documents give equal bytes. Raises UserError if writing fails, and, before anything
    is written, for a page of another origin or a damaged list of files.
    """
    make_folder(folder)
    former = _former(folder)
    for name in _PAGES:
        if name not in former and (folder / name).exists():
            raise UserError(
                f"{quoted(folder / name)} is not a report of a study: move it elsewhere"
            )
    contents = _contents(document)
    # After a crash from here on, the list names every file that may exist.
    _list(folder, [*former, *contents])
    for name, content in contents.items():
        with atomic_replace(folder / name) as temporary:
            temporary.write_bytes(content)
    for name in former:
        if name not in contents:
            remove_file(folder / name)
    _list(folder, contents)


def _contents(document: Document) -> dict[str, bytes]:
    """Return the bytes of every file by its name."""
    images = {picture.name: draw_picture(picture) for picture in document.pictures}
    return {
        "index.html": page(document, images).encode(),
        "README.md": markdown(document).encode(),
        **{f"{each.name}.csv": csv_text(each).encode() for each in document.tables},
        **{f"{name}.png": image.png for name, image in images.items()},
        **{f"{name}.svg": image.svg for name, image in images.items()},
    }


def _list(folder: Path, names: Iterable[str]) -> None:
    content = {"schema_version": SCHEMA, "files": sorted(set(names))}
    write_text(folder / _MANIFEST, json.dumps(content, indent=1) + "\n")


def _former(folder: Path) -> list[str]:
    """Return the names of the files of the report in the folder."""
    path = folder / _MANIFEST
    if not path.exists():
        return []
    text = read_text(path, _LARGEST)
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
    if not all(isinstance(name, str) and _OWN.fullmatch(name) for name in names):
        raise _damaged(path, "it lists files that no report has")
    return names


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{quoted(path)} is damaged ({reason}): move the report elsewhere")
