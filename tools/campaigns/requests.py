"""Malformed and random requests to a private server, which must keep responding."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from campaigns.laboratory import Attempt, Laboratory
from campaigns.processes import family, leftovers, memory
from campaigns.schema import Drawn
from campaigns.victims import VICTIMS, copy
from campaigns.watch import BYTES, SECONDS, Launcher, environment

_HERE = ("run", "dataset", "tournament", "study", "agent")
_SOCKETS = (
    "/api/v1/analysis/live",
    "/api/v1/judge",
    "/api/v1/runs/live?run=trained",
    "/api/v1/nothing",
)
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW")
_MAX_AT_ONCE = 4
_SECONDS_TO_ANSWER = 10.0
"""Seconds that an attempt waits for a response. Some valid requests take longer."""


class Requests:
    """Random requests to `zerolab serve`, without training because it outlives the server."""

    name = "requests"
    count = 500

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._server: Server | None = None

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Send a few simultaneous requests, and check that the server still responds."""
        if launcher is not None and self._server is not None and self._server.is_doubtful:
            self._server.close()  # repeat the attempt with a new server
            self._server = None
        if self._server is None:
            self._server = Server(self._laboratory)
        server = self._server
        kinds = [draw.choice(_KINDS)(server, draw) for _ in range(draw.randint(1, _MAX_AT_ONCE))]
        with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
            answers = list(pool.map(lambda each: each[1](), kinds))
        faults = [
            f"code: {answer} to {shown}"
            for (shown, _), answer in zip(kinds, answers, strict=True)
            if answer.startswith("5") and not answer.startswith("503")
        ]
        faults += server.faults()
        return Attempt(
            " | ".join(shown[:300] for shown, _ in kinds), faults, " | ".join(answers)[:500]
        )

    def close(self) -> list[str]:
        """End the server with SIGTERM; return the faults."""
        return [] if self._server is None else self._server.close()


class Server:
    """Server process with runs, games and studies."""

    def __init__(self, laboratory: Laboratory) -> None:
        place = laboratory.clear("server")
        for name in _HERE:
            copy(laboratory.victims.folder(VICTIMS[name]), place / "here")
        self._log = place / "log"
        self._seen = 0
        self._folder = place / "here"
        self._mark = f"{os.getpid()}:server"
        words = ["serve", ".", "--port", "0", "--tournaments", ".", "--workers", "2"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zerolab", *words], cwd=self._folder, text=True,
                stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                env=environment({}, self._mark),
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(line.rpartition(":")[2].strip("/ \n"))
        self.document = json.loads(self.ask("GET", "/api/v1/openapi.json", None, {}, SECONDS)[1])
        self.is_doubtful = False
        self._peak = 0
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            self._peak = max(self._peak, memory(family(self._process.pid)))
            time.sleep(0.2)

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float
    ) -> tuple[int, bytes]:  # fmt: skip
        """Send a request; return the status and content of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def faults(self) -> list[str]:
        """Return the faults of the server since the previous call."""
        faults = []
        try:
            began = time.monotonic()
            status = self.ask("GET", "/api/v1/server", None, {}, SECONDS)[0]
            if status != 200:
                faults.append(f"code: status {status} of /server")
            if time.monotonic() - began > SECONDS:
                faults.append("hang: no response in time")
        except (OSError, http.client.HTTPException) as error:
            faults.append(f"hang: {error!r} at GET /server")
        content = self._log.read_bytes()
        if b"Traceback" in content[self._seen :]:
            faults.append(f"traceback: {_last_line(content[self._seen :])}")
        self._seen = len(content)
        if self._peak > BYTES:
            faults.append(f"memory: {self._peak / 2**20:,.0f} MiB")
            self._peak = 0
        if self._process.poll() is not None:
            faults.append(f"code: the server ended with {self._process.returncode}")
        self.is_doubtful = bool(faults)
        return faults

    def close(self) -> list[str]:
        """Stop the server; return the faults."""
        faults = []
        self._process.terminate()
        try:
            code = self._process.wait(SECONDS)
            if code not in (0, 128 + signal.SIGTERM):
                faults.append(f"code: {code} after SIGTERM")
        except subprocess.TimeoutExpired:
            faults.append("hang: SIGTERM does not end the server")
            self._process.kill()
            self._process.wait()
        time.sleep(2)
        remaining = leftovers(self._process.pid, self._folder, f"ZEROLAB_CAMPAIGN={self._mark}")
        for line in remaining:
            with suppress(ProcessLookupError):
                os.kill(int(line.partition(" ")[0]), signal.SIGKILL)
        faults += [f"left: {line}" for line in remaining[:1]]
        content = self._log.read_bytes()[self._seen :]
        if b"Traceback" in content:
            faults.append(f"traceback: {_last_line(content)}")
        return faults


def _last_line(log: bytes) -> str:
    return log.decode(errors="replace").rstrip().rpartition("\n")[2][:300]


def _of_schema(server: Server, draw: random.Random) -> Any:
    """Return a random request to one of the routes."""
    routes = [
        (path, method, route)
        for path, methods in sorted(server.document["paths"].items())
        for method, route in sorted(methods.items())
    ]
    weights = [1 + 4 * ("parameters" in r) + 9 * ("requestBody" in r) for _, _, r in routes]
    path, method, route = draw.choices(routes, weights)[0]
    drawn = Drawn(server.document, draw)
    parameters = [
        (each["name"], drawn.value(each["schema"], each["name"]))
        for each in route.get("parameters", ())
        if draw.random() < (0.95 if each.get("required") else 0.4)
    ]
    pairs = [(name, "" if value is None else value) for name, value in parameters]
    query = urlencode(pairs, doseq=True)[:20_000]
    content = route.get("requestBody", {}).get("content", {}).get("application/json")
    body = json.dumps(drawn.value(content["schema"])).encode() if content else None
    if method == "post" and body is None:
        body = _file(server, draw)
    return _request(server, method.upper(), f"{path}?{query}" if query else path, body, {})


def _file(server: Server, draw: random.Random) -> bytes:
    """Return an agent file that may be damaged."""
    content = bytearray((server._folder / "agent.zerolab").read_bytes())
    for _ in range(draw.choice([0, 1, 10])):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content[: draw.choice([len(content), draw.randrange(len(content)), 8])])


def _of_pages(server: Server, draw: random.Random) -> Any:
    """Return a request for an existing or invalid page."""
    path = draw.choice(
        ["/", "/play", "/analyse", "/replay", "/runs", "/compare", "/static/", "/api", "/reports/",
         "/studies/table-5.1-smoke/", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/%00",
         "/static/..%2f..%2fserver.py", "/" + "x" * 9000,
         "/api/v1/" + quote("\x1b[2J"), "//", "/?" + "a&" * 5000]
    )  # fmt: skip
    return _request(server, draw.choice(_METHODS), path, None, {})


def _of_headers(server: Server, draw: random.Random) -> Any:
    """Return a request with misleading or malformed headers."""
    name, value = draw.choice(
        [("Host", "example.org"), ("Host", ""), ("Origin", "http://example.org"),
         ("Origin", "null"), ("Content-Type", "text/plain"), ("Content-Encoding", "gzip"),
         ("Cookie", "a=" * 3000), ("x-page", "x" * 5000), ("Range", "bytes=0-99999999999"),
         ("Accept", "*/*" * 1000), ("Transfer-Encoding", "chunked"),
         ("Upgrade", "websocket"), ("X-Forwarded-For", "::1")]
    )  # fmt: skip
    body = draw.choice(
        [b"", b"{", b"[" * 100_000, b'{"game":"gobang:3x3:3"}', b"\xff\xfe", b"x" * (1 << 19)]
    )
    return _request(server, "POST", "/api/v1/position", body, {name: value})


def _request(server: Server, method: str, path: str, body: bytes | None, headers: Any) -> Any:
    description = f"{method} {path[:200]} {headers or ''} {(body or b'')[:200]!r}"

    def send() -> str:
        try:
            status, answer = server.ask(method, path, body, headers, _SECONDS_TO_ANSWER)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return type(error).__name__
        return f"{status} {answer[:80]!r}"

    return description, send


def _of_sockets(server: Server, draw: random.Random) -> Any:
    """Return a conversation over a websocket with random messages."""
    path = draw.choice(_SOCKETS)
    messages = [_message(draw) for _ in range(draw.choice([0, 1, 3, 20, 90]))]
    first = messages[0][:200] if messages else ""
    description = f"WS {path} {len(messages)} messages, first {first!r}"
    leaves_at_once = draw.random() < 0.5
    return description, lambda: _converse(server.port, path, messages, leaves_at_once)


def _message(draw: random.Random) -> bytes:
    """Return a message, which is usually a valid kind of request."""
    if draw.random() < 0.15:
        return draw.choice([b"", b"{", b"null", b"[" * 50_000, b"\xff\xff", b"x" * 100_000, b"7"])
    moves = draw.choice([[], ["b2"], ["b2", "a1"], ["z9"], ["b2"] * 300, [1]])
    game = draw.choice(
        ["gobang:3x3:3", "othello:6x6", "connect_four:6x7", "gobang:15x15:5", "", "x"]
    )
    fields: dict[str, Any] = {
        "id": draw.choice([1, 2, 3, -1, 1 << 60, "x", None]),
        "do": draw.choice(["analyse", "node", "solve", "stop", "judge", "x"]),
        "position": {"game": game, "moves": moves},
        "agents": draw.choice([["trained"], ["mcts:50", "random"], [], ["x"], ["trained"] * 9]),
        "agent": draw.choice(["trained", "", "mcts:10", "nobody"]),
        "simulations": draw.choice([1, 50, 2000, 0, -1, 10**12]),
        "path": draw.choice([[], ["b2"], ["x"] * 65]),
        "seconds": draw.choice([0.1, 1, 0, -1, 1e300]),
    }
    own_fields = {
        "analyse": ("position", "agents", "simulations"), "node": ("agent", "path"),
        "solve": ("position", "seconds"), "judge": ("position", "agent", "seconds"),
    }.get(fields["do"], ())  # fmt: skip
    names = ["id", "do", *own_fields, *(["surplus"] if draw.random() < 0.05 else [])]
    return json.dumps({name: fields.get(name) for name in names}).encode()


def _converse(port: int, path: str, messages: list[bytes], leaves_at_once: bool) -> str:
    """Open a websocket, send messages, read responses for a second, and close it."""
    try:
        with socket.create_connection(("127.0.0.1", port), _SECONDS_TO_ANSWER) as stream:
            key = base64.b64encode(bytes(16)).decode()
            head = (
                f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket",
                "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
            )  # fmt: skip
            stream.sendall("\r\n".join([*head, "", ""]).encode())
            answer = stream.recv(4096).partition(b"\r\n")[0].decode(errors="replace")
            for message in messages:
                stream.sendall(_frame(message))
            if not leaves_at_once:
                stream.settimeout(1.0)
                with suppress(TimeoutError):
                    for _ in range(100):
                        if not stream.recv(65536):
                            break
            return answer.partition(" ")[2]
    except OSError as error:
        return type(error).__name__


def _frame(message: bytes) -> bytes:
    """Return a websocket frame with a text message, masked with zeros."""
    size = len(message)
    if size < 126:
        head = bytes([0x81, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x81, 0xFF]) + size.to_bytes(8, "big")
    return head + bytes(4) + message


_KINDS = (
    _of_schema,
    _of_schema,
    _of_schema,
    _of_schema,
    _of_pages,
    _of_headers,
    _of_sockets,
    _of_sockets,
)
