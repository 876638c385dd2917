"""Refused requests: foreign hosts and sites, paths outside the folders, programs, bad data."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from zerolab.web import server
from zerolab.web.folders import Folders, folder_secret
from zerolab.web.laboratory import Laboratory
from zerolab.web.security import MAX_BODY_BYTES
from zerolab.web.server import make_app

POSITION = {"game": "connect_four:4x4:3"}
OWN = {"host": "localhost"}


@pytest.fixture
def guarded(here: Path) -> Iterator[TestClient]:
    """A client without the token of a server on a network."""
    app = make_app(Laboratory(Folders(), workers=0), hosts=["lab.example"], token="secret-token")
    with TestClient(app, base_url="http://lab.example") as client:
        yield client


@pytest.mark.parametrize("host", ["evil.example", "", "localhost.evil.example", "[::1", "a b"])
def test_foreign_host_names_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/games", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
def test_own_host_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/server", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "file://", "http://["]
)
def test_changes_from_other_sites_are_refused(client: TestClient, origin: str) -> None:
    response = client.post("/api/v1/position", json=POSITION, headers={"origin": origin})
    assert response.status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(
            "/api/v1/analysis/live", headers={"origin": origin, "host": "localhost"}
        ),
    ):
        pass


def test_errors_are_pages_for_browsers_and_json_for_programs(client: TestClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, status in (("/<b>", 404), ("/reports/no/such.html", 404), ("/nope", 404)):
        page = client.get(path, headers=browser)
        assert (page.status_code, page.headers["content-type"][:9]) == (status, "text/html")
        assert "<b>" not in page.text
        assert 'href="/play"' in page.text
        program = client.get(path)
        assert program.status_code == status
        assert len(program.json()["error"].splitlines()) == 1
    assert "error" in client.get("/api/v1/nope", headers=browser).json()


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/", "GET, HEAD"), ("/play", "GET, HEAD"), ("/reports/findings", "GET, HEAD"),
     ("/static/style.css", "GET, HEAD"), ("/api/v1/runs", "GET"), ("/api/v1/move", "POST")],
)  # fmt: skip
def test_refused_methods_get_the_allowed_ones(client: TestClient, path: str, methods: str) -> None:
    response = client.put(path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == set(methods.split(", "))
    assert response.json() == {"error": "Method Not Allowed"}


@pytest.mark.parametrize("path", ["/", "/play", "/static/style.css", "/static/colours.css"])
def test_head_gets_the_headers_of_a_page(client: TestClient, path: str) -> None:
    head, page = client.head(path), client.get(path)
    assert (head.status_code, head.text) == (200, "")
    assert head.headers == page.headers


def test_same_origin_requests_are_served(client: TestClient) -> None:
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/position", json=POSITION, headers=own).status_code == 200
    cross_site = client.get("/api/v1/games", headers={"sec-fetch-site": "cross-site"})
    assert cross_site.status_code == 403


def test_missing_token_is_refused(guarded: TestClient) -> None:
    for path in ("/", "/play", "/static/style.css", "/api/v1/games", "/api/v1/openapi.json"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/?token=wrong").status_code == 401
    assert guarded.get("/", headers={"cookie": "zerolab-token=wrong"}).status_code == 401
    with pytest.raises(WebSocketDisconnect), guarded.websocket_connect("/api/v1/analysis/live"):
        pass


def test_token_in_address_sets_cookie(guarded: TestClient) -> None:
    response = guarded.get("/play?token=secret-token&a=1", follow_redirects=False)
    assert response.status_code == 303
    assert response.headers["location"] == "/play?a=1"
    redirected = guarded.get(
        "http://lab.example//evil.example/?token=secret-token", follow_redirects=False
    )
    assert redirected.headers["location"].startswith("/evil.example")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert guarded.get("/api/v1/games").status_code == 200
    bearer = {"authorization": "Bearer secret-token"}
    guarded.cookies.clear()
    assert guarded.get("/api/v1/games", headers=bearer).status_code == 200


def test_servers_on_two_ports_of_a_host_keep_their_tokens(guarded: TestClient) -> None:
    other = make_app(Laboratory(Folders(), workers=0), hosts=["lab.example"], token="other-token")
    for port, app, token in ((8765, guarded.app, "secret-token"), (8766, other, "other-token")):
        client = TestClient(app, base_url=f"http://lab.example:{port}", cookies=guarded.cookies)
        client.get(f"/?token={token}", follow_redirects=False)
        guarded.cookies.update(client.cookies)
    for port, app in ((8765, guarded.app), (8766, other)):
        client = TestClient(app, base_url=f"http://lab.example:{port}", cookies=guarded.cookies)
        assert client.get("/api/v1/games").status_code == 200


@pytest.mark.parametrize("cookie", ['prefs={"a": 1}', "a b=1", "x=café", "lone", "=", "a=b=c"])
def test_cookies_of_other_servers_on_the_host_are_ignored(guarded: TestClient, cookie: str) -> None:
    for header in (f"{cookie}; zerolab-token=secret-token", f"zerolab-token=secret-token;{cookie}"):
        response = guarded.get("/api/v1/games", headers={"cookie": header.encode()})
        assert response.status_code == 200


def test_wildcard_serves_ip_addresses_but_no_foreign_names(here: Path) -> None:
    app = make_app(Laboratory(Folders(), workers=0), hosts=["*", "lab.example"])
    with TestClient(app, base_url="http://192.0.2.7:8765") as client:
        for host in ("192.0.2.7:8765", "[2001:db8::1]", "lab.example"):
            assert client.get("/api/v1/server", headers={"host": host}).status_code == 200
        for host in ("evil.example", "*", "192.0.2.7.evil.example"):
            assert client.get("/api/v1/server", headers={"host": host}).status_code == 421


def test_origin_can_be_name_of_proxy(here: Path) -> None:
    app = make_app(
        Laboratory(Folders(), workers=0), ["127.0.0.1", "own.example"], proxies=["lab.example"]
    )
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        sites = ("https://lab.example", "https://evil.example", "http://own.example:9")
        for origin, status in zip(sites, (200, 403, 403), strict=True):
            response = client.post("/api/v1/position", json=POSITION, headers={"origin": origin})
            assert response.status_code == status


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"],
)
def test_proxied_requests_need_token(client: TestClient, guarded: TestClient, header: str) -> None:
    """A proxy can send this machine's name as the host on behalf of any client."""
    forwarded = {"host": "127.0.0.1:8765", header: "192.0.2.1"}
    responses = (
        client.get("/api/v1/server", headers=forwarded),
        client.post("/api/v1/position", json=POSITION, headers=forwarded),
    )
    for response in responses:
        assert response.status_code == 403
        assert "zerolab serve --names NAME" in response.json()["error"]
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/api/v1/analysis/live", headers=forwarded),
    ):
        pass
    authorized = {"authorization": "Bearer secret-token", header: "192.0.2.1"}
    assert guarded.get("/api/v1/server", headers=authorized).status_code == 200


def test_security_policy_forbids_external_content(client: TestClient) -> None:
    for path in ("/", "/analyse", "/static/lib/api.js", "/api/v1/games", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_static_files_have_no_external_addresses(client: TestClient) -> None:
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
def test_files_outside_static_folder_are_not_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404)


@pytest.mark.parametrize(
    "agent",
    [
        'gtp:"touch /tmp/harm"', "gtp:ls", "/etc", "../other", "runs/../../elsewhere",
        "run:/etc/passwd", "run:../x", "/root@3", "~/runs/demo", "runs/tiny/../../../x?seed=4",
    ],
)  # fmt: skip
def test_programs_and_agents_outside_folders_are_refused(client: TestClient, agent: str) -> None:
    for path in ("/api/v1/move", "/api/v1/analysis"):
        response = client.post(path, json={"position": POSITION, "agent": agent})
        assert response.status_code in (400, 403), agent
    assert not Path("/tmp/harm").exists()


def test_links_out_of_the_folder_are_not_followed(
    client: TestClient, here: Path, tmp_path: Path
) -> None:
    link = here / "runs" / "link"
    link.symlink_to(tmp_path)
    try:
        for agent in ("runs/link", "runs/link@0", "run:runs/link@0", "runs/link?simulations=4"):
            response = client.post("/api/v1/move", json={"position": POSITION, "agent": agent})
            assert response.status_code == 403
            assert "is not served" in response.json()["error"]
        response = client.get("/api/v1/agents/file", params={"network": "runs/link@0"})
        assert response.status_code == 403
    finally:
        link.unlink()


def test_networks_in_the_working_directory_are_not_served(
    client: TestClient, here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Relative paths without a folder, with and without an iteration or a digest."""
    shutil.copytree(here / "runs" / "tiny", tmp_path / "hidden")
    (tmp_path / "hidden.zerolab").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for agent in ("hidden", "hidden@0", "hidden@0?seed=4", "hidden.zerolab", "hidden.zerolab@5"):
        request = {"agent": agent, "game": "gobang:3x3:3"}
        assert client.post("/api/v1/agent", json=request).status_code == 403, agent


def test_names_too_long_for_files_are_refused(client: TestClient) -> None:
    long = "b" * 300
    responses = [
        client.get("/api/v1/tournaments/one", params={"tournament": f"tournaments/{long}"}),
        client.get("/api/v1/runs/one", params={"run": f"runs/{long}"}),
        client.post("/api/v1/agent", json={"agent": long, "game": "gobang:3x3:3"}),
        client.post("/api/v1/agent", json={"agent": f"runs/{long}@1", "game": "gobang:3x3:3"}),
    ]
    for response in responses:
        assert response.status_code in (400, 404), response.text
        assert set(response.json()) == {"error"}


def test_large_bodies_are_refused(client: TestClient) -> None:
    response = client.post("/api/v1/position", content=b"x" * (MAX_BODY_BYTES + 1))
    assert response.status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1024 + 2):
            yield b" " * 1024

    response = client.post("/api/v1/position", content=chunks())  # without content-length
    assert response.status_code >= 400
    for length in ("-1", "1e9", "99999999999999"):
        response = client.post("/api/v1/position", headers={"content-length": length}, content=b"")
        assert response.status_code == 413


def test_malformed_requests_get_error_responses(client: TestClient) -> None:
    rng = random.Random(7)
    paths = ["position", "line", "opening", "move", "agent", "analysis", "solution"]
    pieces = [
        None, True, 0, -1, 1e308, "", "x" * 300, "othello:6x6", "a1", [], {}, [[]], {"game": {}},
        {"game": "gobang:3x3:3", "moves": [7, None]}, "\ud800".encode("utf-8", "replace").decode(),
        {"position": {"game": "othello:99x99"}, "agent": "random"}, {"plies": 10**30},
    ]  # fmt: skip
    for _ in range(200):
        path = f"/api/v1/{rng.choice(paths)}"
        if rng.random() < 0.3:
            response = client.post(path, content=rng.randbytes(rng.randrange(60)))
        else:
            keys = ["game", "moves", "position", "agent", "starting_board", "seconds", "plies", "x"]
            body = {key: rng.choice(pieces) for key in rng.sample(keys, 3)}
            response = client.post(path, json=rng.choice([body, *pieces]))
        assert 400 <= response.status_code < 500, (path, response.text)
        assert set(response.json()) == {"error"}


def test_token_is_not_in_the_served_folder(tmp_path: Path, state_folder: Path) -> None:
    token = folder_secret(tmp_path / ".server")
    assert token == folder_secret(tmp_path / ".server") != folder_secret(tmp_path / "other")
    assert not list(tmp_path.iterdir())
    files = [path for path in state_folder.rglob("*") if path.is_file()]
    assert token in [path.read_text() for path in files]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize(
    ("host", "names", "status"),
    [
        ("127.0.0.1", ["lab.example"], 401),
        ("0.0.0.0", [], 401),
        ("0", [], 401),
        ("127.0.0.1", [], 200),
        ("127.1", [], 200),
    ],
)
def test_server_on_network_requires_token(
    here: Path, monkeypatch: pytest.MonkeyPatch, host: str, names: list[str], status: int
) -> None:
    running: list[uvicorn.Server] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: running.append(server))
    server.serve(Laboratory(Folders(), workers=0), host, 0, names, lambda *_: None)
    app = running[0].config.app
    with TestClient(app, base_url=f"http://{names[0] if names else '127.0.0.1'}") as client:
        assert client.get("/api/v1/server").status_code == status
        bearer = {"authorization": f"Bearer {_token()}"}
        assert client.get("/api/v1/server", headers=bearer).status_code == 200
    assert not running[0].config.proxy_headers  # uvicorn would trust them


def test_invalid_utf8_of_client_logs_no_traceback(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    server.serve(Laboratory(Folders(), workers=0), "127.0.0.1", 0, [], lambda *_: None)
    log = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(log, "propagate", True)
    log.addHandler(caplog.handler)
    for failing_call in (b"\xff".decode, lambda: int("one")):
        try:
            failing_call()
        except ValueError:
            log.exception("refused")
    log.removeHandler(caplog.handler)
    client_log, server_log = caplog.text.split("refused")[1:3]
    assert "Traceback" not in client_log
    assert "Traceback" in server_log


def _token() -> str:
    return folder_secret(Folders().server_folder)
