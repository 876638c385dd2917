"""Requests: their base model, the clients that send them, quotas, and errors as responses.

A client is identified by its address, which it cannot choose, and by a page name, which it can.
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
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Scope

from zerolab.core.errors import UserError, one_line, quoted

_THIS_MACHINE = "127.0.0.1"
_MOST_ADDRESS = 60  # characters, more than any address has
_IPV6_NETWORK_BITS = 64  # the host can choose the other bits freely


class RequestModel(BaseModel):
    """Base of JSON requests, which rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(NamedTuple):
    """The sender of a request."""

    address: str
    """The address of the requests; limits are counted by it."""
    page: str = ""
    """The name a page gives itself. All pages of an address share its limits."""


def client_of(connection: HTTPConnection) -> Client:
    """Return the client of a connection whose address the guard has replaced by `address_of`."""
    page = connection.headers.get("x-page") or connection.query_params.get("page") or ""
    return Client(connection.client.host if connection.client else "", page[:40])


def address_of(scope: Scope, headers: Mapping[str, str], *, has_proxy: bool) -> str:
    """Return the address that stands for the machine behind a request.

    This is the address of the connection. A proxy on this machine, if there is one, forwards
    requests for others: their address is the last one in X-Forwarded-For, which the proxy adds;
    anything before it may be forged by the client.
    """
    connected = scope["client"][0] if scope.get("client") else ""
    peer = _machine(connected) or connected
    if not (has_proxy and peer == _THIS_MACHINE):
        return peer
    forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return _machine(forwarded[:_MOST_ADDRESS]) or peer


@lru_cache(maxsize=1024)
def _machine(address: str) -> str:
    """Return one name for all addresses that a machine can choose from; "" if invalid."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return _THIS_MACHINE
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((int(found), _IPV6_NETWORK_BITS), strict=False))


class Quota:
    """Limits on work in progress: in total, per address and per page."""

    def __init__(self, what: str, total: int, per_address: int, per_page: int) -> None:
        """Limit `what`, such as "searches"."""
        self._what = what
        self._total, self._per_address, self._per_page = total, per_address, per_page
        self._addresses: Counter[str] = Counter()
        self._pages: Counter[Client] = Counter()

    @property
    def in_use(self) -> int:
        """Work in progress of all clients."""
        return self._addresses.total()

    def acquire(self, client: Client) -> None:
        """Count one more for a client; raise BusyError if a limit is reached."""
        own = self._pages[client], self._addresses[client.address]
        for count, most in zip(own, (self._per_page, self._per_address), strict=True):
            if count >= most:
                raise BusyError(
                    f"{most} {self._what} are in progress here already: expected fewer at once"
                )
        if self.in_use >= self._total:
            raise BusyError(f"the server is busy with {self._what}: try again in a moment")
        self._pages[client] += 1
        self._addresses[client.address] += 1

    def release(self, client: Client) -> None:
        """Count one less for a client."""
        _decrement(self._pages, client)
        _decrement(self._addresses, client.address)

    @contextmanager
    def held(self, client: Client) -> Iterator[None]:
        """Count one more for a client while the context lasts; raise BusyError as `acquire`."""
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
    """The server does not permit the request: status 403."""


class MissingError(UserError):
    """The requested thing does not exist: status 404."""


class BusyError(UserError):
    """A limit on simultaneous work is reached: status 503."""


_STATUS = {ForbiddenError: 403, MissingError: 404, BusyError: 503}


def error_message(error: Exception) -> str:
    """Return an error's message in one line; internal errors are shown without details."""
    if isinstance(error, UserError):
        return "; ".join(str(error).splitlines())
    return f"internal error: {one_line(error)}"


def describe_mistakes(error: RequestValidationError) -> str:
    """Return one line with the first three mistakes in a request."""
    lines = []
    for mistake in error.errors()[:3]:
        place = ".".join(str(part) for part in mistake["loc"] if part != "body") or "the request"
        lines.append(f"{place} = {quoted(mistake.get('input'))}: {one_line(mistake['msg'])}")
    return "; ".join(lines)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error response ``{"error": "one line"}``."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _incomplete_request)
    app.add_exception_handler(Exception, _internal_error)


def error_response(status: int, message: str) -> JSONResponse:
    """Return an error in the form that all routes use."""
    return JSONResponse({"error": message}, status_code=status)


async def _user_error(request: Request, error: Exception) -> JSONResponse:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
    return error_response(status, error_message(error))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return error_response(422, describe_mistakes(error))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = "no such page" if error.status_code == 404 else str(error.detail)
    return error_response(error.status_code, message)


async def _incomplete_request(request: Request, error: Exception) -> JSONResponse:
    return error_response(400, "the request was interrupted or is too large")


async def _internal_error(request: Request, error: Exception) -> JSONResponse:
    return error_response(500, "internal error; details are in the server's terminal")
