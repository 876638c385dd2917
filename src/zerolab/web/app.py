"""The application: its routes, its pages, its error responses and its guard."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from zerolab.core import __version__
from zerolab.web.errors import add_handlers
from zerolab.web.laboratory import Laboratory
from zerolab.web.routes import (
    agents,
    analysis,
    games,
    games_played,
    judging,
    live,
    play,
    runs,
    share,
    studies,
    tournaments,
    training,
    watching,
)
from zerolab.web.security import LOOPBACK, Guard

API = "/api/v1"

_ROUTERS: tuple[APIRouter, ...] = (
    games.router,
    play.router,
    analysis.router,
    live.router,
    agents.router,
    share.router,
    runs.router,
    watching.router,
    games_played.router,
    judging.router,
    tournaments.router,
    studies.router,
    training.router,
)


def make_app(
    laboratory: Laboratory,
    hosts: Iterable[str] = LOOPBACK,
    token: str | None = None,
    proxies: Iterable[str] = (),
) -> FastAPI:
    """Return the application that serves a laboratory.

    It answers to requests for some names of hosts, and with a `token`, only to who knows it; see
    `Guard`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        laboratory.start()
        try:
            yield
        finally:
            laboratory.close()

    app = FastAPI(
        title="zerolab",
        version=__version__,
        description="What the pages of `zerolab serve` use, and other programs may.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # loads scripts from elsewhere; the page /api takes its place
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.laboratory = laboratory
    for router in _ROUTERS:
        app.include_router(router, prefix=API)
    app.include_router(studies.reports)
    add_pages(app)
    add_handlers(app)
    app.add_middleware(Guard, hosts=list(hosts), token=token, proxies=list(proxies))
    return app


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
