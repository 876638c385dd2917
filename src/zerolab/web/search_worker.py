"""Server side of a search process.

Nothing here blocks the event loop, except closing and joining a worker. One thread starts the
process, receives updates from it and ends it. Another thread sends commands, which blocks while the
process is not reading them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from zerolab.web.requests import BusyError
from zerolab.web.search_process import (
    BeginCommand,
    Command,
    DropCommand,
    NodeCommand,
    TaskUpdate,
    run_search_process,
)

MAX_WAITING_COMMANDS = 256
"""Maximum number of unsent Begin and Node commands, which accumulate, for example, while the
process is compiling."""


class Outbox:
    """Bounded queue of commands between the event loop and the thread that sends them.

    Adding a command never blocks. The number of Begin and Node commands is bounded. Drop commands
    are always accepted: each one is for a search whose Begin command has been sent, so few can
    accumulate while the process is not reading. Dropping a search whose Begin command has not been
    sent removes that command from the queue.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._commands: dict[int, Command] = {}
        """Unsent commands by task number, in order; at most one per search (Begin or Drop)."""
        self._drops = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """True if there is no room for another Begin or Node command."""
        return len(self._commands) - self._drops >= MAX_WAITING_COMMANDS

    @property
    def is_empty(self) -> bool:
        """True if no command is waiting. The last command can still be in transit."""
        return not self._commands

    def put(self, command: BeginCommand | NodeCommand) -> None:
        """Add a command; raise BusyError if the queue is full."""
        with self._changed:
            if self.is_full:
                raise BusyError("the search process is busy: try again in a moment")
            self._commands[command.task_number] = command
            self._changed.notify()

    def drop_search(self, number: int) -> None:
        """Add a Drop command, or remove the search's Begin command if it has not been sent."""
        with self._changed:
            previous = self._commands.pop(number, None)
            if isinstance(previous, BeginCommand):
                return
            self._commands[number] = DropCommand(number)
            self._drops += previous is None
            self._changed.notify()

    def withdraw_node_command(self, number: int) -> None:
        """Remove a Node command if it has not been sent."""
        with self._changed:
            self._commands.pop(number, None)

    def take(self) -> Command | None:
        """Wait for the next command, remove it and return it; return None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._commands or self._is_closed)
            if self._is_closed:
                return None
            command = self._commands.pop(next(iter(self._commands)))
            self._drops -= isinstance(command, DropCommand)
            return command

    def close(self) -> None:
        """Close the queue and discard its commands."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()


class LatestUpdate:
    """Latest unread update for one task number."""

    def __init__(self) -> None:
        self.is_awaited = False
        """True while an asyncio task waits for the next update."""
        self._latest: TaskUpdate | None = None
        self._changed = asyncio.Event()

    def put(self, update: TaskUpdate) -> None:
        """Store an update; its result, if any, replaces an unread one."""
        if update.is_done and update.result is None and self._latest and not update.error:
            update = update._replace(result=self._latest.result)
        self._latest = update
        self._changed.set()

    async def next(self) -> TaskUpdate:
        """Return the unread update, or wait for one."""
        self.is_awaited = True
        try:
            await self._changed.wait()
        finally:
            self.is_awaited = False
        self._changed.clear()
        update, self._latest = self._latest, None
        assert update is not None
        return update


_CLOSE_SECONDS = 2.0
_SILENT_SECONDS = 180.0
"""Time without updates after which a busy process is killed.

It allows for compilation on a machine that also runs other programs."""


class SearchWorker:
    """Owner of one search process from start to end, after which a new worker replaces this one.

    All methods except `kill_if_unresponsive` must be called from the event loop's thread.
    """

    def __init__(self) -> None:
        """Start the process; commands wait until the process is ready."""
        self.has_ended = False
        """True once the process has ended and all waiting asyncio tasks have received an error."""
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox()
        self._updates: dict[int, LatestUpdate] = {}
        self._last_update = time.monotonic()
        self._process: BaseProcess | None = None
        self._ending = threading.Lock()  # also held while the process is starting
        self._is_killed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def task_count(self) -> int:
        """Number of searches and Node commands that expect updates."""
        return len(self._updates)

    @property
    def has_room(self) -> bool:
        """True if the worker accepts another Begin or Node command."""
        return not self._outbox.is_full

    def send(self, command: BeginCommand | NodeCommand) -> LatestUpdate:
        """Send a command; return the object that receives the updates of its task.

        Raises BusyError if too many commands are unsent or the process has ended.
        """
        if self.has_ended:
            raise _ended_early()
        if not self._has_work:
            self._last_update = time.monotonic()
        self._outbox.put(command)
        self._updates[command.task_number] = LatestUpdate()
        return self._updates[command.task_number]

    def drop_search(self, number: int) -> None:
        """End and discard a search."""
        self._updates.pop(number, None)
        self._outbox.drop_search(number)

    def abandon_node_command(self, number: int) -> None:
        """Stop waiting for the response to a Node command."""
        self._updates.pop(number, None)
        self._outbox.withdraw_node_command(number)

    def kill_if_unresponsive(self) -> None:
        """Kill the process if it is busy but silent; waiting asyncio tasks receive an error.

        A separate thread calls this method, so that it works even while the event loop is blocked.
        """
        if self._has_work and time.monotonic() - self._last_update >= _SILENT_SECONDS:
            self._kill()

    def close(self) -> None:
        """Begin to shut down the process."""
        self._outbox.close()
        self._kill()

    def join(self) -> None:
        """Wait up to `_CLOSE_SECONDS` for a closed worker to finish."""
        self._thread.join(_CLOSE_SECONDS)

    @property
    def _has_work(self) -> bool:
        """True if an asyncio task is waiting for the process, or commands are unsent."""
        pending = list(self._updates.values())  # an atomic copy, because other threads change it
        return not self._outbox.is_empty or any(each.is_awaited for each in pending)

    def _kill(self) -> None:
        with self._ending:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        try:
            with suppress(OSError):  # for example, because memory is short; `_end` reports it
                self._exchange(self._start())
        finally:
            self._outbox.close()
            self._in_loop(self._end)

    def _exchange(self, connection: Connection) -> None:
        """Exchange commands and updates until the process ends; then clean up."""
        writer = threading.Thread(target=self._write, args=(connection,), daemon=True)
        writer.start()
        try:
            self._read(connection)
        finally:
            self._outbox.close()
            self._kill()  # it may still be running, for example after an unreadable update
            writer.join()
            connection.close()
            with self._ending:
                assert self._process is not None
                self._process.join(_CLOSE_SECONDS)

    def _start(self) -> Connection:
        """Start the process; raise OSError if that fails or the worker has been closed."""
        # Not `processes.fork_server_context`: starting the first process there waits until the fork
        # server has imported torch, and until then the event loop could not close this worker.
        context = multiprocessing.get_context("spawn")
        with self._ending:
            if self._is_killed:
                raise InterruptedError
            own, other = context.Pipe()
            process = context.Process(target=run_search_process, args=(other,), daemon=True)
            process.start()
            other.close()
            self._process = process
        return own

    def _write(self, connection: Connection) -> None:
        """Send commands until the process ends; each send can block indefinitely."""
        with suppress(OSError):
            while (command := self._outbox.take()) is not None:
                connection.send(command)

    def _read(self, connection: Connection) -> None:
        """Forward updates until the process ends."""
        with suppress(EOFError, OSError):
            while True:
                update = connection.recv()
                self._last_update = time.monotonic()
                self._in_loop(self._put, update)

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _put(self, update: TaskUpdate) -> None:
        if update.task_number in self._updates:
            self._updates[update.task_number].put(update)

    def _end(self) -> None:
        """Notify waiting tasks that the process has ended, for example because memory ran out."""
        self.has_ended = True
        for number, waiting in self._updates.items():
            waiting.put(TaskUpdate(number, error=_ended_early(), is_done=True))


def _ended_early() -> BusyError:
    return BusyError("the search ended unexpectedly: try again")
