"""Limits of each client: requests, websocket messages, open websockets and searches."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tiny_laboratory import new_client

from zerolab.web import security
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.server import make_app

POSITION = {"game": "connect_four:4x4:3"}
OWN = {"host": "localhost"}


def test_excessive_requests_get_429(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerolab.web.security._BURST", 20.0)
    monkeypatch.setattr("zerolab.web.security._RATE", 0.001)
    with new_client(workers=0) as client:
        codes = [client.get("/api/v1/server").status_code for _ in range(25)]
    assert codes == [200] * 20 + [429] * 5


def test_clients_above_the_rate_still_get_the_rate(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of requests a second apart, every second one is served at a rate of one in two seconds."""
    clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__)
    monkeypatch.setattr("zerolab.web.security.time", clock)
    monkeypatch.setattr("zerolab.web.security._BURST", 1.0)
    monkeypatch.setattr("zerolab.web.security._RATE", 0.5)
    with new_client(workers=0) as client:
        codes = [client.get("/api/v1/server").status_code for _ in range(9)]
    assert codes == [200, 429] * 4 + [200]


def _client_at(address: str, **proxy: Any) -> TestClient:
    """Return a client at an IP address, with the token of a server without searches."""
    app = make_app(Laboratory(Folders(), workers=0), token="secret-token", **proxy)
    bearer = {"authorization": "Bearer secret-token"}
    return TestClient(app, base_url="http://localhost", client=(address, 5000), headers=bearer)


def _statuses(client: TestClient, *forwarded: str | None) -> list[int]:
    """Return the status codes of requests with these `X-Forwarded-For` headers."""
    headers = [{"x-forwarded-for": each} if each else {} for each in forwarded]
    return [client.get("/api/v1/server", headers=each).status_code for each in headers]


@pytest.fixture
def two_requests(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each client to two requests."""
    monkeypatch.setattr("zerolab.web.security._BURST", 2.0)
    monkeypatch.setattr("zerolab.web.security._RATE", 0.001)


@pytest.mark.usefixtures("two_requests")
def test_clients_behind_proxy_have_separate_limits() -> None:
    with _client_at("127.0.0.1", proxies=["lab.example"]) as client:
        assert _statuses(client, "192.0.2.1", "192.0.2.1", "192.0.2.1") == [200, 200, 429]
        assert _statuses(client, "192.0.2.2", "192.0.2.2", "192.0.2.2") == [200, 200, 429]


@pytest.mark.usefixtures("two_requests")
def test_forged_forwarded_addresses_are_ignored() -> None:
    with _client_at("127.0.0.1", proxies=["lab.example"]) as client:
        forged = ("203.0.113.8, 192.0.2.1", "x, 192.0.2.1", "192.0.2.1")
        assert _statuses(client, *forged) == [200, 200, 429]
        # Invalid addresses count as the proxy's own, so these requests share one limit.
        assert _statuses(client, "unknown", "192.0.2.1:4711", None) == [200, 200, 429]


@pytest.mark.usefixtures("two_requests")
@pytest.mark.parametrize(
    ("address", "names"), [("192.0.2.1", ["lab.example"]), ("127.0.0.1", []), ("::1", [])]
)
def test_forwarded_addresses_need_configured_proxy(address: str, names: list[str]) -> None:
    with _client_at(address, proxies=names) as client:
        assert _statuses(client, "203.0.113.8", "203.0.113.9", "203.0.113.7") == [200, 200, 429]


@pytest.mark.usefixtures("two_requests")
def test_addresses_of_one_ipv6_network_share_limit() -> None:
    with _client_at("127.0.0.1", proxies=["lab.example"]) as client:
        network = ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::9")
        assert _statuses(client, *network) == [200, 200, 429]
        assert _statuses(client, "2001:db8:1:3::1") == [200]
        assert _statuses(client, "192.0.2.5", "::ffff:192.0.2.5", "192.0.2.5") == [200, 200, 429]
        assert _statuses(client, "127.0.0.7", None, "::1") == [200, 200, 429]


@pytest.mark.usefixtures("two_requests")
def test_websocket_messages_count_as_requests() -> None:
    with _client_at("192.0.2.1") as client:
        with client.websocket_connect("/api/v1/analysis/live", headers=OWN) as socket:
            for _ in range(3):  # the connection counted as the first request
                socket.send_json({"id": 1, "do": "stop"})
            assert socket.receive_json() == {"id": 1, "done": True}
        assert _statuses(client, None) == [429]


@pytest.mark.usefixtures("search_threads")
def test_page_names_do_not_raise_limit_of_address(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerolab.web.searches.MAX_SEARCHES_PER_ADDRESS", 0)
    request = {"position": POSITION, "agent": "random"}
    with new_client() as client:
        for page in ("a", "b"):
            response = client.post("/api/v1/move", json=request, headers={"x-page": page})
            assert response.status_code == 503
            assert "0 searches" in response.json()["error"]


def test_websockets_per_client_are_limited(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_MAX_SOCKETS", 2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(client.websocket_connect("/api/v1/analysis/live", headers=OWN))
        with pytest.raises(WebSocketDisconnect):
            stack.enter_context(client.websocket_connect("/api/v1/analysis/live", headers=OWN))
    with client.websocket_connect("/api/v1/analysis/live", headers=OWN) as socket:
        socket.send_json({"id": 1, "do": "stop"})
        assert socket.receive_json() == {"id": 1, "done": True}
