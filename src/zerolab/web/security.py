"""ASGI middleware that checks the hosts, origins, tokens, sizes and rates of requests.

Other sites can make a browser send requests to a server on the loopback address. Such a request has
the site's origin, or a host name that the site has pointed at this address. Both are rejected.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zerolab.web.classroom import TokenHolder
from zerolab.web.requests import (
    client_address,
    error_response,
    is_pupil_address,
    pupil_address,
)

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
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = "*"
_COOKIE = "zerolab-token"
TOKEN_HOLDER_SCOPE_KEY = "zerolab.holder"
"""Key in the scope of a request for the `TokenHolder` of its token, which can be None."""
_SAFE = ("GET", "HEAD")
_PROXY_HEADERS = (
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "forwarded",
    "via",
    "x-real-ip",
)
"""Headers that reveal a proxy, whose clients can be on any machine."""

MAX_BODY_BYTES = 1 << 18
"""Maximum size of a request body in bytes, except for uploaded files."""
MAX_FILE_BYTES = 64 << 20
"""Maximum size of an uploaded file in bytes."""
_UPLOADS = ("/api/v1/agents", "/api/v1/class/file")
_RATE = 400.0  # sustained requests and websocket messages per second and client
_BURST = 2000.0
_PUPIL_SHARE = 0.1  # share of these limits, and of the websockets, for each pupil of a class
_TEACHER_PAGES = ("/class", "/api/v1/class/manage")
"""Paths closed to pupils, as are all paths that begin with the second one."""
_PUPIL_CHANGES = frozenset(
    f"/api/v1/{name}"
    for name in (
        *("class/mine", "class/file", "puzzles/answer"),
        *("position", "line", "opening", "move", "analysis", "solution", "agent"),
        *("values", "simulation"),
    )
)
"""Paths to which pupils can send requests other than GET and HEAD, because their pages do."""
_MAX_CLIENTS = 1000
_PAUSE_SECONDS = 0.1  # delay for clients that send messages too fast
_BODY_SECONDS = 60.0
_MAX_SOCKETS = 256
"""Maximum number of open websockets per client; each page uses one."""


class RequestGuard:
    """Middleware that rejects requests from other sites and requests beyond the limits."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        token: str | None = None,
        proxies: Iterable[str] = (),
        holder_of: Callable[[str], TokenHolder | None] | None = None,
    ) -> None:
        """Accept requests for the host names in `hosts`; require clients to send `token` if set.

        If `holder_of` is set, it replaces `token`: clients must send a token for which it returns a
        holder. Limits then apply to each pupil, wherever the requests come from.

        Without a token, requests through a proxy are rejected, because they can come from anyone.
        ANY_ADDRESS in `hosts` allows all IP addresses. This is safe because other sites can point
        only host names at this server. `proxies` are host names of reverse proxies on this machine,
        which must set X-Forwarded-For (see `client_address`). Pages served through these proxies
        are treated as pages of this server.
        """
        self._app = app
        self._proxies = {each.lower() for each in proxies}
        self._hosts = {each.lower() for each in hosts} | self._proxies
        self._holder_of = holder_of or (None if token is None else _owner_of(token))
        self._rates = _Rates()
        self._sockets: Counter[str] = Counter()
        """Number of open websockets by client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward or reject a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        address = client_address(scope, headers, has_proxy=bool(self._proxies))
        holder = self._holder(scope, headers)
        if holder is not None and holder.is_pupil:
            address = pupil_address(holder.name)
        scope = {**scope, "client": (address, 0), TOKEN_HOLDER_SCOPE_KEY: holder}
        rejection = self._rejection(scope, headers)
        if rejection is not None:
            await _reject(rejection, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        most = MAX_FILE_BYTES if scope["path"] in _UPLOADS else MAX_BODY_BYTES
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
        """Return `receive` with messages counted as requests, and delayed if too frequent."""

        async def paced() -> Message:
            message = await receive()
            while message["type"] == "websocket.receive" and not self._rates.allow(client):
                await asyncio.sleep(_PAUSE_SECONDS)
            return message

        return paced

    def _rejection(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Return the response to a rejected request, or None for an accepted one."""
        host = headers.get("host", "")
        if not self._is_own_host(_name_of(host)):
            return error_response(421, "this host name does not belong to the server")
        if self._holder_of is None and any(name in headers for name in _PROXY_HEADERS):
            return error_response(
                403, "to run behind a proxy, the server needs `zerolab serve --names NAME`"
            )
        if self._is_from_another_site(scope, headers, host):
            return error_response(403, "requests from other sites are rejected")
        most = MAX_FILE_BYTES if scope["path"] in _UPLOADS else MAX_BODY_BYTES
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > most:
            return error_response(413, f"request of {length[:12]} bytes: expected at most {most:,}")
        if too_many := self._too_many(scope):
            return error_response(429, too_many)
        return self._token_response(scope, headers)

    def _too_many(self, scope: Scope) -> str | None:
        """Return an error message if a client has exceeded a limit, or None."""
        client = _client(scope)
        if not self._rates.allow(client):
            return "too many requests: try again in a second"
        if scope["type"] == "websocket" and self._sockets[client] >= _share(client) * _MAX_SOCKETS:
            return "too many websockets: close some pages"
        return None

    def _is_from_another_site(self, scope: Scope, headers: Mapping[str, str], host: str) -> bool:
        """Return whether another site sends a request that only the server's pages may send."""
        is_change = scope["type"] == "websocket" or scope["method"] not in _SAFE
        origin = headers.get("origin")
        if is_change and origin is not None and not self._is_own_site(origin, host):
            return True
        is_cross_site = headers.get("sec-fetch-site") == "cross-site"
        return is_cross_site and scope["path"].startswith("/api")

    def _is_own_host(self, name: str) -> bool:
        return name in self._hosts - {ANY_ADDRESS} or (
            ANY_ADDRESS in self._hosts and _is_address(name)
        )

    def _is_own_site(self, origin: str, host: str) -> bool:
        """Return whether a page's origin is this server or one of its proxies."""
        site = _site_of(origin)
        return site == host.lower() or _name_of(site) in self._proxies

    def _holder(self, scope: Scope, headers: Mapping[str, str]) -> TokenHolder | None:
        """Return the holder of a request's token, or None."""
        if self._holder_of is None:
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        for token in (_query_token(scope), bearer, _cookie(headers)):
            holder = self._holder_of(token)
            if holder is not None:
                return holder
        return None

    def _token_response(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Return the response to a request that lacks a token or a permission, or None."""
        holder: TokenHolder | None = scope[TOKEN_HOLDER_SCOPE_KEY]
        if self._holder_of is None:
            return None
        if holder is None:
            return error_response(
                401, "open the address printed by `zerolab serve`, including its token"
            )
        is_change = scope["type"] == "http" and scope["method"] not in _SAFE
        token = _query_token(scope)
        if scope["type"] == "http" and not is_change and self._holder_of(token) is not None:
            return _with_cookie(scope, headers, token)
        if holder.is_pupil and _is_for_teacher(scope["path"], is_change):
            return error_response(403, "only the teacher can do this: use the teacher's link")
        return None


def _is_for_teacher(path: str, is_change: bool) -> bool:
    """Return whether only the teacher of a class can send a request."""
    if path in _TEACHER_PAGES or path.startswith(_TEACHER_PAGES[1]):
        return True
    return is_change and path not in _PUPIL_CHANGES


def _owner_of(token: str) -> Callable[[str], TokenHolder | None]:
    """Return a function that recognises the only token of a server without a class."""
    return lambda given: (
        TokenHolder("")
        if hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
        else None
    )


def _with_cookie(scope: Scope, headers: Mapping[str, str], token: str) -> Response:
    """Return a redirect to the same page without the token, which is moved to a cookie."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    other_query = urlencode([(key, value) for key, value in query if key != "token"])
    path = "/" + scope["path"].lstrip("/\\")  # two slashes would redirect to another host
    response = RedirectResponse(path + (f"?{other_query}" if other_query else ""), 303)
    # SameSite is not strict, so that links from other sites, such as web mail, work.
    response.set_cookie(_cookie_name(headers), token, httponly=True, samesite="lax")
    return response


def _query_token(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return dict(parse_qsl(query, keep_blank_values=True)).get("token", "")


class _Rates:
    """Token buckets that limit the requests of each client, refilled at a constant rate."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, client: str) -> bool:
        """Take one of a client's tokens if one is left, and return whether there was one.

        Refused requests take nothing, so a client that is too fast still gets the constant rate.
        """
        now, share = time.monotonic(), _share(client)
        left, then = self._left.pop(client, (share * _BURST, now))
        left = min(share * _BURST, left + share * _RATE * (now - then))
        is_allowed = left >= 1
        self._left[client] = (left - is_allowed, now)
        if len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        return is_allowed


def _client(scope: Scope) -> str:
    """Return the client address to which limits apply."""
    address: str = scope["client"][0]
    return address


def _share(client: str) -> float:
    """Return the share of the per-client limits that a client may use."""
    return _PUPIL_SHARE if is_pupil_address(client) else 1.0


def _name_of(host: str) -> str:
    """Return the lower-case name in ``name:port``, without the brackets of IPv6 addresses."""
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
    """Return the lower-case host and port of an origin, or "" if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cookie(headers: Mapping[str, str]) -> str:
    """Return the token in the cookies, which can include cookies of other servers on this host."""
    return cookie_parser(headers.get("cookie", "")).get(_cookie_name(headers), "")


def _cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the token's cookie, with the port to which the request was sent.

    Browsers send the cookies of a host to all its ports, so two servers on one host need two names.
    """
    port = headers.get("host", "").rpartition(":")[2]
    return f"{_COOKIE}-{port}" if port.isascii() and port.isdigit() else _COOKIE


async def _reject(rejection: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # the connection request
        await send({"type": "websocket.close", "code": 1008})
    else:
        await rejection(scope, receive, _with_headers(send))


def _bounded(receive: Receive, most: int) -> Receive:
    """Return `receive` with limits: at most `most` bytes, within `_BODY_SECONDS`."""
    received, is_complete = 0, False
    until = asyncio.get_running_loop().time() + _BODY_SECONDS

    async def bounded() -> Message:
        nonlocal received, is_complete
        try:
            async with asyncio.timeout_at(None if is_complete else until):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        received += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        return message if received <= most else {"type": "http.disconnect"}

    return bounded


def _with_headers(send: Send) -> Send:
    """Return `send` with added security headers that deny pages all unneeded capabilities."""

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
