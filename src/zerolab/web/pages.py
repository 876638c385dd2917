"""HTML of the pages, and of errors in a browser."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template

STATIC = Path(__file__).parent / "static"
HOME_PAGE = "play"
_TITLE = re.compile(r"<!-- (?P<title>[^-]+?) -->\n")
_LINKS = ("play", "analyse", "learn", "replay", "runs", "tournaments", "studies")
"""Pages linked at the top of every page, in order."""


@lru_cache
def page(name: str) -> str:
    """Return a page inside the frame, with its script.

    The first line of a page file must be ``<!-- Title -->``, with a title without hyphens.
    """
    fragment = (STATIC / "pages" / f"{name}.html").read_text(encoding="utf-8")
    title = _TITLE.match(fragment)
    assert title is not None, f"{name}.html: expected <!-- Title --> as the first line"
    script = f'    <script type="module" src="/static/{name}.js"></script>\n'
    return _framed(title["title"], fragment[title.end() :], script, name)


def error_page(message: str) -> str:
    """Return a page that reports an error to a person."""
    return _framed("Error", f'      <p class="error" role="alert">{escape(message)}</p>\n')


def _framed(title: str, main: str, script: str = "", name: str = "") -> str:
    frame = Template((STATIC / "frame.html").read_text(encoding="utf-8"))
    return frame.substitute(title=escape(title), script=script, links=_links(name), main=main)


def _links(current: str) -> str:
    """Return the links at the top of a page."""
    lines = []
    for name in _LINKS:
        attribute = ' aria-current="page"' if name == current else ""
        lines.append(f'<a href="/{name}"{attribute}>{name.capitalize()}</a>')
    return "\n        ".join(lines)
