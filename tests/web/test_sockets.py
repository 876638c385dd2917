"""Websockets with clients that do not read, or that send invalid messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketState

from zerolab.web import requests
from zerolab.web.requests import JsonWebSocket


class Unread:
    """A connection that blocks every send."""

    application_state = WebSocketState.CONNECTED

    def __init__(self) -> None:
        self.closed_with: list[int] = []

    async def send_text(self, text: str) -> None:
        await asyncio.Event().wait()

    async def close(self, code: int) -> None:
        self.closed_with.append(code)
        self.application_state = WebSocketState.DISCONNECTED


def test_unread_websocket_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_SEND_SECONDS", 0.01)
    unread: Any = Unread()

    async def send_three() -> None:
        socket = JsonWebSocket(unread)
        await asyncio.gather(*(socket.send({"id": number}) for number in range(3)))

    asyncio.run(asyncio.wait_for(send_three(), 20))
    assert unread.closed_with == [1013]


@pytest.mark.parametrize("path", ["judge", "analysis/live"])
@pytest.mark.parametrize(
    ("message", "number"),
    [({"id": 5, "do": "x"}, 5), ({"id": 6, "do": "stop", "x": 1}, 6), ({"id": 0}, 0),
     ({"id": -1, "do": "stop"}, 0), ({"id": "5", "do": "x"}, 0), ({"do": "stop"}, 0), ([], 0)],
)  # fmt: skip
def test_response_to_an_invalid_message_has_its_number(
    client: TestClient, path: str, message: object, number: int
) -> None:
    with client.websocket_connect(f"ws://localhost/api/v1/{path}") as socket:
        socket.send_json(message)
        response = socket.receive_json()
    assert len(response.pop("error").splitlines()) == 1
    assert response == {"id": number, "done": True}
