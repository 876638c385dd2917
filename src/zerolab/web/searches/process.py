"""A process that searches: it does the steps of whatever it is asked for, one at a time.

Threads would share the interpreter lock with the one that serves pages, which would then be
without it most of the time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from zerolab.core.errors import UserError
from zerolab.web.clients import Client
from zerolab.web.errors import BusyError
from zerolab.web.searches.live import LiveSearch, Wanted
from zerolab.web.searches.players import Players
from zerolab.web.searches.steps import StepQueue, Told

SIGN_OF_LIFE = 0
"""The number under which nothing is told but that the process goes on."""
_SIGN_SECONDS = 1.0
_MOST_KEPT = 64
"""Searches that are over and whose trees can still be looked at."""
_MOST_BYTES = 2 << 30
"""Of all searches of a process: their trees, and the evaluations that they keep."""


class Begin(NamedTuple):
    """Search for a client."""

    number: int
    client: Client
    wanted: Wanted
    can_wait: bool
    """Whether others go first; see `StepQueue.add`."""


class Look(NamedTuple):
    """Tell of a node in the tree of a search, under another number."""

    number: int
    search: int
    path: tuple[str, ...]


class Drop(NamedTuple):
    """Forget a search."""

    number: int


def serve_searches(connection: Connection) -> None:
    """Do what messages ask for until the connection ends."""
    import torch

    torch.set_num_threads(1)  # the other cores are for the other processes (docs/decisions/0005)
    searcher = _Searcher(connection.send)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            while connection.poll(0 if searcher.is_busy else None):
                searcher.take(connection.recv())
            searcher.step()


class _Searcher:
    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._queue = StepQueue()
        self._players = Players()
        self._spoke = time.monotonic()
        self._searches: OrderedDict[int, LiveSearch] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether there is a step to do."""
        return len(self._queue) > 0

    def take(self, message: Begin | Look | Drop) -> None:
        """Do what a message asks for, or begin to."""
        if isinstance(message, Begin):
            search = LiveSearch(message.wanted)
            self._searches[message.number] = search
            steps = search.grow(self._players, self._require_memory)
            self._queue.add(message.number, message.client, steps, can_wait=message.can_wait)
            if len(self._searches) > _MOST_KEPT + len(self._queue):
                self._forget_oldest()
        elif isinstance(message, Look):
            self._look(message)
        else:
            self._queue.remove(message.number)
            self._searches.pop(message.number, None)

    def _forget_oldest(self) -> bool:
        """Forget the tree of the oldest search that is over; return whether there was one."""
        number = next((each for each in self._searches if each not in self._queue), None)
        return number is not None and self._searches.pop(number) is not None

    def _require_memory(self, more: int) -> None:
        """Make room for a search; raise BusyError where searches under way need all there is."""
        while self._bytes() + more > _MOST_BYTES:
            if not self._forget_oldest():
                raise BusyError("searches under way need all memory: try again in a moment")

    def _bytes(self) -> int:
        return sum(each.bytes for each in self._searches.values())

    def _look(self, message: Look) -> None:
        search = self._searches.get(message.search)
        try:
            if search is None:
                raise UserError("this search is not kept any more: analyse the position again")
            self._tell(Told(message.number, search.node(message.path), is_done=True))
        except UserError as error:
            self._tell(Told(message.number, error=error, is_done=True))

    def step(self) -> None:
        """Do a step, if there is one to do, and tell what has come of it."""
        if not self.is_busy:
            return
        told = self._queue.step()
        now = time.monotonic()
        if told is None and now - self._spoke >= _SIGN_SECONDS:
            told = Told(SIGN_OF_LIFE)
        if told is not None:
            self._spoke = now
        if told is not None:
            self._tell(told if told.error is None else told._replace(error=_plain(told.error)))


def _plain(error: Exception) -> Exception:
    """Return an error that another process can read: its kind and its message."""
    kind: Any = type(error) if isinstance(error, UserError) else RuntimeError
    return kind(str(error)) if kind is not RuntimeError else RuntimeError(repr(error))
