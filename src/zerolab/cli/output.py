"""Output of commands: consoles, lines, CSV and JSON, and help texts wrapped to the terminal.

Characters are escaped where necessary. Placeholders of help texts, such as ``{presets}``, are
replaced by lists of registered names. These lists are built only when help is shown, because
importing some of the names takes half a second.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from itertools import pairwise
from typing import Any

import rich.console
import rich.status
from rich.segment import Segment
from rich.text import Text

from zerolab.cli.process import compilation_notice, terminal_width, wrap_line
from zerolab.core.errors import escape_unprintable

FILE_TABLE_WIDTH = 160
"""Width of tables in files and pipes. In narrower tables, names would be wrapped."""

_WIDEST_TEXT = 100
"""Maximum width of paragraphs in columns, because longer lines are hard to read."""
_WIDTH_OF_FILES = 80

_COMMA = "\ue000"  # private-use character in place of commas at which Tyro would break a word
DESCRIPTION_PLACEHOLDER = "\ue001"
"""Placeholder given to Tyro as the description. `wrap_tyro_help` replaces it with the real text,
whose lines Tyro would join."""
ANSI_CODE = re.compile(r"\x1b\[[\d;]*m")
"""Code that switches text colours and weights in Tyro's output."""
_SHELL_WORD = re.compile(r"""(?:--[\w-]+ (?!-))?(?:'[^']*'|"[^"]*"|\S)+""")  # with option values
_DETAILS_INDENT = "      "


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


def text_width() -> int:
    """Return the width of paragraphs in columns."""
    return min(_width(), _WIDEST_TEXT)


def _width() -> int:
    """Return the width of the terminal in columns, or 80 if the output is not a terminal."""
    return terminal_width() or _WIDTH_OF_FILES


def expand_placeholders(text: str) -> str:
    """Replace placeholders such as ``{agents}`` and ``{presets}`` with lists of names."""
    for name, names in _LISTS.items():
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", ", ".join(names()))
    return text


def _agents() -> list[str]:
    from zerolab.agents.agent import AGENT_KINDS

    return [kind.spec_form for name, kind in AGENT_KINDS.items() if name != "run"]


def _presets() -> list[str]:
    from zerolab.training.shorthands import preset_names, preset_title

    return _lines({name: preset_title(name) for name in preset_names()})


def _strength_variants() -> list[str]:
    from zerolab.bench.benchmarks import STRENGTH_VARIANTS

    return _lines({name: variant.description for name, variant in STRENGTH_VARIANTS.items()})


def _lines(descriptions: Mapping[str, str]) -> list[str]:
    """Return aligned names and descriptions as one string, for an indented section of the help."""
    width = max(map(len, descriptions))
    return ["\n  ".join(f"{name:{width}}  {text}" for name, text in descriptions.items())]


def _games() -> list[str]:
    from zerolab.rules.catalogue import registered_games

    return list(registered_games())


def _suites() -> list[str]:
    from zerolab.bench.benchmarks import SUITES

    return list(SUITES)


_LISTS: dict[str, Callable[[], Sequence[str]]] = {
    "agents": _agents,
    "presets": _presets,
    "games": _games,
    "suites": _suites,
    "strength_variants": _strength_variants,
}


def _description(text: str) -> str:
    """Return a docstring without its "Args:" section, with each paragraph wrapped.

    Sections such as "Examples:", which Tyro would omit, keep their line breaks. Wrapped lines in
    examples end in a backslash, so that the commands can be pasted into a shell.
    """
    paragraphs = text.partition("\nArgs:\n")[0].strip().split("\n\n")
    return "\n\n".join(map(wrap_paragraph, paragraphs))


def wrap_paragraph(paragraph: str) -> str:
    """Return a paragraph or a section with a title, such as "Examples:", wrapped."""
    title, *lines = paragraph.split("\n")
    if title.capitalize() == "Examples:":
        return "\n".join([title, *map(_wrapped_command, lines)])
    if title in ("Presets:", "Variants:"):
        return "\n".join([title, *map(wrap_list_entry, lines)])
    return _fill(" ".join(paragraph.split("\n")))


def _fill(text: str, indent: str = "", first_indent: str = "") -> str:
    return textwrap.fill(
        text, text_width(), initial_indent=first_indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def wrap_list_entry(line: str) -> str:
    """Wrap a line of a list, such as ``name  text``, keeping the text in one column."""
    match = re.match(r" *\S+ {2,}", line)
    return _fill(line, " " * len(match[0]) if match else "")


def _wrapped_command(line: str) -> str:
    lines: list[str] = []
    current = "  "
    for word in _SHELL_WORD.findall(line):
        if current.strip() and len(current) + len(word) + len(" \\") > text_width():
            lines.append(f"{current.rstrip()} \\")
            current = _DETAILS_INDENT
        current += f"{word} "
    return "\n".join([*lines, current.rstrip()])


def hide_commas_from_tyro(text: str) -> str:
    """Replace commas so that Tyro does not break words such as ``[1,4]``; see `wrap_tyro_help`."""
    return re.sub(r",(?=\S)", _COMMA, text)


class _HelpOutput(io.StringIO):
    """Buffer that Tyro treats like standard output, with the same colours and box characters."""

    def __init__(self) -> None:
        super().__init__()
        self._target = sys.stdout

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._target.encoding

    def isatty(self) -> bool:
        return self._target.isatty()


@contextmanager
def wrap_tyro_help(text: str) -> Iterator[None]:
    """Wrap and print the help that Tyro writes in this context, with `text` as the description."""
    output = _HelpOutput()
    try:
        with redirect_stdout(output):
            yield
    finally:
        if help_text := output.getvalue():
            usage, *lines = help_text.replace(_COMMA, ",").split("\n")
            complete = "\n".join([_wrapped_usage(usage), *_without_gaps(lines)]).rstrip()
            complete = complete.replace(DESCRIPTION_PLACEHOLDER, _description(text))
            sys.stdout.write(escape_unprintable(complete, "\n\x1b") + "\n")  # keeps Tyro's colours


def _wrapped_usage(line: str) -> str:
    """Return the usage line, with ``[OPTIONS]`` instead of the options if it is too long."""
    plain = ANSI_CODE.sub("", line)
    width = _width()
    if len(plain) <= width:
        return line
    parts = _usage_parts(plain)
    command = [each for each in parts if not each.startswith("[-") and each != "[OPTIONS]"]
    return _fill(" ".join([*command[:1], "[-h]", "[OPTIONS]", *command[1:]]), _DETAILS_INDENT)


def _usage_parts(line: str) -> list[str]:
    """Split a usage line at the spaces outside brackets; the first part is the whole command."""
    command, _, rest = line.partition(" [-h] ")
    parts, depth = [command, ""], 0
    for character in rest:
        depth += (character == "[") - (character == "]")
        if character == " " and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _without_gaps(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, dropping the blank ones that Tyro adds after lines that just fit."""
    for line, following in pairwise([*lines, ""]):
        is_blank = line and not ANSI_CODE.sub("", line).strip("│ ")
        if not (is_blank and ANSI_CODE.sub("", following).startswith(("  ", "│", "╰"))):
            yield line.rstrip()
