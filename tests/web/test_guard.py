"""Refused requests: other hosts, other sites, other folders, programs, excessive load."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tiny_laboratory import new_page

from zerolab.web import security, server
from zerolab.web.app import make_app
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.security import MAX_BODY

POSITION = {"game": "connect_four:4x4:3"}
OWN = {"host": "localhost"}


@pytest.fixture
def guarded(here: Path) -> Iterator[TestClient]:
    """A client of a server that others can reach, and who does not know its token."""
    app = make_app(Laboratory(Folders(), workers=0), hosts=["lab.example"], token="secret-token")
    with TestClient(app, base_url="http://lab.example") as opened:
        yield opened


@pytest.mark.parametrize("host", ["evil.example", "", "localhost.evil.example", "[::1", "a b"])
def test_other_names_of_the_host_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/games", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
def test_own_names_of_the_host_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/server", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "file://", "http://["]
)
def test_changes_from_other_sites_are_refused(client: TestClient, origin: str) -> None:
    answer = client.post("/api/v1/position", json=POSITION, headers={"origin": origin})
    assert answer.status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/api/v1/live", headers={"origin": origin, "host": "localhost"}),
    ):
        pass


def test_own_pages_may_ask(client: TestClient) -> None:
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/position", json=POSITION, headers=own).status_code == 200
    other = client.get("/api/v1/games", headers={"sec-fetch-site": "cross-site"})
    assert other.status_code == 403


def test_without_the_token_nothing_is_served(guarded: TestClient) -> None:
    for path in ("/", "/play", "/static/style.css", "/api/v1/games", "/api/v1/openapi.json"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/?token=wrong").status_code == 401
    assert guarded.get("/", headers={"cookie": "zerolab-token=wrong"}).status_code == 401
    with pytest.raises(WebSocketDisconnect), guarded.websocket_connect("/api/v1/live"):
        pass


def test_the_address_with_the_token_opens_all_of_it(guarded: TestClient) -> None:
    answer = guarded.get("/play?token=secret-token&a=1", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/play?a=1"
    away = guarded.get(
        "http://lab.example//evil.example/?token=secret-token", follow_redirects=False
    )
    assert away.headers["location"].startswith("/evil.example")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert guarded.get("/api/v1/games").status_code == 200
    bearer = {"authorization": "Bearer secret-token"}
    guarded.cookies.clear()
    assert guarded.get("/api/v1/games", headers=bearer).status_code == 200


def test_all_addresses_of_a_machine_lead_to_it_and_no_foreign_names(here: Path) -> None:
    app = make_app(Laboratory(Folders(), workers=0), hosts=["*", "lab.example"])
    with TestClient(app, base_url="http://192.0.2.7:8765") as opened:
        for host in ("192.0.2.7:8765", "[2001:db8::1]", "lab.example"):
            assert opened.get("/api/v1/server", headers={"host": host}).status_code == 200
        for host in ("evil.example", "*", "192.0.2.7.evil.example"):
            assert opened.get("/api/v1/server", headers={"host": host}).status_code == 421


def test_a_proxy_speaks_for_pages_by_its_name(here: Path) -> None:
    app = make_app(
        Laboratory(Folders(), workers=0), ["127.0.0.1", "own.example"], proxies=["lab.example"]
    )
    with TestClient(app, base_url="http://127.0.0.1:8765") as opened:
        sites = ("https://lab.example", "https://evil.example", "http://own.example:9")
        for origin, status in zip(sites, (200, 403, 403), strict=True):
            answer = opened.post("/api/v1/position", json=POSITION, headers={"origin": origin})
            assert answer.status_code == status


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"],
)
def test_without_a_token_nothing_is_served_through_a_proxy(
    client: TestClient, guarded: TestClient, header: str
) -> None:
    """A proxy may send the name of this machine as the host, for any client."""
    passed_on = {"host": "127.0.0.1:8765", header: "192.0.2.1"}
    answers = (
        client.get("/api/v1/server", headers=passed_on),
        client.post("/api/v1/position", json=POSITION, headers=passed_on),
    )
    for answer in answers:
        assert answer.status_code == 403
        assert "zerolab serve --names NAME" in answer.json()["error"]
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/api/v1/live", headers=passed_on),
    ):
        pass
    known = {"authorization": "Bearer secret-token", header: "192.0.2.1"}
    assert guarded.get("/api/v1/server", headers=known).status_code == 200


def test_pages_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/analyse", "/static/lib/api.js", "/api/v1/games", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_name_nothing_from_elsewhere(client: TestClient) -> None:
    static = Path(make_app.__code__.co_filename).parent / "static"
    for path in static.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert "http://" not in text, path
            assert "https://" not in text, path
            assert "style=" not in text, path
            assert "innerHTML" not in text, path


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd",
        "/static/lib/../../app.py", "/static/%252e%252e/app.py", "/static/..\\app.py",
    ],
)  # fmt: skip
def test_files_beside_the_pages_are_not_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404)


@pytest.mark.parametrize(
    "agent",
    [
        'gtp:"touch /tmp/harm"', "gtp:ls", "/etc", "../other", "runs/../../elsewhere",
        "run:/etc/passwd", "run:../x", "/root@3", "~/runs/demo", "runs/tiny/../../../x?seed=4",
    ],
)  # fmt: skip
def test_agents_that_run_programs_or_lie_elsewhere_are_refused(
    client: TestClient, agent: str
) -> None:
    for path in ("/api/v1/move", "/api/v1/analysis"):
        answer = client.post(path, json={"position": POSITION, "agent": agent})
        assert answer.status_code in (400, 403), agent
    assert not Path("/tmp/harm").exists()


def test_a_link_that_leads_out_of_the_folder_is_not_followed(
    client: TestClient, here: Path, tmp_path: Path
) -> None:
    link = here / "runs" / "link"
    link.symlink_to(tmp_path)
    try:
        for agent in ("runs/link", "runs/link@0", "run:runs/link@0", "runs/link?simulations=4"):
            answer = client.post("/api/v1/move", json={"position": POSITION, "agent": agent})
            assert answer.status_code == 403
            assert "is not served" in answer.json()["error"]
        answer = client.get("/api/v1/agents/file", params={"network": "runs/link@0"})
        assert answer.status_code == 403
    finally:
        link.unlink()


def test_names_that_no_file_can_have_are_refused(client: TestClient) -> None:
    long = "b" * 300
    asked = [
        client.get("/api/v1/tournaments/one", params={"tournament": f"tournaments/{long}"}),
        client.get("/api/v1/runs/one", params={"run": f"runs/{long}"}),
        client.post("/api/v1/agent", json={"agent": long, "game": "gobang:3x3:3"}),
        client.post("/api/v1/agent", json={"agent": f"runs/{long}@1", "game": "gobang:3x3:3"}),
    ]
    for answer in asked:
        assert answer.status_code in (400, 404), answer.text
        assert set(answer.json()) == {"error"}


def test_large_bodies_are_refused(client: TestClient) -> None:
    long = client.post("/api/v1/position", content=b"x" * (MAX_BODY + 1))
    assert long.status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 1024 + 2):
            yield b" " * 1024

    answer = client.post("/api/v1/position", content=chunks())  # without a length
    assert answer.status_code >= 400
    for length in ("-1", "1e9", "99999999999999"):
        answer = client.post("/api/v1/position", headers={"content-length": length}, content=b"")
        assert answer.status_code == 413


def test_malformed_requests_get_an_answer_each(client: TestClient) -> None:
    chance = random.Random(7)
    paths = ["position", "line", "opening", "move", "agent", "analysis", "solution"]
    pieces = [
        None, True, 0, -1, 1e308, "", "x" * 300, "othello:6x6", "a1", [], {}, [[]], {"game": {}},
        {"game": "gobang:3x3:3", "moves": [7, None]}, "\ud800".encode("utf-8", "replace").decode(),
        {"position": {"game": "othello:99x99"}, "agent": "random"}, {"plies": 10**30},
    ]  # fmt: skip
    for _ in range(500):
        path = f"/api/v1/{chance.choice(paths)}"
        if chance.random() < 0.3:
            answer = client.post(path, content=chance.randbytes(chance.randrange(60)))
        else:
            keys = ["game", "moves", "position", "agent", "set_up", "seconds", "plies", "x"]
            body = {key: chance.choice(pieces) for key in chance.sample(keys, 3)}
            answer = client.post(path, json=chance.choice([body, *pieces]))
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert set(answer.json()) == {"error"}


def test_too_many_requests_have_to_wait(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerolab.web.security._BURST", 20.0)
    monkeypatch.setattr("zerolab.web.security._RATE", 0.001)
    with new_page(workers=0) as opened:
        codes = [opened.get("/api/v1/server").status_code for _ in range(25)]
    assert codes == [200] * 20 + [429] * 5


def _address(client: str, **proxy: Any) -> TestClient:
    """Return a client of an address, who knows the token of a server without searches."""
    app = make_app(Laboratory(Folders(), workers=0), token="secret-token", **proxy)
    bearer = {"authorization": "Bearer secret-token"}
    return TestClient(app, base_url="http://localhost", client=(client, 5000), headers=bearer)


def _statuses(opened: TestClient, *forwarded: str | None) -> list[int]:
    """Return the answers to requests that say for whom they are."""
    headers = [{"x-forwarded-for": each} if each else {} for each in forwarded]
    return [opened.get("/api/v1/server", headers=each).status_code for each in headers]


@pytest.fixture
def few(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send two requests."""
    monkeypatch.setattr("zerolab.web.security._BURST", 2.0)
    monkeypatch.setattr("zerolab.web.security._RATE", 0.001)


@pytest.mark.usefixtures("few")
def test_clients_of_a_proxy_have_an_allowance_each() -> None:
    with _address("127.0.0.1", proxies=["lab.example"]) as opened:
        assert _statuses(opened, "192.0.2.1", "192.0.2.1", "192.0.2.1") == [200, 200, 429]
        assert _statuses(opened, "192.0.2.2", "192.0.2.2", "192.0.2.2") == [200, 200, 429]


@pytest.mark.usefixtures("few")
def test_what_a_client_writes_before_the_proxy_does_changes_nothing() -> None:
    with _address("127.0.0.1", proxies=["lab.example"]) as opened:
        forged = ("203.0.113.8, 192.0.2.1", "x, 192.0.2.1", "192.0.2.1")
        assert _statuses(opened, *forged) == [200, 200, 429]
        # What is no address stands for the proxy itself: all such requests are of one client.
        assert _statuses(opened, "unknown", "192.0.2.1:4711", None) == [200, 200, 429]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("client", "names"), [("192.0.2.1", ["lab.example"]), ("127.0.0.1", []), ("::1", [])]
)
def test_who_is_no_proxy_speaks_for_itself_alone(client: str, names: list[str]) -> None:
    with _address(client, proxies=names) as opened:
        assert _statuses(opened, "203.0.113.8", "203.0.113.9", "203.0.113.7") == [200, 200, 429]


@pytest.mark.usefixtures("few")
def test_addresses_that_one_machine_can_choose_from_are_one_client() -> None:
    with _address("127.0.0.1", proxies=["lab.example"]) as opened:
        network = ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::9")
        assert _statuses(opened, *network) == [200, 200, 429]
        assert _statuses(opened, "2001:db8:1:3::1") == [200]
        assert _statuses(opened, "192.0.2.5", "::ffff:192.0.2.5", "192.0.2.5") == [200, 200, 429]
        assert _statuses(opened, "127.0.0.7", None, "::1") == [200, 200, 429]


@pytest.mark.usefixtures("few")
def test_messages_count_as_requests() -> None:
    with _address("192.0.2.1") as opened:
        with opened.websocket_connect("/api/v1/live", headers=OWN) as socket:
            for _ in range(3):  # the connection was a request, too
                socket.send_json({"id": 1, "do": "stop"})
            assert socket.receive_json() == {"id": 1, "done": True}
        assert _statuses(opened, None) == [429]


@pytest.mark.usefixtures("search_threads")
def test_names_of_pages_do_not_add_to_what_an_address_may_do(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerolab.web.searches.MAX_PER_ADDRESS", 0)
    asked = {"position": POSITION, "agent": "random"}
    with new_page() as opened:
        for page in ("a", "b"):
            answer = opened.post("/api/v1/move", json=asked, headers={"x-page": page})
            assert answer.status_code == 503
            assert "0 searches" in answer.json()["error"]


@pytest.mark.parametrize(
    ("host", "names", "status"),
    [("127.0.0.1", ["lab.example"], 401), ("0.0.0.0", [], 401), ("127.0.0.1", [], 200)],
)
def test_a_server_that_others_can_reach_wants_its_token(
    here: Path, monkeypatch: pytest.MonkeyPatch, host: str, names: list[str], status: int
) -> None:
    running: list[uvicorn.Server] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: running.append(server))
    server.serve(Laboratory(Folders(), workers=0), host, 0, names, lambda *_: None)
    app = running[0].config.app
    with TestClient(app, base_url=f"http://{names[0] if names else '127.0.0.1'}") as opened:
        assert opened.get("/api/v1/server").status_code == status
        bearer = {"authorization": f"Bearer {_token()}"}
        assert opened.get("/api/v1/server", headers=bearer).status_code == 200
    assert not running[0].config.proxy_headers  # uvicorn would trust them


def test_text_of_a_client_that_is_not_utf_8_leaves_no_traceback_in_the_log(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    server.serve(Laboratory(Folders(), workers=0), "127.0.0.1", 0, [], lambda *_: None)
    log = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(log, "propagate", True)
    log.addHandler(caplog.handler)
    for wrong in (b"\xff".decode, lambda: int("one")):
        try:
            wrong()
        except ValueError:
            log.exception("refused")
    log.removeHandler(caplog.handler)
    of_client, own = caplog.text.split("refused")[1:3]
    assert "Traceback" not in of_client
    assert "Traceback" in own


def _token() -> str:
    path = Folders().server / "token"
    return path.read_text() if path.exists() else ""


def test_a_client_has_a_limited_number_of_websockets(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_MAX_SOCKETS", 2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(client.websocket_connect("/api/v1/live", headers=OWN))
        with pytest.raises(WebSocketDisconnect):
            stack.enter_context(client.websocket_connect("/api/v1/live", headers=OWN))
    with client.websocket_connect("/api/v1/live", headers=OWN) as again:
        again.send_json({"id": 1, "do": "stop"})
        assert again.receive_json() == {"id": 1, "done": True}
