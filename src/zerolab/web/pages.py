"""Pages: fragments of HTML within one frame, and the files that they load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_STATIC = Path(__file__).parent / "static"
_TITLE = re.compile(r"<!-- (?P<title>[^-]+?) -->\n")
_FIRST = "play"
_LINKS = ("play", "analyse", "learn", "replay", "runs", "tournaments", "studies")
"""Pages that the frame leads to, in order."""


def add_pages(app: FastAPI) -> None:
    """Serve every page at its name, and at / the first one."""
    for name in _names():
        app.add_api_route(f"/{name}", _Page(name), include_in_schema=False)
    app.add_api_route("/", _Page(_FIRST), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")


def _names() -> Iterator[str]:
    return (path.stem for path in sorted((_STATIC / "pages").glob("*.html")))


class _Page:
    """A route that answers with one page."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> HTMLResponse:
        return HTMLResponse(_page(self._name))


@lru_cache
def _page(name: str) -> str:
    """Return a page within its frame; its first line is a comment with its title."""
    fragment = (_STATIC / "pages" / f"{name}.html").read_text(encoding="utf-8")
    found = _TITLE.match(fragment)
    assert found is not None, f"{name}.html has no title"
    frame = Template((_STATIC / "frame.html").read_text(encoding="utf-8"))
    return frame.substitute(
        title=escape(found["title"]), name=name, links=_links(name), main=fragment[found.end() :]
    )


def _links(current: str) -> str:
    lines = []
    for name in _LINKS:
        here = ' aria-current="page"' if name == current else ""
        lines.append(f'<a href="/{name}"{here}>{name.capitalize()}</a>')
    return "\n        ".join(lines)
