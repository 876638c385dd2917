"""Width of the terminal, lines wrapped between words, and the notice that kernels are compiled.

In a terminal, the notice has a spinner and the elapsed seconds; displays such as progress bars show
it themselves (`CompilationNotice.text`). Elsewhere, it is a single line.
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from typing import TextIO

from zerolab.core import progress

NOTICE = "compiling kernels, once per version"
SECONDS_BEFORE_NOTICE = 1.0
"""Seconds of compilation after which the notice appears."""

_SPINNER = "|/-\\"
_SECONDS_PER_FRAME = 0.2
_CLEAR_LINE = "\r\x1b[K"


class CompilationNotice:
    """Observer of compilations that prints the notice on standard error."""

    def __init__(self) -> None:
        self.displays = 0
        """Number of displays in the terminal that show the notice themselves."""
        self._lock = threading.Lock()
        self._depth = 0
        self._began = 0.0
        self._earlier_seconds = 0.0
        self._is_printed = False
        self._has_line = False

    def started(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._began = time.monotonic()
        threading.Thread(target=self._show, daemon=True).start()

    def ended(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._earlier_seconds += time.monotonic() - self._began
                self._clear()

    def text(self) -> str:
        """Return the notice with the elapsed seconds; "" if nothing has compiled for long."""
        seconds = self._earlier_seconds + time.monotonic() - self._began
        is_long = self._depth > 0 and seconds >= SECONDS_BEFORE_NOTICE
        return f"{NOTICE}: {seconds:.0f} s" if is_long else ""

    def _show(self) -> None:
        """Update the notice until the compilation that has just begun ends."""
        began = self._began
        while True:
            with self._lock:
                if self._depth == 0 or self._began != began:
                    return
                if text := self.text():
                    self._print(text)
            time.sleep(_SECONDS_PER_FRAME)

    def _print(self, text: str) -> None:
        if not sys.stderr.isatty():
            if not self._is_printed:
                sys.stderr.write(f"zerolab: {NOTICE}\n")
                sys.stderr.flush()
            self._is_printed = True
        elif self.displays == 0:
            frame = _SPINNER[int(time.monotonic() / _SECONDS_PER_FRAME) % len(_SPINNER)]
            sys.stderr.write(f"{_CLEAR_LINE}{frame} {text}")
            sys.stderr.flush()
            self._has_line = True

    def _clear(self) -> None:
        if self._has_line:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._has_line = False


notice = CompilationNotice()
"""Notice of this process, once `show_compilations` has been called."""


def show_compilations() -> None:
    """Show the notice when kernels are compiled in this process."""
    if notice not in progress.observers:
        progress.observers.append(notice)


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
