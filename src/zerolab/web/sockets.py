"""Websockets that speak JSON: bounded messages, readers that do not read, mistakes in one line."""

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
from zerolab.web.positions import RequestModel

_MOST_MESSAGE = 1 << 16
_SEND_SECONDS = 10.0
"""A reader that has not taken a message after that time is left."""
_MOST_AT_ONCE = 100
_MOST_PER_SECOND = 20.0
_TRY_AGAIN = 1013
_TOO_BIG = 1009


class SocketRequest(RequestModel):
    """What a page sends; the answers bear its number."""

    id: int = Field(ge=0, lt=1 << 53)


def first_mistake(error: ValidationError) -> str:
    """Return one line on the first mistake of a message."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the message"
    return f"{place}: {one_line(first['msg'])}"


class _Allowance:
    """How many messages may come: so many at once, and so many per second."""

    def __init__(self) -> None:
        self._left = float(_MOST_AT_ONCE)
        self._then = time.monotonic()

    def wait(self) -> float:
        """Use up one message; return for how many seconds there are no more."""
        now = time.monotonic()
        self._left = min(_MOST_AT_ONCE, self._left + _MOST_PER_SECOND * (now - self._then)) - 1
        self._then = now
        return max(0.0, -self._left / _MOST_PER_SECOND)


class Socket:
    """One connection; several tasks may send."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()

    async def accept(self) -> None:
        """Open the connection."""
        await self._websocket.accept()

    async def send(self, message: dict[str, Any] | BaseModel) -> None:
        """Send a message; close the connection where it is not read in time."""
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
        """Yield the JSON values that arrive until the connection ends; None for what is none.

        Who sends too many has to wait, and everybody else has a turn between two of them.
        """
        allowance = _Allowance()
        while True:
            await asyncio.sleep(allowance.wait())
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes instead of text
                return
            if len(text) > _MOST_MESSAGE:
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
