"""ASGI middleware that keeps strangers out: host names, origins, the token, sizes and rates.

Pages of other sites can make a browser send requests to a server on the loopback address. Such
requests carry the origin of that site, or a host name that it has pointed here; either is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zerolab.web.requests import address_of, error_response

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = "*"
_COOKIE = "zerolab-token"
_SAFE = ("GET", "HEAD")
_PROXY_HEADERS = (
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "forwarded",
    "via",
    "x-real-ip",
)
"""Headers that reveal a proxy: the client behind it may be on any machine."""

MAX_BODY = 1 << 18
"""Bytes of a request body, except for files."""
MAX_FILE = 64 << 20
"""Bytes of an uploaded file."""
_UPLOADS = ("/api/v1/agents",)
_RATE = 400.0  # sustained requests and websocket messages per second of a client
_BURST = 2000.0
_MAX_CLIENTS = 1000
_PAUSE_SECONDS = 0.1  # between attempts of a client that sends messages too fast
_BODY_SECONDS = 60.0
_MAX_SOCKETS = 256
"""Open websockets of a client; a page has one."""


class Guard:
    """Refuses requests from other sites, and requests that are too large or too frequent."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        token: str | None = None,
        proxies: Iterable[str] = (),
    ) -> None:
        """Serve requests for these host names, and with a `token`, only clients that send it.

        Without a token, requests through a proxy are refused: anybody may be behind it. ANY_ADDRESS
        among the hosts stands for all IP addresses, since other sites can point only names here.
        `proxies` are host names of proxies in front of this server, whose pages count as its own.
        They run on this machine and name the client in X-Forwarded-For; see `address_of`.
        """
        self._app = app
        self._proxies = {each.lower() for each in proxies}
        self._hosts = {each.lower() for each in hosts} | self._proxies
        self._token = token
        self._rates = _Rates()
        self._sockets: Counter[str] = Counter()
        """Open websockets, by client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        address = address_of(scope, headers, has_proxy=bool(self._proxies))
        scope = {**scope, "client": (address, 0)}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        most = MAX_FILE if scope["path"] in _UPLOADS else MAX_BODY
        await self._app(scope, _bounded(receive, most), _with_headers(send))

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = _client(scope)
        self._sockets[client] += 1
        try:
            await self._app(scope, self._paced(receive, client), send)
        finally:
            self._sockets[client] -= 1
            if not self._sockets[client]:
                del self._sockets[client]

    def _paced(self, receive: Receive, client: str) -> Receive:
        """Return `receive` with messages counted as requests; clients that send too many wait."""

        async def paced() -> Message:
            message = await receive()
            while message["type"] == "websocket.receive" and not self._rates.allow(client):
                await asyncio.sleep(_PAUSE_SECONDS)
            return message

        return paced

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Return the response to a refused request; None for one that is served."""
        host = headers.get("host", "")
        if not self._is_own_host(_name_of(host)):
            return error_response(421, "the server is not known by this host name")
        if self._token is None and any(name in headers for name in _PROXY_HEADERS):
            return error_response(
                403, "a proxy in front of the server needs `zerolab serve --names NAME`"
            )
        if self._is_from_another_site(scope, headers, host):
            return error_response(403, "requests from other sites are refused")
        most = MAX_FILE if scope["path"] in _UPLOADS else MAX_BODY
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > most:
            return error_response(
                413, f"a request of {length[:12]} bytes: expected at most {most:,}"
            )
        if too_many := self._too_many(scope):
            return error_response(429, too_many)
        return None if self._token is None else self._token_refusal(scope, headers, self._token)

    def _too_many(self, scope: Scope) -> str | None:
        """Return the limit that a client has exceeded, in words; None if there is none."""
        client = _client(scope)
        if not self._rates.allow(client):
            return "too many requests: try again in a second"
        if scope["type"] == "websocket" and self._sockets[client] >= _MAX_SOCKETS:
            return "too many websockets: close some pages"
        return None

    def _is_from_another_site(self, scope: Scope, headers: Mapping[str, str], host: str) -> bool:
        """Return whether a page of another site sends a request that only own pages may send."""
        is_change = scope["type"] == "websocket" or scope["method"] not in _SAFE
        origin = headers.get("origin")
        if is_change and origin is not None and not self._is_own_site(origin, host):
            return True
        is_from_elsewhere = headers.get("sec-fetch-site") == "cross-site"
        return is_from_elsewhere and scope["path"].startswith("/api")

    def _is_own_host(self, name: str) -> bool:
        return name in self._hosts - {ANY_ADDRESS} or (
            ANY_ADDRESS in self._hosts and _is_address(name)
        )

    def _is_own_site(self, origin: str, host: str) -> bool:
        """Return whether a page's origin is this server or a named proxy in front of it."""
        site = _site_of(origin)
        return site == host.lower() or _name_of(site) in self._proxies

    def _token_refusal(
        self, scope: Scope, headers: Mapping[str, str], token: str
    ) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        is_page = scope["type"] == "http" and scope["method"] in _SAFE
        if is_page and hmac.compare_digest(given.encode(), token.encode()):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # two slashes would lead to another host
            response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            # Not strict: links to this URL from other sites, such as web mail, should work.
            response.set_cookie(_COOKIE, token, httponly=True, samesite="lax")
            return response
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        for known in (bearer, _cookie(headers), given):
            if hmac.compare_digest(known.encode("latin-1", "replace"), token.encode()):
                return None
        return error_response(401, "open the address that `zerolab serve` prints, with its token")


class _Rates:
    """A token bucket of requests per client, refilled at a constant rate."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, client: str) -> bool:
        """Take a token of a client; return whether it had one."""
        now = time.monotonic()
        left, then = self._left.pop(client, (_BURST, now))
        left = min(_BURST, left + _RATE * (now - then))
        self._left[client] = (max(0.0, left - 1), now)
        if len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


def _client(scope: Scope) -> str:
    """Return the client's address, by which limits are counted."""
    address: str = scope["client"][0]
    return address


def _name_of(host: str) -> str:
    """Return the name in ``name:port``, in lower case; an IPv6 address without its brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _site_of(origin: str) -> str:
    """Return the host and port of an origin, in lower case; "" if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[_COOKIE].value if _COOKIE in cookies else ""


async def _refuse(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # the request to connect
        await send({"type": "websocket.close", "code": 1008})
    else:
        await refusal(scope, receive, _with_headers(send))


def _bounded(receive: Receive, most: int) -> Receive:
    """Return `receive` for a body of at most `most` bytes that must arrive within a time limit."""
    taken, is_complete = 0, False
    until = asyncio.get_running_loop().time() + _BODY_SECONDS

    async def bounded() -> Message:
        nonlocal taken, is_complete
        try:
            async with asyncio.timeout_at(None if is_complete else until):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        taken += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        return message if taken <= most else {"type": "http.disconnect"}

    return bounded


def _with_headers(send: Send) -> Send:
    """Return `send` with headers that deny pages everything they do not need."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[Any] = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in present
            ]
            message = {**message, "headers": headers}
        await send(message)

    return with_headers
