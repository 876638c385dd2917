"""Request models, clients, quotas and error responses.

A client is identified by its address, which it cannot choose, and by a page name, which it can. A
pupil of a class is identified by the token instead of the address.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Scope

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.web.pages import error_page

_THIS_MACHINE = "127.0.0.1"
_MOST_ADDRESS = 60  # characters; longer than any address
_IPV6_NETWORK_BITS = 64  # a host can choose the remaining bits freely
_PUPIL = "pupil:"  # begins no address


class RequestModel(BaseModel):
    """Base class of JSON requests, which rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(NamedTuple):
    """Sender of a request."""

    address: str
    """Address to which limits apply; for a pupil of a class, the name after a mark."""
    page: str = ""
    """Name that a page chooses for itself. All pages at an address share the limits of the
    address."""

    @property
    def is_pupil(self) -> bool:
        """True for a pupil of a class, all of whose pages together have the limits of one page."""
        return is_pupil_address(self.address)


def pupil_address(name: str) -> str:
    """Return the address that stands for a pupil, wherever the requests come from."""
    return _PUPIL + name


def is_pupil_address(address: str) -> bool:
    """Return whether an address stands for a pupil of a class."""
    return address.startswith(_PUPIL)


def client_of(connection: HTTPConnection) -> Client:
    """Return the client of a connection whose address has been set by the guard."""
    page = connection.headers.get("x-page") or connection.query_params.get("page") or ""
    return Client(connection.client.host if connection.client else "", page[:40])


def client_address(scope: Scope, headers: Mapping[str, str], *, has_proxy: bool) -> str:
    """Return the address that identifies the machine from which a request comes.

    This is the address of the connection unless a proxy on this machine forwards the request. In
    that case it is the last address in X-Forwarded-For, which the proxy appends. The client can
    forge the addresses before that one.
    """
    connected = scope["client"][0] if scope.get("client") else ""
    peer = _machine(connected) or connected
    if not (has_proxy and peer == _THIS_MACHINE):
        return peer
    forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return _machine(forwarded[:_MOST_ADDRESS]) or peer


@lru_cache(maxsize=1024)
def _machine(address: str) -> str:
    """Return one name for all addresses that a machine can use, or "" if `address` is invalid."""
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
        """Count one more unit of work for a client; raise BusyError if a limit is reached."""
        counts = self._pages[client], self._addresses[client.address]
        per_address = self._per_page if client.is_pupil else self._per_address
        for count, most in zip(counts, (self._per_page, per_address), strict=True):
            if count >= most:
                raise BusyError(
                    f"{most} {self._work} are already in progress here: wait for one to finish"
                )
        if self.in_use >= self._total:
            raise BusyError(f"the server is busy with {self._work}: try again in a moment")
        self._pages[client] += 1
        self._addresses[client.address] += 1

    def release(self, client: Client) -> None:
        """Count one unit of work less for a client."""
        _decrement(self._pages, client)
        _decrement(self._addresses, client.address)

    @contextmanager
    def held(self, client: Client) -> Iterator[None]:
        """Count one more unit of work during the context; raise BusyError at a limit."""
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


class MissingError(UserError):
    """Error for a request for something that does not exist, with status 404."""


class BusyError(UserError):
    """Error when a limit on simultaneous work is reached, with status 503."""


_STATUS = {ForbiddenError: 403, MissingError: 404, BusyError: 503}


def error_message(error: Exception) -> str:
    """Return the message of an error as one line, marked as internal unless it is a UserError."""
    if isinstance(error, UserError):
        return "; ".join(str(error).splitlines())
    return f"internal error: {one_line(error)}"


def describe_validation_errors(error: RequestValidationError) -> str:
    """Return one line that describes the first three invalid fields of a request."""
    lines = []
    for each in error.errors()[:3]:
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
    return _response(request, error.status_code, message)


async def _incomplete_request(request: Request, error: Exception) -> Response:
    return _response(request, 400, "the request was interrupted or is too large")


async def _internal_error(request: Request, error: Exception) -> Response:
    return _response(request, 500, "internal error; details are in the server's terminal")


def _response(request: Request, status: int, message: str) -> Response:
    """Return an error as a page for a person in a browser, and as JSON for a program."""
    is_page = not request.url.path.startswith("/api/")
    if is_page and "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(error_page(message), status)
    return error_response(status, message)
