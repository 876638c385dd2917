"""The application: routes, pages and what guards them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from zerolab.core.version import __version__
from zerolab.web.errors import add_handlers
from zerolab.web.laboratory import Laboratory
from zerolab.web.pages import add_pages
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
