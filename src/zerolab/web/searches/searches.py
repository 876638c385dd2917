"""The searches under way, as those who serve pages see them."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from zerolab.agents.analysis import Analysis
from zerolab.web.errors import BusyError
from zerolab.web.searches.live import Node, Wanted
from zerolab.web.searches.process import Begin, Drop, Look, serve_searches
from zerolab.web.searches.steps import Told

MOST_OF_CLIENT = 16
MOST = 400
"""Searches that are under way at once."""
_CLOSE_SECONDS = 2.0
_SILENT_SECONDS = 60.0
"""After which a process that has something to do is given up; compiling takes long, too."""
_LOOK_SECONDS = 5.0


class Searches:
    """Processes that search for clients, and what they tell."""

    def __init__(self, workers: int) -> None:
        """Use `workers` processes, which `start` starts."""
        self._processes = [_Process() for _ in range(workers)]
        self._numbers = itertools.count(1)
        self._watching: asyncio.Task[None] | None = None
        self._clients: Counter[str] = Counter()

    def start(self) -> None:
        """Start the processes, so that the first search does not wait for them."""
        for process in self._processes:
            process.start()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """End processes that have been at one step for too long."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for process in self._processes:
                process.end_if_silent()

    def close(self) -> None:
        """End the processes."""
        if self._watching is not None:
            self._watching.cancel()
        for process in self._processes:
            process.close()

    @property
    def under_way(self) -> int:
        """How many searches there are of all clients."""
        return self._clients.total()

    def begin(self, client: str, wanted: Wanted, *, can_wait: bool = False) -> Search:
        """Begin a search for a client; raise BusyError where there are too many under way.

        One that can wait lets others go first.
        """
        if self._clients[client] >= MOST_OF_CLIENT:
            raise BusyError(f"{MOST_OF_CLIENT} searches are under way here: expected fewer at once")
        if self.under_way >= MOST:
            raise BusyError("the server is busy with searches: try again in a moment")
        process = min(self._processes, key=lambda each: each.load)
        return self._begin_in(process, client, wanted, can_wait)

    def _begin_in(self, process: _Process, client: str, wanted: Wanted, can_wait: bool) -> Search:
        search = Search(process, next(self._numbers), self._numbers, self._clients, client)
        process.send(Begin(search.number, client, wanted, can_wait))
        return search

    async def warm_up(self, wanted: Wanted) -> None:
        """Search once in every process, so that the next search finds all loaded and compiled.

        Raises what the search raises.
        """
        begun = [self._begin_in(each, "", wanted, can_wait=True) for each in self._processes]
        await asyncio.gather(*(_last(each) for each in begun))

    async def last(self, client: str, wanted: Wanted, *, can_wait: bool = False) -> Analysis:
        """Search to the end, and return what was found; see `begin`."""
        return await _last(self.begin(client, wanted, can_wait=can_wait))


class Search:
    """One search under way; it is dropped when it is left as a context, or by `drop`."""

    def __init__(
        self,
        process: _Process,
        number: int,
        numbers: itertools.count[int],
        clients: Counter[str],
        client: str,
    ) -> None:
        self.number = number
        self._numbers = numbers
        self._process = process
        self._clients = clients
        self._client = client
        self._told = process.listen(number)
        self._is_running = True
        clients[client] += 1

    async def __aenter__(self) -> Search:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    async def results(self) -> AsyncIterator[Analysis]:
        """Yield what has been found so far, again and again; who is slow sees the latest alone."""
        while True:
            told = await self._told.next()
            if told.is_done:
                self._ended()
            if told.error is not None:
                raise told.error
            if told.result is not None:
                yield told.result
            if told.is_done:
                return

    async def look(self, path: Sequence[str]) -> Node:
        """Return a node of its tree; see `LiveSearch.node`."""
        number = next(self._numbers)
        told = self._process.listen(number)
        try:
            self._process.send(Look(number, self.number, tuple(path)))
            answer = await told.next()
        finally:
            self._process.forget(number)
        if answer.error is not None:
            raise answer.error
        node: Node = answer.result
        return node

    def drop(self) -> None:
        """End it, and forget its tree."""
        self._ended()
        self._process.forget(self.number)
        self._process.send(Drop(self.number))

    def _ended(self) -> None:
        if self._is_running:
            self._is_running = False
            self._clients[self._client] -= 1
            if not self._clients[self._client]:
                del self._clients[self._client]


async def _last(search: Search) -> Analysis:
    """Return what was found by the end of a search, and leave it."""
    async with search:
        async for found in search.results():
            latest = found
    return latest


class _Telling:
    """The latest of what is told under a number."""

    def __init__(self) -> None:
        self.is_awaited = False
        """Whether somebody is waiting for what is told next."""
        self._latest: Told | None = None
        self._changed = asyncio.Event()

    def put(self, told: Told) -> None:
        if told.is_done and told.result is None and self._latest is not None and not told.error:
            told = told._replace(result=self._latest.result)
        self._latest = told
        self._changed.set()

    async def next(self) -> Told:
        self.is_awaited = True
        try:
            await self._changed.wait()
        finally:
            self.is_awaited = False
        self._changed.clear()
        told, self._latest = self._latest, None
        assert told is not None
        return told


class _Process:
    """A process that searches, started when it is needed, and again if it has died."""

    def __init__(self) -> None:
        self._listeners: dict[int, _Telling] = {}
        self._process: Any = None
        self._connection: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard = time.monotonic()

    @property
    def load(self) -> int:
        """How many numbers somebody listens to."""
        return len(self._listeners)

    def start(self) -> None:
        """Start it, unless it is running; called by the thread of the event loop."""
        if self._process is not None and self._process.is_alive():
            return
        self._loop = asyncio.get_running_loop()
        self._listeners = {}  # those of a process that has died are told so by its own thread
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve_searches, args=(other,), daemon=True)
        self._process.start()
        other.close()
        arguments = self._connection, self._listeners
        threading.Thread(target=self._listen, args=arguments, daemon=True).start()

    def end_if_silent(self) -> None:
        """End it if it has something to do and has told nothing for long; who waits is told."""
        is_silent = time.monotonic() - self._heard >= _SILENT_SECONDS
        if (
            self._process is not None
            and is_silent
            and any(listener.is_awaited for listener in self._listeners.values())
        ):
            self._process.kill()

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._connection.close()
            self._process.terminate()
            self._process.join(_CLOSE_SECONDS)
            self._process = None

    def listen(self, number: int) -> _Telling:
        """Start it if need be, and return where to wait for what is told under a number."""
        self.start()
        self._listeners[number] = _Telling()
        return self._listeners[number]

    def forget(self, number: int) -> None:
        """Listen to a number no more."""
        self._listeners.pop(number, None)

    def send(self, message: Begin | Look | Drop) -> None:
        """Send a message; what has died meanwhile is told to be lost."""
        if not any(listener.is_awaited for listener in self._listeners.values()):
            self._heard = time.monotonic()
        try:
            self._connection.send(message)
        except OSError:
            _lost(self._listeners)

    def _listen(self, connection: Any, listeners: dict[int, _Telling]) -> None:
        """Pass on what the process tells; runs in a thread of its own."""
        assert self._loop is not None
        while True:
            try:
                told = connection.recv()
            except (EOFError, OSError):
                break
            self._heard = time.monotonic()
            self._call(_put, listeners, told)
        self._call(self._ended, connection, listeners)

    def _ended(self, connection: Any, listeners: dict[int, _Telling]) -> None:
        """Give up a process whose connection has ended: it may take a moment to die."""
        if self._process is not None and self._connection is connection:
            self._process.kill()
            self._process = None
        _lost(listeners)

    def _call(self, function: Any, *arguments: Any) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


def _put(listeners: dict[int, _Telling], told: Told) -> None:
    if told.number in listeners:
        listeners[told.number].put(told)


def _lost(listeners: dict[int, _Telling]) -> None:
    """Tell all who wait that their process has died, such as for want of memory."""
    for number, listener in listeners.items():
        reason = BusyError("the search has ended too early: try again")
        listener.put(Told(number, error=reason, is_done=True))
