"""Web application: routes, pages and request guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel
from starlette.staticfiles import StaticFiles

from zerolab.core import __version__
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.pages import HOME_PAGE, STATIC, Role, page
from zerolab.web.requests import add_error_handlers
from zerolab.web.routes import (
    agents,
    analysis,
    classes,
    explanations,
    games,
    judging,
    live,
    positions,
    puzzles,
    runs,
    studies,
    tournament_playing,
    tournaments,
    training,
    watching,
)
from zerolab.web.routes.classes import pupil_of, role_of
from zerolab.web.security import LOOPBACK, Guard

API = "/api/v1"

_server = APIRouter(tags=["server"])

_ROUTERS: tuple[APIRouter, ...] = (
    _server,
    positions.router,
    analysis.router,
    explanations.router,
    live.router,
    agents.router,
    runs.router,
    watching.router,
    games.router,
    judging.router,
    puzzles.router,
    tournaments.router,
    tournament_playing.router,
    studies.router,
    training.router,
    classes.router,
)


def make_app(
    laboratory: Laboratory,
    hosts: Iterable[str] = LOOPBACK,
    token: str | None = None,
    proxies: Iterable[str] = (),
) -> FastAPI:
    """Return the application that serves a laboratory.

    The application accepts only requests for the host names in `hosts`. If `token` is set, clients
    must send it, and the members of a class must send their own tokens; see `Guard`.
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
        description="The API behind the pages of `zerolab serve`; other programs can use it too.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # would load scripts from other servers; the page /api replaces it
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.laboratory = laboratory
    for router in _ROUTERS:
        app.include_router(router, prefix=API)
    app.include_router(studies.reports)
    _add_pages(app)
    add_error_handlers(app)
    classroom = laboratory.classroom
    holder_of = None if classroom is None else classroom.holder_of
    app.add_middleware(
        Guard, hosts=list(hosts), token=token, proxies=list(proxies), holder_of=holder_of
    )
    return app


class ServerResponse(BaseModel):
    """Version of the server, and permissions of the pages."""

    version: str
    """Version of zerolab."""
    allow_training: bool
    """True if pages can start, stop and resume runs."""
    role: Role
    """Role of the person who asks: owner of a server without a class, teacher or pupil."""
    pupil: str
    """Name of a pupil; otherwise empty."""


@_server.get("/server")
def server_info(lab: Lab, connection: Request) -> ServerResponse:
    """Return the version of the server and the permissions of the pages."""
    role = role_of(connection)
    return ServerResponse(
        version=__version__,
        allow_training=lab.allow_training and role != "pupil",
        role=role,
        pupil=pupil_of(connection),
    )


def _add_pages(app: FastAPI) -> None:
    """Serve every file in static/pages under its name, and the home page also at /."""
    for path in sorted((STATIC / "pages").glob("*.html")):
        app.add_api_route(f"/{path.stem}", _PageRoute(path.stem), include_in_schema=False)
    app.add_api_route("/", _PageRoute(HOME_PAGE), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")


class _PageRoute:
    """Route that returns one page."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, connection: Request) -> HTMLResponse:
        return HTMLResponse(page(self._name, role_of(connection)))
