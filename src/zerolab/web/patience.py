"""Connections that are opened and then say too little: they must end, since there is a limit."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""For the head of a request to arrive."""


class ImpatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, which closes connections whose requests do not arrive in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in part of a request; wait for the rest of its head, or no more."""
        super().data_received(data)
        if self._is_between_requests:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_between_requests(self) -> bool:
        is_own = self.transport.get_protocol() is self  # a websocket has one of its own
        return is_own and (self.cycle is None or self.cycle.response_complete)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_between_requests:
            self.transport.close()
