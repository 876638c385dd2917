"""Search process with a task queue that shares processor time fairly between clients.

Searches run in separate processes because search threads would hold the interpreter lock most of
the time and block the thread that serves pages.

A task is a generator whose steps take a few hundredths of a second each. As in a multi-level
feedback queue [Corbato1962], tasks that have used little time run first, so a move that takes a
tenth of a second does not wait for analyses that take minutes. Low-priority tasks, such as live
analyses, start a few levels lower. Within a level, the address that has used the least processor
time runs first, and within an address, the page that has used the least time. A new client starts
with the smallest time used by any existing client. Every fourth turn ignores levels, so that short
tasks cannot starve long ones.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

from zerolab.core.errors import UserError
from zerolab.web.live_search import AgentCache, LiveSearch
from zerolab.web.requests import BusyError, Client

_FIRST_LEVEL_SECONDS = 0.25
"""Processor time up to which a task stays in the first level; each further level doubles it."""
_LOW_PRIORITY_LEVELS = 3
"""Number of levels added to a low-priority task, so that it starts behind other tasks that have
used at most one second."""
_TURNS = 4
"""Interval between turns that ignore levels."""
_UPDATE_SECONDS = 0.02
"""Minimum time between updates of the only task; with N tasks in the queue, N times as long."""


class TaskUpdate(NamedTuple):
    """Progress of a task."""

    task_number: int
    result: Any = None
    """Latest result, which replaces earlier results."""
    error: Exception | None = None
    is_done: bool = False


@dataclass
class _Task:
    number: int
    client: Client
    steps: Iterator[Any]
    is_low_priority: bool
    seconds: float = 0.0
    updated: float = 0.0
    """Time of the latest update."""
    result: Any = None
    """Latest result not yet included in an update."""

    @property
    def level(self) -> int:
        """Queue level: 0 up to `_FIRST_LEVEL_SECONDS`, plus one for every doubling."""
        doublings = math.ceil(
            math.log2(max(self.seconds, _FIRST_LEVEL_SECONDS) / _FIRST_LEVEL_SECONDS)
        )
        return doublings + (_LOW_PRIORITY_LEVELS if self.is_low_priority else 0)


class TaskQueue:
    """Queue of tasks that runs one step of one task at a time."""

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
        self, number: int, client: Client, steps: Iterator[Any], *, is_low_priority: bool = False
    ) -> None:
        """Add a client's task."""
        pages = (
            spent
            for each, spent in self._page_seconds.items()
            if each.quota_address == client.quota_address
        )
        self._page_seconds.setdefault(client, min(pages, default=0.0))
        least = min(self._address_seconds.values(), default=0.0)
        self._address_seconds.setdefault(client.quota_address, least)
        self._tasks[number] = _Task(number, client, steps, is_low_priority)

    def remove(self, number: int) -> None:
        """Remove a task if it is still in the queue."""
        task = self._tasks.pop(number, None)
        if task is None:
            return
        remaining = {each.client for each in self._tasks.values()}
        if task.client not in remaining:
            del self._page_seconds[task.client]
        if all(each.quota_address != task.client.quota_address for each in remaining):
            del self._address_seconds[task.client.quota_address]

    def step(self) -> TaskUpdate | None:
        """Run one step of the next task; return an update if one is due."""
        task = self._next()
        began = time.thread_time()
        try:
            result = next(task.steps)
        except StopIteration:
            self.remove(task.number)
            return TaskUpdate(task.number, task.result, is_done=True)
        except Exception as error:  # any error is reported to the client
            self.remove(task.number)
            return TaskUpdate(task.number, error=error, is_done=True)
        spent = time.thread_time() - began
        task.seconds += spent
        self._page_seconds[task.client] += spent
        self._address_seconds[task.client.quota_address] += spent
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
                self._address_seconds[each.client.quota_address],
                self._page_seconds[each.client],
                each.level,
            ),
        )

    def _update(self, task: _Task) -> TaskUpdate | None:
        """Return a task's new result, if any, unless its previous update is too recent."""
        now = time.perf_counter()
        if task.result is None or now - task.updated < _UPDATE_SECONDS * len(self._tasks):
            return None
        update = TaskUpdate(task.number, task.result)
        task.updated, task.result = now, None
        return update


HEARTBEAT_TASK_NUMBER = 0
"""Task number of updates that only show that the process is alive."""
_HEARTBEAT_SECONDS = 1.0
_MAX_FINISHED = 64
"""Number of finished searches whose trees stay available."""
_MAX_PROCESS_BYTES = 2 << 30
"""Memory limit for a process's trees and cached evaluations."""


class RequestedWork(Protocol):
    """Work that a client has requested, such as a search."""

    memory_bytes: int
    """Upper bound on the memory of the work in bytes; 0 before it starts."""

    def steps(self, agents: AgentCache, require_memory: Callable[[int], None]) -> Iterator[Any]:
        """Work step by step; yield a result or None after each step, and finally a result.

        `require_memory(bytes)` raises an error if there is too little memory.
        """
        ...


class WorkRequest(Protocol):
    """Request that a client sends to a search process."""

    def create_work(self) -> RequestedWork:
        """Return the requested work."""
        ...


class BeginCommand(NamedTuple):
    """Command to begin work for a client."""

    task_number: int
    """Number of the task and of its work."""
    client: Client
    request: WorkRequest
    is_low_priority: bool
    """True if other searches run first."""


class NodeCommand(NamedTuple):
    """Command to return a node of a search tree."""

    task_number: int
    search_number: int
    """Task number of the search."""
    path: tuple[str, ...]


class DropCommand(NamedTuple):
    """Command to stop and discard a search."""

    task_number: int
    """Task number of the search."""


Command = BeginCommand | NodeCommand | DropCommand


def run_search_process(connection: Connection) -> None:
    """Run a search process, which uses one core and executes the commands from a connection."""
    import torch

    torch.set_num_threads(1)  # other processes use the other cores (docs/decisions/0005)
    execute_commands(connection)


def execute_commands(connection: Connection) -> None:
    """Execute the commands from a connection until it closes."""
    searcher = _Searcher(connection.send)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            while connection.poll(0 if searcher.is_busy else None):
                searcher.execute(connection.recv())
            searcher.step()


class _Searcher:
    """Searches of one process, in progress or finished."""

    def __init__(self, send: Callable[[TaskUpdate], None]) -> None:
        self._send = send
        self._queue = TaskQueue()
        self._agents = AgentCache()
        self._sent = time.monotonic()
        self._works: OrderedDict[int, RequestedWork] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """True while a search is in progress."""
        return len(self._queue) > 0

    def execute(self, command: Command) -> None:
        """Execute a command, or queue the search that it requests."""
        if isinstance(command, BeginCommand):
            work = command.request.create_work()
            self._works[command.task_number] = work
            steps = work.steps(self._agents, self._require_memory)
            self._queue.add(
                command.task_number,
                command.client,
                steps,
                is_low_priority=command.is_low_priority,
            )
            if len(self._works) > _MAX_FINISHED + len(self._queue):
                self._discard_oldest()
        elif isinstance(command, NodeCommand):
            self._send_node(command)
        else:
            self._queue.remove(command.task_number)
            self._works.pop(command.task_number, None)

    def _discard_oldest(self) -> bool:
        """Discard the oldest finished search; return whether there was one."""
        number = next((each for each in self._works if each not in self._queue), None)
        return number is not None and self._works.pop(number) is not None

    def _require_memory(self, more: int) -> None:
        """Discard finished searches to free memory; raise BusyError if that is not enough."""
        while sum(each.memory_bytes for each in self._works.values()) + more > _MAX_PROCESS_BYTES:
            if not self._discard_oldest():
                raise BusyError(
                    "searches in progress are using all available memory: try again in a moment"
                )

    def _send_node(self, command: NodeCommand) -> None:
        search = self._works.get(command.search_number)
        try:
            if not isinstance(search, LiveSearch):
                raise UserError("this search has been discarded: analyse the position again")
            self._send(TaskUpdate(command.task_number, search.node(command.path), is_done=True))
        except UserError as error:
            self._send(TaskUpdate(command.task_number, error=error, is_done=True))

    def step(self) -> None:
        """Run one step if a search is in progress, and send an update if one is due."""
        if not self.is_busy:
            return
        update = self._queue.step()
        now = time.monotonic()
        if update is None and now - self._sent >= _HEARTBEAT_SECONDS:
            update = TaskUpdate(HEARTBEAT_TASK_NUMBER)
        if update is not None:
            self._sent = now
            self._send(update._replace(error=_picklable(update.error)))


def _picklable(error: Exception | None) -> Exception | None:
    """Return an error that can be sent to another process, preserving UserError types."""
    if error is None:
        return None
    return type(error)(str(error)) if isinstance(error, UserError) else RuntimeError(repr(error))
