"""HTML of the pages, and of errors in a browser."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template
from typing import Literal

STATIC = Path(__file__).parent / "static"
HOME_PAGE = "play"
_TITLE = re.compile(r"<!-- (?P<title>[^-]+?) -->\n")
_LINKS = ("play", "analyse", "learn", "puzzles", "replay", "runs", "tournaments", "studies")
"""Pages linked at the top of every page, in order."""
_PARENTS = {"run": "runs", "compare": "runs", "tournament": "tournaments", "study": "studies"}
"""Linked pages that lead to pages without a link."""
_CLASS_LINKS: dict[str, tuple[tuple[str, str], ...]] = {
    "owner": (),
    "teacher": (("class", "Class"), ("wall", "Wall")),
    "pupil": (("pupil", "My agent"), ("wall", "Wall")),
}
"""Further pages and the texts of their links, by role."""

Role = Literal["owner", "teacher", "pupil"]


@lru_cache
def page(name: str, role: Role = "owner") -> str:
    """Return a page inside the frame, with its script and the links for a role.

    The first line of a page file must be ``<!-- Title -->``, with a title without hyphens.
    """
    fragment = (STATIC / "pages" / f"{name}.html").read_text(encoding="utf-8")
    title = _TITLE.match(fragment)
    assert title is not None, f"{name}.html: expected <!-- Title --> as the first line"
    script = f'    <script type="module" src="/static/{name}.js"></script>\n'
    return _framed(title["title"], fragment[title.end() :], script, name, role)


def error_page(message: str) -> str:
    """Return a page that reports an error to a person."""
    return _framed("Error", f'      <p class="error" role="alert">{escape(message)}</p>\n')


def _framed(title: str, main: str, script: str = "", name: str = "", role: Role = "owner") -> str:
    frame = Template((STATIC / "frame.html").read_text(encoding="utf-8"))
    return frame.substitute(title=escape(title), script=script, links=_links(name, role), main=main)


def _links(current: str, role: Role) -> str:
    """Return the links at the top of a page, with the one to it or to its parent marked."""
    lines = []
    for name, text in (*((each, each.capitalize()) for each in _LINKS), *_CLASS_LINKS[role]):
        attribute = ' aria-current="page"' if name == current else ""
        if name == _PARENTS.get(current):
            attribute = ' aria-current="true"'
        lines.append(f'<a href="/{name}"{attribute}>{text}</a>')
    return "\n        ".join(lines)
