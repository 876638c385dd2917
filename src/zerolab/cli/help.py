"""Help texts of commands, wrapped between words to the width of the terminal.

Placeholders such as ``{presets}`` are replaced by lists of registered names. These lists are built
only when help is shown, because importing some of the names takes half a second.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from zerolab.cli.process import terminal_width
from zerolab.core.errors import escape_unprintable

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


@contextlib.contextmanager
def wrap_tyro_help(text: str) -> Iterator[None]:
    """Wrap and print the help that Tyro writes in this context, with `text` as the description."""
    output = _HelpOutput()
    try:
        with contextlib.redirect_stdout(output):
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
