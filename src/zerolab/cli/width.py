"""Width of the terminal, and lines wrapped between words."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

_LEAST = 20  # columns; narrower terminals show long lines anyway


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of a stream in columns, from COLUMNS or the terminal; None for a file.

    The stream is standard output by default.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return max(int(columns), _LEAST)
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return None
    try:
        columns_found = os.get_terminal_size(stream.fileno()).columns
        return max(columns_found, _LEAST) if columns_found else None
    except (OSError, ValueError):
        return None


def wrapped(line: str, width: int | None, indent: int | None = None) -> str:
    """Return a line wrapped between words to a width; the other lines are indented.

    The indentation, in columns, is that of the line by default.

    Words longer than the width, such as paths, remain whole. The line is unchanged if it fits, or
    if the width is None.
    """
    if width is None or len(line) <= width:
        return line
    spaces = len(line) - len(line.lstrip(" ")) if indent is None else indent
    return textwrap.fill(
        line, width, subsequent_indent=" " * spaces, break_long_words=False, break_on_hyphens=False
    )
