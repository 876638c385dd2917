"""Websockets with JSON messages: bounded messages, a pace limit, and readers that do not read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from zerolab.core.errors import one_line
from zerolab.web.requests import RequestModel

_MAX_MESSAGE = 1 << 16  # characters
_SEND_SECONDS = 10.0
"""Time after which a connection is closed whose client has not read a message."""
_BURST = 100
_MESSAGES_PER_SECOND = 20.0
_TRY_AGAIN = 1013  # status codes of closed websockets
_TOO_BIG = 1009


class SocketRequest(RequestModel):
    """Base of messages from a page; responses carry the same `id`."""

    id: int = Field(ge=0, lt=1 << 53)


def first_mistake(error: ValidationError) -> str:
    """Return one line with the first mistake in a message."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the message"
    return f"{place}: {one_line(first['msg'])}"


class _Allowance:
    """A token bucket of messages: a burst, refilled at a constant rate."""

    def __init__(self) -> None:
        self._left = float(_BURST)
        self._then = time.monotonic()

    def take(self) -> float:
        """Take the token of one message; return the seconds to wait for it."""
        now = time.monotonic()
        self._left = min(_BURST, self._left + _MESSAGES_PER_SECOND * (now - self._then)) - 1
        self._then = now
        return max(0.0, -self._left / _MESSAGES_PER_SECOND)


class Socket:
    """One websocket, on which several tasks may send."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()

    async def accept(self) -> None:
        """Open the connection."""
        await self._websocket.accept()

    async def send(self, message: dict[str, Any] | BaseModel) -> None:
        """Send a message; close the connection if it is not read in time."""
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
        """Yield the JSON values that arrive until the connection ends; None for invalid JSON.

        A client that sends too fast is slowed down, and other tasks run between two messages.
        """
        allowance = _Allowance()
        while True:
            await asyncio.sleep(allowance.take())
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
