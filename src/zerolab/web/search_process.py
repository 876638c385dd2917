"""A search process, and the queue that shares its time between clients.

Work is a generator, each step of which takes some hundredths of a second. What has had little time
so far goes first, as in a multi-level feedback queue [Corbato1962]: so a move that takes a tenth of
a second does not wait for analyses that go on for minutes. Work that can wait, such as analyses
that are shown while they grow, begins some levels further back. Among pieces of work on a level,
that goes first whose address has taken the least time, and of one address, that of the page that
has; who comes later begins where the others are, not with all the time that it has not used. Every
fourth turn goes by them alone, so that nobody waits for ever for short work of others.

Threads would share the interpreter lock with the one that serves pages, which would then be
without it most of the time.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from zerolab.core.errors import UserError
from zerolab.web.clients import Client
from zerolab.web.errors import BusyError
from zerolab.web.live_search import LiveSearch, Players, SearchRequest

_MOMENT = 0.25
"""Seconds of the processor that work may take before all that has come later goes first."""
_PATIENCE = 3
"""Levels that work which can wait begins further back: behind what has had less than a second."""
_TURNS = 4
"""Of which one goes by what clients have had, whatever is short."""
_PAUSE = 0.02
"""Seconds between two results in all: where many search, each tells of its results less often."""


class Update(NamedTuple):
    """What there is to tell of a piece of work."""

    number: int
    result: Any = None
    """What a step has yielded; later results take the place of earlier ones."""
    error: Exception | None = None
    is_done: bool = False


@dataclass
class _Work:
    number: int
    client: Client
    steps: Iterator[Any]
    can_wait: bool
    seconds: float = 0.0
    told: float = 0.0
    """When its latest result was told."""
    untold: Any = None

    @property
    def level(self) -> int:
        """How long it has taken so far: 0 for a moment, one more for every doubling."""
        doublings = math.ceil(math.log2(max(self.seconds, _MOMENT) / _MOMENT))
        return doublings + (_PATIENCE if self.can_wait else 0)


class StepQueue:
    """Pieces of work by their numbers, one step of one of them at a time."""

    def __init__(self) -> None:
        self._work: dict[int, _Work] = {}
        self._turn = 0
        self._spent: dict[Client, float] = {}
        """Of the processor, in seconds, by page, as long as there is some work of it."""
        self._spent_of: dict[str, float] = {}
        """The same by address."""

    def __len__(self) -> int:
        return len(self._work)

    def __contains__(self, number: int) -> bool:
        return number in self._work

    def add(
        self, number: int, client: Client, steps: Iterator[Any], *, can_wait: bool = False
    ) -> None:
        """Take on a piece of work of a client."""
        pages = (spent for each, spent in self._spent.items() if each.address == client.address)
        self._spent.setdefault(client, min(pages, default=0.0))
        self._spent_of.setdefault(client.address, min(self._spent_of.values(), default=0.0))
        self._work[number] = _Work(number, client, steps, can_wait)

    def remove(self, number: int) -> None:
        """Drop a piece of work, if it is still there."""
        work = self._work.pop(number, None)
        if work is None:
            return
        others = {each.client for each in self._work.values()}
        if work.client not in others:
            del self._spent[work.client]
        if all(each.address != work.client.address for each in others):
            del self._spent_of[work.client.address]

    def step(self) -> Update | None:
        """Run one step of the work whose turn it is; return what there is to tell, if anything."""
        self._turn += 1
        by_level = self._turn % _TURNS > 0
        work = min(
            self._work.values(),
            key=lambda each: (by_level and each.level, *self._had(each.client), each.level),
        )
        began = time.thread_time()
        try:
            work.untold = next(work.steps)
        except StopIteration:
            self.remove(work.number)
            return Update(work.number, work.untold, is_done=True)
        except Exception as error:  # whatever it is: whoever waits is to know
            self.remove(work.number)
            return Update(work.number, error=error, is_done=True)
        taken = time.thread_time() - began
        work.seconds += taken
        self._spent[work.client] += taken
        self._spent_of[work.client.address] += taken
        now = time.perf_counter()
        if now - work.told < _PAUSE * len(self._work):
            return None
        told, work.told, work.untold = Update(work.number, work.untold), now, None
        return told

    def _had(self, client: Client) -> tuple[float, float]:
        """Return what an address has had, and its page."""
        return self._spent_of[client.address], self._spent[client]


SIGN_OF_LIFE = 0
"""The number under which nothing is told but that the process goes on."""
_SIGN_SECONDS = 1.0
_MOST_KEPT = 64
"""Searches that are over and whose trees can still be looked at."""
_MOST_BYTES_OF_PROCESS = 2 << 30
"""Of all searches of a process: their trees, and the evaluations that they keep."""


class Begin(NamedTuple):
    """Search for a client."""

    number: int
    client: Client
    wanted: SearchRequest
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
    def __init__(self, tell: Callable[[Update], None]) -> None:
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
        while self._bytes() + more > _MOST_BYTES_OF_PROCESS:
            if not self._forget_oldest():
                raise BusyError("searches under way need all memory: try again in a moment")

    def _bytes(self) -> int:
        return sum(each.bytes for each in self._searches.values())

    def _look(self, message: Look) -> None:
        search = self._searches.get(message.search)
        try:
            if search is None:
                raise UserError("this search is not kept any more: analyse the position again")
            self._tell(Update(message.number, search.node(message.path), is_done=True))
        except UserError as error:
            self._tell(Update(message.number, error=error, is_done=True))

    def step(self) -> None:
        """Do a step, if there is one to do, and tell what has come of it."""
        if not self.is_busy:
            return
        told = self._queue.step()
        now = time.monotonic()
        if told is None and now - self._spoke >= _SIGN_SECONDS:
            told = Update(SIGN_OF_LIFE)
        if told is not None:
            self._spoke = now
        if told is not None:
            self._tell(told if told.error is None else told._replace(error=_plain(told.error)))


def _plain(error: Exception) -> Exception:
    """Return an error that another process can read: its kind and its message."""
    kind: Any = type(error) if isinstance(error, UserError) else RuntimeError
    return kind(str(error)) if kind is not RuntimeError else RuntimeError(repr(error))
