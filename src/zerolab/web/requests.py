"""Requests, pages, websockets and errors: models, clients, quotas and limits.

A client is identified by its address, which it cannot choose, and by the name of its page, which it
can. A pupil in a class is identified by a token instead of an address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from zerolab.core.errors import UserError, one_line, quoted

_THIS_MACHINE = "127.0.0.1"
_MAX_ADDRESS_LENGTH = 60  # maximum length in characters; no address is longer
_IPV6_NETWORK_BITS = 64  # a host can choose the remaining bits freely
_PUPIL = "pupil:"  # no IP address begins like this


class RequestModel(BaseModel):
    """Base class of JSON requests, which rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(NamedTuple):
    """Sender of a request."""

    quota_address: str
    """Address to which limits apply; for a pupil in a class, see `pupil_address`."""
    page: str = ""
    """Name that a page chooses for itself. All pages at an address share the limits of the
    address."""

    @property
    def is_pupil(self) -> bool:
        """True for a pupil in a class, whose pages all share the limits of one page."""
        return is_pupil_address(self.quota_address)


def pupil_address(name: str) -> str:
    """Return the substitute address that identifies a pupil, wherever the requests come from."""
    return _PUPIL + name


def is_pupil_address(address: str) -> bool:
    """Return whether an address identifies a pupil in a class."""
    return address.startswith(_PUPIL)


def client_of(connection: HTTPConnection) -> Client:
    """Return the client of a connection; the `RequestGuard` has already set its address."""
    page = connection.headers.get("x-page") or connection.query_params.get("page") or ""
    return Client(connection.client.host if connection.client else "", page[:40])


def client_address(scope: Scope, headers: Mapping[str, str], *, has_proxy: bool) -> str:
    """Return the address that identifies the machine that sent a request.

    This is the address of the connection unless a proxy on this machine forwards the request. In
    that case, it is the last address in X-Forwarded-For, which the proxy appends; the client can
    forge the addresses before it.
    """
    connected = scope["client"][0] if scope.get("client") else ""
    peer = _machine(connected) or connected
    if not (has_proxy and peer == _THIS_MACHINE):
        return peer
    forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return _machine(forwarded[:_MAX_ADDRESS_LENGTH]) or peer


@lru_cache(maxsize=1024)
def _machine(address: str) -> str:
    """Return the same name for all addresses of a machine, or "" if `address` is invalid."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback:
        return _THIS_MACHINE
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed), _IPV6_NETWORK_BITS), strict=False))


class Quota:
    """Limits on work in progress: in total, per address and per page."""

    def __init__(self, work: str, total: int, per_address: int, per_page: int) -> None:
        """Create limits for a type of work, such as "searches"."""
        self._work = work
        self._total, self._per_address, self._per_page = total, per_address, per_page
        self._addresses: Counter[str] = Counter()
        self._pages: Counter[Client] = Counter()

    @property
    def in_use(self) -> int:
        """Number of units of work in progress for all clients."""
        return self._addresses.total()

    def acquire(self, client: Client) -> None:
        """Add a unit of work to a client's count; raise BusyError if a limit is reached."""
        counts = self._pages[client], self._addresses[client.quota_address]
        per_address = self._per_page if client.is_pupil else self._per_address
        for count, most in zip(counts, (self._per_page, per_address), strict=True):
            if count >= most:
                raise BusyError(
                    f"{most} {self._work} are already in progress here: wait for one to finish"
                )
        if self.in_use >= self._total:
            raise BusyError(f"the server is busy with {self._work}: try again in a moment")
        self._pages[client] += 1
        self._addresses[client.quota_address] += 1

    def release(self, client: Client) -> None:
        """Remove a unit of work from a client's count."""
        _decrement(self._pages, client)
        _decrement(self._addresses, client.quota_address)

    @contextmanager
    def hold(self, client: Client) -> Iterator[None]:
        """Count a unit of work during the context; raise BusyError if a limit is reached."""
        self.acquire(client)
        try:
            yield
        finally:
            self.release(client)


_Key = TypeVar("_Key", bound=Hashable)


def _decrement(counts: Counter[_Key], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


class ForbiddenError(UserError):
    """Error for a request that is not permitted, with status 403."""


class NotFoundError(UserError):
    """Error for a request for something that does not exist, with status 404."""


class BusyError(UserError):
    """Error when a limit on simultaneous work is reached, with status 503."""


_STATUS = {ForbiddenError: 403, NotFoundError: 404, BusyError: 503}


def error_message(error: Exception) -> str:
    """Return the message of an error as one line, marked as internal unless it is a UserError."""
    if isinstance(error, UserError):
        return "; ".join(str(error).splitlines())
    return f"internal error: {one_line(error)}"


def describe_validation_errors(error: RequestValidationError) -> str:
    """Return one line that describes the first three invalid fields of a request."""
    lines = []
    for each in error.errors()[:3]:
        if each["type"] == "json_invalid":
            reason = one_line(each.get("ctx", {}).get("error", each["msg"]))
            lines.append(f"the request is not JSON: {reason} at character {each['loc'][-1]}")
            continue
        field = ".".join(str(part) for part in each["loc"] if part != "body") or "the request"
        lines.append(f"{field} = {quoted(each.get('input'))}: {one_line(each['msg'])}")
    return "; ".join(lines)


def add_error_handlers(app: FastAPI) -> None:
    """Make an application respond to every error with ``{"error": "one line"}``, or with a page."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _incomplete_request)
    app.add_exception_handler(Exception, _internal_error)


def error_response(status: int, message: str) -> JSONResponse:
    """Return an error response in the format shared by all routes."""
    return JSONResponse({"error": message}, status_code=status)


async def _user_error(request: Request, error: Exception) -> Response:
    status = next((code for type_, code in _STATUS.items() if isinstance(error, type_)), 400)
    return _response(request, status, error_message(error))


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _response(request, 422, describe_validation_errors(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    missing = f"{quoted(request.url.path)} does not exist: expected a page linked from /"
    message = missing if error.status_code == 404 else str(error.detail)
    response = _response(request, error.status_code, message)
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers.setdefault("allow", ", ".join(PAGE_METHODS))  # missing for static files
    return response


async def _incomplete_request(request: Request, error: Exception) -> Response:
    return _response(request, 400, "the request was interrupted or is too large")


async def _internal_error(request: Request, error: Exception) -> Response:
    return _response(request, 500, "internal error; details are in the server's terminal")


def _response(request: Request, status: int, message: str) -> Response:
    """Return an error as a page for a person in a browser, and as JSON for a program."""
    is_page = not request.url.path.startswith("/api/")
    if is_page and "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(render_error_page(message), status)
    return error_response(status, message)


PAGE_METHODS = ["GET", "HEAD"]
"""Methods of routes for pages; the HTTP server leaves out the body of the response to HEAD."""
STATIC_FOLDER = Path(__file__).parent / "static"
HOME_PAGE = "play"
_TITLE = re.compile(r"<!-- (?P<title>[^-]+?) -->\n")
_LINKS = ("play", "analyse", "learn", "puzzles", "replay", "runs", "tournaments", "studies")
"""Pages linked at the top of every page, in order."""
_PARENTS = {"run": "runs", "compare": "runs", "tournament": "tournaments", "study": "studies"}
"""For each page that is not linked at the top, the linked page that leads to it."""
_CLASS_LINKS: dict[str, tuple[tuple[str, str], ...]] = {
    "owner": (),
    "teacher": (("class", "Class"), ("wall", "Wall")),
    "pupil": (("pupil", "My agent"), ("wall", "Wall")),
}
"""Additional pages and the text of their links, by role."""

Role = Literal["owner", "teacher", "pupil"]


@lru_cache
def render_page(name: str, role: Role = "owner") -> str:
    """Return a page inside the frame, with its script and the links for a role.

    The first line of a page file must be ``<!-- Title -->``, with a title without hyphens.
    """
    fragment = (STATIC_FOLDER / "pages" / f"{name}.html").read_text(encoding="utf-8")
    title = _TITLE.match(fragment)
    assert title is not None, f"{name}.html: expected <!-- Title --> as the first line"
    script = f'    <script type="module" src="/static/{name}.js"></script>\n'
    return _framed(title["title"], fragment[title.end() :], script, name, role)


def render_error_page(message: str) -> str:
    """Return a page that reports an error to a person."""
    return _framed("Error", f'      <p class="error" role="alert">{escape(message)}</p>\n')


def _framed(title: str, main: str, script: str = "", name: str = "", role: Role = "owner") -> str:
    frame = Template((STATIC_FOLDER / "frame.html").read_text(encoding="utf-8"))
    return frame.substitute(title=escape(title), script=script, links=_links(name, role), main=main)


def _links(current: str, role: Role) -> str:
    """Return the links at the top of a page, marking the one to this page or its parent."""
    lines = []
    for name, text in (*((each, each.capitalize()) for each in _LINKS), *_CLASS_LINKS[role]):
        attribute = ' aria-current="page"' if name == current else ""
        if name == _PARENTS.get(current):
            attribute = ' aria-current="true"'
        lines.append(f'<a href="/{name}"{attribute}>{text}</a>')
    return "\n        ".join(lines)


_MAX_MESSAGE = 1 << 16  # characters
_SEND_SECONDS = 10.0
"""Time limit for a client to read a message before its connection is closed."""
_BURST = 100
_MESSAGES_PER_SECOND = 20.0
_ID_LIMIT = 1 << 53  # JavaScript has no larger exact integers
_TRY_AGAIN = 1013  # websocket status codes
_TOO_BIG = 1009


class SocketRequest(RequestModel):
    """Base class of messages from a page; the responses have the same `id`."""

    id: int = Field(ge=0, lt=_ID_LIMIT)


class StopRequest(SocketRequest):
    """Request to cancel everything that the page has requested over the websocket."""

    do: Literal["stop"]


def invalid_message_response(message: Any, error: ValidationError) -> dict[str, Any]:
    """Return the response to an invalid message, with its `id`; the `id` is 0 if it is invalid."""
    number = message.get("id") if isinstance(message, dict) else None
    is_valid = type(number) is int and 0 <= number < _ID_LIMIT
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or "the message"
    text = f"{field}: {one_line(first['msg'])}"
    return {"id": number if is_valid else 0, "error": text, "done": True}


class _TokenBucket:
    """Token bucket that limits the messages of a connection, refilled at a constant rate."""

    def __init__(self) -> None:
        self._tokens = float(_BURST)
        self._updated = time.monotonic()

    def take(self) -> float:
        """Take a token for one message; return the seconds to wait until it is available."""
        now = time.monotonic()
        refilled = self._tokens + _MESSAGES_PER_SECOND * (now - self._updated)
        self._tokens = min(_BURST, refilled) - 1
        self._updated = now
        return max(0.0, -self._tokens / _MESSAGES_PER_SECOND)


class JsonWebSocket:
    """Websocket with JSON messages, which several asyncio tasks can send."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()

    async def accept(self) -> None:
        """Open the connection."""
        await self._websocket.accept()

    async def send(self, message: dict[str, Any] | BaseModel) -> None:
        """Send a message; close the connection if the client does not read it in time."""
        data = message.model_dump(mode="json") if isinstance(message, BaseModel) else message
        text = json.dumps(data, allow_nan=False)
        async with self._sending:
            if self._websocket.application_state is not WebSocketState.CONNECTED:
                return
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await self._websocket.send_text(text)
            except (WebSocketDisconnect, RuntimeError):
                return
            except TimeoutError:
                await self._close(_TRY_AGAIN)

    async def messages(self) -> AsyncIterator[Any]:
        """Yield incoming JSON values, or None for invalid JSON, until the connection closes.

        Clients that send too fast are slowed down. Other tasks run between messages.
        """
        bucket = _TokenBucket()
        while True:
            await asyncio.sleep(bucket.take())
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes instead of text
                return
            if len(text) > _MAX_MESSAGE:
                await self._close(_TOO_BIG)
                return
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                yield None

    async def _close(self, code: int) -> None:
        with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(1):
                await self._websocket.close(code)
