"""A search process, and the queue that shares its time between clients.

Threads would share the interpreter lock with the one that serves pages and hold it most of the
time, so searches run in separate processes.

A task is a generator whose steps take a few hundredths of a second each. Tasks that have had little
time so far go first, as in a multi-level feedback queue [Corbato1962], so a move that takes a tenth
of a second does not wait for analyses that take minutes. Patient tasks, such as analyses that pages
watch, begin a few levels further back. Within a level, the address that has used the least time
goes first, and within an address the page that has; newcomers begin level with the others, without
credit for time they have not used. Every fourth turn ignores the levels, so that short tasks cannot
starve long ones.
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
from zerolab.web.live_search import AgentCache, LiveSearch, SearchRequest
from zerolab.web.requests import BusyError, Client

_MOMENT = 0.25
"""Processor seconds of the first level; each further level doubles them."""
_PATIENCE = 3
"""Levels that a patient task begins further back, behind tasks with less than a second."""
_TURNS = 4
"""One turn of so many ignores the levels."""
_PAUSE = 0.02
"""Seconds between two results of the whole process, so with many tasks each reports less often."""


class Update(NamedTuple):
    """Progress of a task."""

    number: int
    result: Any = None
    """The result of the latest step that has one; it replaces earlier results."""
    error: Exception | None = None
    is_done: bool = False


@dataclass
class _Task:
    number: int
    client: Client
    steps: Iterator[Any]
    is_patient: bool
    seconds: float = 0.0
    reported: float = 0.0
    """The time of its latest update."""
    result: Any = None
    """The latest result that has not been reported."""

    @property
    def level(self) -> int:
        """Its level by the time taken so far: 0 for a moment, one more for every doubling."""
        doublings = math.ceil(math.log2(max(self.seconds, _MOMENT) / _MOMENT))
        return doublings + (_PATIENCE if self.is_patient else 0)


class TaskQueue:
    """Tasks by number, of which one at a time does one step."""

    def __init__(self) -> None:
        self._tasks: dict[int, _Task] = {}
        self._turn = 0
        self._page_seconds: dict[Client, float] = {}
        """Processor seconds of each page that has tasks."""
        self._address_seconds: dict[str, float] = {}
        """Processor seconds of each address that has tasks."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, number: int) -> bool:
        return number in self._tasks

    def add(
        self, number: int, client: Client, steps: Iterator[Any], *, is_patient: bool = False
    ) -> None:
        """Add a task of a client."""
        pages = (
            spent for each, spent in self._page_seconds.items() if each.address == client.address
        )
        self._page_seconds.setdefault(client, min(pages, default=0.0))
        least = min(self._address_seconds.values(), default=0.0)
        self._address_seconds.setdefault(client.address, least)
        self._tasks[number] = _Task(number, client, steps, is_patient)

    def remove(self, number: int) -> None:
        """Drop a task if it is still in the queue."""
        task = self._tasks.pop(number, None)
        if task is None:
            return
        others = {each.client for each in self._tasks.values()}
        if task.client not in others:
            del self._page_seconds[task.client]
        if all(each.address != task.client.address for each in others):
            del self._address_seconds[task.client.address]

    def step(self) -> Update | None:
        """Run one step of the task that is next; return an update if one is due."""
        task = self._next()
        began = time.thread_time()
        try:
            result = next(task.steps)
        except StopIteration:
            self.remove(task.number)
            return Update(task.number, task.result, is_done=True)
        except Exception as error:  # any error is reported to the client
            self.remove(task.number)
            return Update(task.number, error=error, is_done=True)
        taken = time.thread_time() - began
        task.seconds += taken
        self._page_seconds[task.client] += taken
        self._address_seconds[task.client.address] += taken
        if result is not None:
            task.result = result
        return self._update(task)

    def _next(self) -> _Task:
        """Return the task whose turn it is."""
        self._turn += 1
        by_level = self._turn % _TURNS > 0
        return min(
            self._tasks.values(),
            key=lambda each: (
                by_level and each.level,
                self._address_seconds[each.client.address],
                self._page_seconds[each.client],
                each.level,
            ),
        )

    def _update(self, task: _Task) -> Update | None:
        """Return the unreported result of a task, if there is one and its last is old enough."""
        now = time.perf_counter()
        if task.result is None or now - task.reported < _PAUSE * len(self._tasks):
            return None
        update = Update(task.number, task.result)
        task.reported, task.result = now, None
        return update


SIGN_OF_LIFE = 0
"""The number of updates that only show that the process is alive."""
_SIGN_SECONDS = 1.0
_MAX_FINISHED = 64
"""Finished searches whose trees are kept."""
_MAX_PROCESS_BYTES = 2 << 30
"""Memory of all trees and cached evaluations of a process."""


class Begin(NamedTuple):
    """A command to search for a client."""

    number: int
    client: Client
    request: SearchRequest
    is_patient: bool
    """True if other searches go first."""


class Look(NamedTuple):
    """A command to return a tree node of another search, by its number."""

    number: int
    search: int
    path: tuple[str, ...]


class Drop(NamedTuple):
    """A command to forget a search."""

    number: int


Command = Begin | Look | Drop


def run_search_process(connection: Connection) -> None:
    """Run a search process: execute the commands of a connection on one core."""
    import torch

    torch.set_num_threads(1)  # the other cores are for the other processes (docs/decisions/0005)
    serve_searches(connection)


def serve_searches(connection: Connection) -> None:
    """Execute the commands of a connection until it ends."""
    searcher = _Searcher(connection.send)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            while connection.poll(0 if searcher.is_busy else None):
                searcher.execute(connection.recv())
            searcher.step()


class _Searcher:
    """The searches of a process."""

    def __init__(self, send: Callable[[Update], None]) -> None:
        self._send = send
        self._queue = TaskQueue()
        self._agents = AgentCache()
        self._sent = time.monotonic()
        self._searches: OrderedDict[int, LiveSearch] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """True while a search is in progress."""
        return len(self._queue) > 0

    def execute(self, command: Command) -> None:
        """Execute a command, or queue its search."""
        if isinstance(command, Begin):
            search = LiveSearch(command.request)
            self._searches[command.number] = search
            steps = search.steps(self._agents, self._require_memory)
            self._queue.add(command.number, command.client, steps, is_patient=command.is_patient)
            if len(self._searches) > _MAX_FINISHED + len(self._queue):
                self._forget_oldest()
        elif isinstance(command, Look):
            self._look(command)
        else:
            self._queue.remove(command.number)
            self._searches.pop(command.number, None)

    def _forget_oldest(self) -> bool:
        """Forget the oldest finished search; return whether there was one."""
        number = next((each for each in self._searches if each not in self._queue), None)
        return number is not None and self._searches.pop(number) is not None

    def _require_memory(self, more: int) -> None:
        """Forget finished searches to make room; raise BusyError if those in progress need it."""
        while sum(each.bytes for each in self._searches.values()) + more > _MAX_PROCESS_BYTES:
            if not self._forget_oldest():
                raise BusyError("searches in progress need all memory: try again in a moment")

    def _look(self, command: Look) -> None:
        search = self._searches.get(command.search)
        try:
            if search is None:
                raise UserError("this search is no longer kept: analyse the position again")
            self._send(Update(command.number, search.node(command.path), is_done=True))
        except UserError as error:
            self._send(Update(command.number, error=error, is_done=True))

    def step(self) -> None:
        """Do one step of a search, if any is in progress, and send an update if one is due."""
        if not self.is_busy:
            return
        update = self._queue.step()
        now = time.monotonic()
        if update is None and now - self._sent >= _SIGN_SECONDS:
            update = Update(SIGN_OF_LIFE)
        if update is not None:
            self._sent = now
            self._send(update._replace(error=_picklable(update.error)))


def _picklable(error: Exception | None) -> Exception | None:
    """Return an error that another process can read, with its kind if it is a UserError."""
    if error is None:
        return None
    return type(error)(str(error)) if isinstance(error, UserError) else RuntimeError(repr(error))
