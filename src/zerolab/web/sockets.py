"""JSON websockets with limits on message size, message rate and slow readers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from zerolab.core.errors import one_line
from zerolab.web.requests import RequestModel

_MAX_MESSAGE = 1 << 16  # characters
_SEND_SECONDS = 10.0
"""Time limit for a client to read a message before its connection is closed."""
_BURST = 100
_MESSAGES_PER_SECOND = 20.0
_TRY_AGAIN = 1013  # websocket status codes
_TOO_BIG = 1009


class SocketRequest(RequestModel):
    """Base class of messages from a page; the responses have the same `id`."""

    id: int = Field(ge=0, lt=1 << 53)


class StopRequest(SocketRequest):
    """Request to cancel everything that the page has requested over the websocket."""

    do: Literal["stop"]


def first_validation_error(error: ValidationError) -> str:
    """Return one line that describes the first invalid field of a message."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or "the message"
    return f"{field}: {one_line(first['msg'])}"


class _TokenBucket:
    """Token bucket that limits the messages of a connection, refilled at a constant rate."""

    def __init__(self) -> None:
        self._tokens = float(_BURST)
        self._updated = time.monotonic()

    def take(self) -> float:
        """Take a token for one message; return the seconds to wait until it is available."""
        now = time.monotonic()
        refilled = self._tokens + _MESSAGES_PER_SECOND * (now - self._updated)
        self._tokens = min(_BURST, refilled) - 1
        self._updated = now
        return max(0.0, -self._tokens / _MESSAGES_PER_SECOND)


class JsonWebSocket:
    """Websocket with JSON messages, which several asyncio tasks can send."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()

    async def accept(self) -> None:
        """Open the connection."""
        await self._websocket.accept()

    async def send(self, message: dict[str, Any] | BaseModel) -> None:
        """Send a message; close the connection if the client does not read it in time."""
        data = message.model_dump(mode="json") if isinstance(message, BaseModel) else message
        text = json.dumps(data, allow_nan=False)
        async with self._sending:
            if self._websocket.application_state is not WebSocketState.CONNECTED:
                return
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await self._websocket.send_text(text)
            except (WebSocketDisconnect, RuntimeError):
                return
            except TimeoutError:
                await self._close(_TRY_AGAIN)

    async def messages(self) -> AsyncIterator[Any]:
        """Yield incoming JSON values, or None for invalid JSON, until the connection closes.

        Clients that send too fast are slowed down. Other tasks run between messages.
        """
        bucket = _TokenBucket()
        while True:
            await asyncio.sleep(bucket.take())
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes instead of text
                return
            if len(text) > _MAX_MESSAGE:
                await self._close(_TOO_BIG)
                return
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                yield None

    async def _close(self, code: int) -> None:
        with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(1):
                await self._websocket.close(code)
