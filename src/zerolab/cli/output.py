"""Output of commands: consoles, lines, CSV and JSON, with characters escaped where necessary."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import rich.console
import rich.status
from rich.segment import Segment
from rich.text import Text

from zerolab.cli.process import compilation_notice, terminal_width, wrap_line
from zerolab.core.errors import escape_unprintable

FILE_TABLE_WIDTH = 160
"""Width of tables in files and pipes. In narrower tables, names would be wrapped."""


class Console(rich.console.Console):
    """Console without markup, automatic highlighting, or emoji codes such as ``:100:``.

    In a terminal, lines are wrapped between words. In files and pipes, lines are not wrapped, and
    tables have the width `FILE_TABLE_WIDTH`.

    Unprintable characters are escaped, so that a name in an untrusted file cannot clear the
    terminal. A closed pipe raises BrokenPipeError, as with `print`.
    """

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
        stream = options.get("file") or (sys.stderr if options.get("stderr") else sys.stdout)
        if terminal_width(stream) is None:
            plain |= {"width": FILE_TABLE_WIDTH, "soft_wrap": True}
        super().__init__(**{**plain, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a line of text is wrapped between words, and long words remain whole."""
        if len(objects) == 1 and isinstance(objects[0], str) and not self.soft_wrap:
            lines = objects[0].split("\n")
            objects = ("\n".join(wrap_line(line, self.width) for line in lines),)
            options = {"soft_wrap": True, **options}
        super().print(*objects, **options)

    def set_live(self, live: Any) -> Any:
        """Begin a live display, which itself shows the compilation notice."""
        is_outermost = super().set_live(live)
        compilation_notice.displays += 1
        return is_outermost

    def clear_live(self) -> None:
        """End the live display."""
        compilation_notice.displays -= 1
        super().clear_live()

    def status(self, status: rich.console.RenderableType, **options: Any) -> rich.status.Status:
        """Return a spinner with text and, while kernels are being compiled, the notice below it."""
        return super().status(_WithNotice(status), **options)

    def on_broken_pipe(self) -> None:
        """Raise the current error again; otherwise, Rich would exit with code 1."""
        raise  # noqa: PLE0704

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return terminal text with unprintable characters escaped.

        All output passes through this method, including table cells and progress bars. Rich's
        control segments are preserved.
        """
        return super()._render_buffer(
            each if each.control else each._replace(text=escape_unprintable(each.text, "\n"))
            for each in buffer
        )


class _WithNotice:
    """Text beside a spinner, above the compilation notice."""

    def __init__(self, text: rich.console.RenderableType) -> None:
        self._text = text

    def __rich_console__(
        self, console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> Iterator[rich.console.RenderableType]:
        yield self._text
        if text := compilation_notice.text():
            yield Text(text)


def print_lines(*lines: object, end: str = "\n", error: bool = False) -> None:
    """Print lines on standard output, or on standard error if `error` is true.

    Unprintable characters, including line breaks, are escaped. In a terminal, lines are wrapped
    between words and keep their indentation.
    """
    stream = sys.stderr if error else sys.stdout
    width = terminal_width(stream) if stream.isatty() else None
    texts = (escape_unprintable(str(line), "\t") for line in lines)
    with suppress(OSError) if error else nullcontext():  # notes may be lost, but not results
        print("\n".join(wrap_line(each, width) for each in texts), end=end, file=stream)


def print_csv(text: str) -> None:
    """Print CSV text; in a terminal, escape unprintable characters."""
    print(escape_unprintable(text, "\n\t") if sys.stdout.isatty() else text, end="")


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=1))
