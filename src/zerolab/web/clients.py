"""Clients of the server: identified by address, which cannot be chosen, and by page."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple, TypeVar

from starlette.requests import HTTPConnection
from starlette.types import Scope

from zerolab.web.errors import BusyError

_THIS_MACHINE = "127.0.0.1"
_LONGEST = 60
"""Characters of an address, and more."""
_OWN_BITS = 64
"""Of an address of IPv6: who has one has all that begin with them."""


class Client(NamedTuple):
    """The sender of a request."""

    address: str
    """The address of the requests; limits are counted by it."""
    page: str = ""
    """The name a page gives itself. All pages of an address share its limits."""


def client_of(connection: HTTPConnection) -> Client:
    """Return who asks; see `address_of`, which has to be what the connection knows."""
    page = connection.headers.get("x-page") or connection.query_params.get("page") or ""
    return Client(connection.client.host if connection.client else "", page[:40])


def address_of(scope: Scope, headers: Mapping[str, str], *, has_proxy: bool) -> str:
    """Return what stands for the machine that a request comes from.

    That is the address of its connection. A proxy on this machine, if there is one, speaks for
    others: theirs is the last one in X-Forwarded-For, which the proxy has put there itself;
    whatever stands before it, anybody may have written.
    """
    connected = scope["client"][0] if scope.get("client") else ""
    peer = _machine(connected) or connected
    if not (has_proxy and peer == _THIS_MACHINE):
        return peer
    told = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return _machine(told[:_LONGEST]) or peer


@lru_cache(maxsize=1024)
def _machine(address: str) -> str:
    """Return one name for all addresses that one machine can choose from; "" for no address."""
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
    return str(ipaddress.ip_network((int(found), _OWN_BITS), strict=False))


class UnderWay:
    """Bounded count of work in progress: in total, per address and per page."""

    def __init__(self, what: str, most: int, most_of_address: int, most_of_page: int) -> None:
        """Bound `what`, such as "searches"."""
        self._what = what
        self._most, self._most_of_address, self._most_of_page = most, most_of_address, most_of_page
        self._addresses: Counter[str] = Counter()
        self._pages: Counter[Client] = Counter()

    @property
    def total(self) -> int:
        """Work in progress of all clients."""
        return self._addresses.total()

    def begin(self, client: Client) -> None:
        """Count one more of a client; raise BusyError where there is too much."""
        own = self._pages[client], self._addresses[client.address]
        for count, most in zip(own, (self._most_of_page, self._most_of_address), strict=True):
            if count >= most:
                raise BusyError(f"{most} {self._what} are under way here: expected fewer at once")
        if self.total >= self._most:
            raise BusyError(f"the server is busy with {self._what}: try again in a moment")
        self._pages[client] += 1
        self._addresses[client.address] += 1

    def end(self, client: Client) -> None:
        """Count one less of a client."""
        _less(self._pages, client)
        _less(self._addresses, client.address)

    @contextmanager
    def one(self, client: Client) -> Iterator[None]:
        """Count one more of a client for as long as the context lasts; see `begin`."""
        self.begin(client)
        try:
            yield
        finally:
            self.end(client)


_Key = TypeVar("_Key", bound=Hashable)


def _less(counts: Counter[_Key], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
