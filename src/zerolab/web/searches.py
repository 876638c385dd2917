"""The searches in progress, spread over search processes."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Sequence

from zerolab.agents.analysis import Analysis
from zerolab.web.clients import Client, UnderWay
from zerolab.web.errors import BusyError
from zerolab.web.live_search import Node, SearchRequest
from zerolab.web.search_process import Begin, Look
from zerolab.web.search_worker import Worker

MOST_OF_PAGE = 16
MOST_OF_ADDRESS = 100
MOST = 400
"""Searches, and looks at their trees, that are under way at once."""
_LOOK_SECONDS = 5.0


class Searches:
    """Processes that search for clients, and what they tell."""

    def __init__(self, workers: int) -> None:
        """Use `workers` processes, which `start` starts."""
        self._workers: list[Worker | None] = [None] * workers
        self._numbers = itertools.count(1)
        self._under_way = UnderWay("searches", MOST, MOST_OF_ADDRESS, MOST_OF_PAGE)
        self._closing = threading.Event()

    def start(self) -> None:
        """Start the processes, so that the first search does not wait for them."""
        self._running()
        threading.Thread(target=self._watch, daemon=True).start()

    def _running(self) -> list[Worker]:
        """Return the processes; new ones have taken the place of those that have ended."""
        running = [Worker() if each is None or each.is_over else each for each in self._workers]
        self._workers = [*running]
        return running

    def _watch(self) -> None:
        """End processes that have been at one step for too long."""
        while not self._closing.wait(_LOOK_SECONDS):
            for worker in self._workers:
                if worker is not None:
                    worker.end_if_silent()

    def close(self) -> None:
        """End the processes."""
        self._closing.set()
        workers = [each for each in self._workers if each is not None]
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.join()

    @property
    def under_way(self) -> int:
        """How many searches there are of all clients."""
        return self._under_way.total

    def begin(self, client: Client, wanted: SearchRequest, *, can_wait: bool = False) -> Search:
        """Begin a search for a client; raise BusyError where there are too many under way.

        One that can wait lets others go first.
        """
        free = [each for each in self._running() if each.has_room]
        if not free:
            raise BusyError("all processes that search are busy: try again in a moment")
        worker = min(free, key=lambda each: each.load)
        return self._begin_in(worker, client, wanted, can_wait)

    def _begin_in(
        self, worker: Worker, client: Client, wanted: SearchRequest, can_wait: bool
    ) -> Search:
        begin = Begin(next(self._numbers), client, wanted, can_wait)
        return Search(worker, begin, self._numbers, self._under_way)

    async def warm_up(self, wanted: SearchRequest) -> None:
        """Search once in every process, so that the next search finds all loaded and compiled.

        Raises what the search raises.
        """
        begun = [
            self._begin_in(each, Client("", str(number)), wanted, can_wait=True)
            for number, each in enumerate(self._running())
        ]
        await asyncio.gather(*(_last(each) for each in begun))

    async def last(
        self, client: Client, wanted: SearchRequest, *, can_wait: bool = False
    ) -> Analysis:
        """Search to the end, and return what was found; see `begin`."""
        return await _last(self.begin(client, wanted, can_wait=can_wait))


class Search:
    """One search under way; it is dropped when it is left as a context, or by `drop`."""

    def __init__(
        self, worker: Worker, begin: Begin, numbers: itertools.count[int], under_way: UnderWay
    ) -> None:
        self._client, self._number = begin.client, begin.number
        self._worker = worker
        self._numbers = numbers
        self._under_way = under_way
        under_way.begin(self._client)
        self._is_running = True
        try:
            self._told = worker.ask(begin)
        except BusyError:
            self._ended()
            raise

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
        """Return a node of its tree; see `LiveSearch.node` and `Searches.begin`."""
        number = next(self._numbers)
        with self._under_way.one(self._client):
            try:
                told = self._worker.ask(Look(number, self._number, tuple(path)))
                answer = await told.next()
            finally:
                self._worker.leave(number)
        if answer.error is not None:
            raise answer.error
        node: Node = answer.result
        return node

    def drop(self) -> None:
        """End it, and forget its tree."""
        self._ended()
        self._worker.drop(self._number)

    def _ended(self) -> None:
        if self._is_running:
            self._is_running = False
            self._under_way.end(self._client)


async def _last(search: Search) -> Analysis:
    """Return what was found by the end of a search, and leave it."""
    async with search:
        async for found in search.results():
            latest = found
    return latest
