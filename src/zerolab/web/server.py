"""Web application (routes, pages, access guard) and the HTTP server that runs it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from zerolab.core import __version__
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.report.board_colours import style_sheet
from zerolab.web.folders import folder_secret
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.requests import (
    HOME_PAGE,
    PAGE_METHODS,
    STATIC_FOLDER,
    Role,
    add_error_handlers,
    render_page,
)
from zerolab.web.routes import (
    agents,
    analysis,
    classes,
    games,
    judging,
    live_analysis,
    positions,
    puzzles,
    runs,
    studies,
    tournaments,
    training,
)
from zerolab.web.routes.classes import pupil_of, role_of
from zerolab.web.security import ANY_ADDRESS, LOOPBACK_HOSTS, RequestGuard

REQUEST_HEADER_SECONDS = 10.0
"""Time limit for a request's headers to arrive."""


class _ImpatientProtocol(H11Protocol):
    """Uvicorn's HTTP protocol with a time limit for request headers.

    Without this limit, idle connections could exhaust the connection limit.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start waiting for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Receive part of a request; keep waiting if the headers are incomplete."""
        super().data_received(data)
        if self._is_between_requests:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_between_requests(self) -> bool:
        is_own = self.transport.get_protocol() is self  # a websocket uses another protocol object
        return is_own and (self.cycle is None or self.cycle.response_complete)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_between_requests:
            self.transport.close()


_MAX_CONNECTIONS = 1000
_MAX_WEBSOCKET_MESSAGE = 1 << 17
_KEEP_ALIVE_SECONDS = 20
STOP_SECONDS = 3
"""Time for requests in progress to finish when the server stops."""
_UNUSED_ADDRESS = "192.0.2.1"  # reserved for documentation (RFC 5737)


def serve(
    laboratory: Laboratory,
    host: str,
    port: int,
    names: Collection[str],
    announce: Callable[[str, str | None], None],
) -> None:
    """Serve until the process is interrupted or terminated; port 0 selects a free port.

    The server also accepts requests for the host names in `names`, such as that of a reverse proxy.
    `announce` is called with the address and the token. The token is None for a class, whose
    members have their own tokens, and if other machines cannot reach the server directly or through
    a proxy. Raises UserError if the address cannot be used.
    """
    listening = _listening(host, port)
    if re.fullmatch(r"[\d.]+", host):
        host = listening.getsockname()[0]  # in full, since browsers reject 0 and 127.1
    has_class = laboratory.classroom is not None  # its members have separate tokens
    is_open = not has_class and (bool(names) or not _is_loopback(host))
    token = folder_secret(laboratory.folders.server_folder) if is_open else None
    actual_port = listening.getsockname()[1]
    app = make_app(laboratory, {*LOOPBACK_HOSTS, *_own_names(host)}, token, names)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # clients can forge them; see `requests.client_address`
        http=_ImpatientProtocol,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ws="websockets-sansio",
        ws_max_size=_MAX_WEBSOCKET_MESSAGE,
    )
    logging.getLogger("uvicorn.error").addFilter(_without_traceback_of_clients)
    address = _address(_reachable_host(host), actual_port, token)
    server = _Server(config, lambda: announce(address, token))
    server.run(sockets=[listening])


def _without_traceback_of_clients(record: logging.LogRecord) -> bool:
    """Keep every log record, but drop tracebacks caused by clients that send invalid UTF-8."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = None
    return True


class _Server(uvicorn.Server):
    """Server that calls `on_started` once it accepts requests."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; raise UserError if that fails."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"host = {quoted(host)}: {one_line(error)}") from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        advice = (
            "expected an address of this machine"
            if getattr(error, "errno", None) == errno.EADDRNOTAVAIL
            else "--port 0 selects a free port"
        )
        raise UserError(f"cannot listen on {host}:{port}: {one_line(reason)}; {advice}") from error
    return listening


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _is_unspecified(host: str) -> bool:
    """Return whether a server on this host listens on all network interfaces."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False


def _own_names(host: str) -> set[str]:
    """Return the host names for which the server accepts requests."""
    if not _is_unspecified(host):
        return {host.lower()}
    return {socket.gethostname().lower(), ANY_ADDRESS}


def _reachable_host(host: str) -> str:
    """Return a host for the printed address, even if the server listens on all interfaces."""
    if not _is_unspecified(host):
        return host.lower()
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing but selects the outgoing interface.
        probe.connect((_UNUSED_ADDRESS, 9))
        return str(probe.getsockname()[0])
    return socket.gethostname().lower()


def _address(name: str, port: int, token: str | None) -> str:
    host = f"[{name}]" if ":" in name else name
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


API = "/api/v1"

_server = APIRouter(tags=["server"])

_ROUTERS: tuple[APIRouter, ...] = (
    _server,
    positions.router,
    analysis.router,
    live_analysis.router,
    agents.router,
    runs.router,
    runs.socket_router,
    games.router,
    judging.router,
    puzzles.router,
    tournaments.router,
    studies.router,
    training.router,
    classes.router,
)


def make_app(
    laboratory: Laboratory,
    hosts: Iterable[str] = LOOPBACK_HOSTS,
    token: str | None = None,
    proxies: Iterable[str] = (),
) -> FastAPI:
    """Return the application that serves a laboratory.

    The application accepts only requests for the host names in `hosts`. If `token` is set, clients
    must send it, and the members of a class must send their own tokens; see `RequestGuard`.
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
        docs_url=None,  # would load scripts from other servers; the /api page replaces it
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.laboratory = laboratory
    for router in _ROUTERS:
        app.include_router(router, prefix=API)
    app.include_router(studies.report_router)
    _add_pages(app)
    add_error_handlers(app)
    classroom = laboratory.classroom
    holder_of = None if classroom is None else classroom.holder_of
    app.add_middleware(
        RequestGuard, hosts=list(hosts), token=token, proxies=list(proxies), holder_of=holder_of
    )
    return app


class ServerResponse(BaseModel):
    """Version of the server, and permissions of the pages."""

    version: str
    """Version of zerolab."""
    allow_training: bool
    """True if pages can start, stop and resume runs."""
    role: Role
    """Role of the person who sent the request: owner of a server without a class, teacher or
    pupil."""
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
    names = [path.stem for path in sorted((STATIC_FOLDER / "pages").glob("*.html"))]
    routes: dict[str, Callable[..., Response]] = {f"/{name}": _PageRoute(name) for name in names}
    routes |= {"/": _PageRoute(HOME_PAGE), "/static/colours.css": _colours}
    for path, route in routes.items():
        app.add_api_route(path, route, methods=PAGE_METHODS, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC_FOLDER), name="static")


def _colours() -> Response:
    return Response(style_sheet(), media_type="text/css")


class _PageRoute:
    """Route that returns one page."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, connection: Request) -> HTMLResponse:
        return HTMLResponse(render_page(self._name, role_of(connection)))
