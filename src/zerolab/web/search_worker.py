"""The server's side of a search process: commands to it, updates from it.

Nothing here blocks the event loop. One thread starts the process, receives its answers and ends it;
another hands messages over, which blocks while the process reads none.
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

from zerolab.web.errors import BusyError
from zerolab.web.search_process import Begin, Drop, Look, Update, serve_searches

MOST_WAITING = 256
"""Searches and looks that wait for a process which takes no messages, such as while it compiles."""

Message = Begin | Look | Drop


class Outbox:
    """Messages that a process has not taken; one thread puts them in, another hands them over.

    Putting a message in never blocks. Searches and looks are bounded. Drops are always accepted and
    need no bound: each belongs to a search already handed over, of which a process that reads
    nothing gets few. A search dropped before it was handed over is removed here.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: dict[int, Message] = {}
        """By number, in order. A search has either its beginning or its end here."""
        self._drops = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """True if there is no room for another search or look."""
        return len(self._asked) - self._drops >= MOST_WAITING

    @property
    def is_empty(self) -> bool:
        """True if no message waits; one may be on its way."""
        return not self._asked

    def put(self, message: Begin | Look) -> None:
        """Put in a message; raise BusyError where it is full."""
        with self._changed:
            if self.is_full:
                raise BusyError("the process that searches is busy: try again in a moment")
            self._asked[message.number] = message
            self._changed.notify()

    def drop(self, number: int) -> None:
        """Ask for the end of a search."""
        with self._changed:
            former = self._asked.pop(number, None)
            if isinstance(former, Begin):
                return
            self._asked[number] = Drop(number)
            self._drops += former is None
            self._changed.notify()

    def withdraw(self, number: int) -> None:
        """Take back a look, if it is still here."""
        with self._changed:
            self._asked.pop(number, None)

    def take(self) -> Message | None:
        """Wait for the next message and return it; None once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._is_closed)
            if self._is_closed:
                return None
            message = self._asked.pop(next(iter(self._asked)))
            self._drops -= isinstance(message, Drop)
            return message

    def close(self) -> None:
        """Hand over nothing more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()


_CLOSE_SECONDS = 2.0
_SILENT_SECONDS = 60.0
"""Silence after which a busy process is given up; compiling takes long as well."""


class LatestUpdate:
    """The latest answer under a number."""

    def __init__(self) -> None:
        self.is_awaited = False
        """True while a task waits for the next answer."""
        self._latest: Update | None = None
        self._changed = asyncio.Event()

    def put(self, told: Update) -> None:
        """Store an answer; a result replaces the one before it."""
        if told.is_done and told.result is None and self._latest is not None and not told.error:
            told = told._replace(result=self._latest.result)
        self._latest = told
        self._changed.set()

    async def next(self) -> Update:
        """Wait for the next answer, unless it is there already."""
        self.is_awaited = True
        try:
            await self._changed.wait()
        finally:
            self.is_awaited = False
        self._changed.clear()
        told, self._latest = self._latest, None
        assert told is not None
        return told


class Worker:
    """A process that searches, from its start to its end, after which another takes its place.

    All but `end_if_silent` is called by the thread of the event loop.
    """

    def __init__(self) -> None:
        """Start it; messages wait until it has started."""
        self.is_over = False
        """True once it has ended and all waiting tasks have their error."""
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox()
        self._listeners: dict[int, LatestUpdate] = {}
        self._heard = time.monotonic()
        self._process: BaseProcess | None = None
        self._ending = threading.Lock()  # also held while it starts
        self._is_killed = False
        self._life = threading.Thread(target=self._live, daemon=True)
        self._life.start()

    @property
    def load(self) -> int:
        """The number of answers that tasks listen for."""
        return len(self._listeners)

    @property
    def has_room(self) -> bool:
        """True if it accepts another search or look."""
        return not self._outbox.is_full

    def ask(self, message: Begin | Look) -> LatestUpdate:
        """Send a message; return the place where its answers arrive.

        Raises BusyError where too many messages have not been read, or the process has ended.
        """
        if self.is_over:
            raise _too_early()
        if not self._has_work:
            self._heard = time.monotonic()
        self._outbox.put(message)
        self._listeners[message.number] = LatestUpdate()
        return self._listeners[message.number]

    def drop(self, number: int) -> None:
        """End a search and forget it."""
        self._listeners.pop(number, None)
        self._outbox.drop(number)

    def leave(self, number: int) -> None:
        """Wait for a look no more."""
        self._listeners.pop(number, None)
        self._outbox.withdraw(number)

    def end_if_silent(self) -> None:
        """End it if it is busy and has been silent for long; waiting tasks get an error.

        Called by a separate thread, so that a blocked event loop does not matter.
        """
        if self._has_work and time.monotonic() - self._heard >= _SILENT_SECONDS:
            self._kill()

    def close(self) -> None:
        """Begin to end it."""
        self._outbox.close()
        self._kill()

    def join(self) -> None:
        """Wait until it has ended; see `close`."""
        self._life.join(_CLOSE_SECONDS)

    @property
    def _has_work(self) -> bool:
        """True if a task waits for it, or it has messages to read."""
        waiting = list(self._listeners.values())  # at once, since others may change it
        return not self._outbox.is_empty or any(each.is_awaited for each in waiting)

    def _kill(self) -> None:
        with self._ending:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def _live(self) -> None:
        try:
            with suppress(OSError):  # no memory for a process: waiting tasks get an error below
                self._talk(self._started())
        finally:
            self._outbox.close()
            self._in_loop(self._end)

    def _talk(self, connection: Connection) -> None:
        """Pass messages and answers on, then clean up after the process."""
        writer = threading.Thread(target=self._write, args=(connection,), daemon=True)
        writer.start()
        try:
            self._hear(connection)
        finally:
            self._outbox.close()
            self._kill()  # it may take a moment to die, or have sent an unreadable answer
            writer.join()
            connection.close()
            with self._ending:
                assert self._process is not None
                self._process.join(_CLOSE_SECONDS)

    def _started(self) -> Connection:
        """Start the process; raise OSError where that is impossible or it is to end."""
        context = multiprocessing.get_context("spawn")
        with self._ending:
            if self._is_killed:
                raise InterruptedError
            own, other = context.Pipe()
            process = context.Process(target=serve_searches, args=(other,), daemon=True)
            process.start()
            other.close()
            self._process = process
        return own

    def _write(self, connection: Connection) -> None:
        """Hand messages over, however long each takes; a process that ends breaks it off."""
        with suppress(OSError):
            while (message := self._outbox.take()) is not None:
                connection.send(message)

    def _hear(self, connection: Connection) -> None:
        """Pass on what the process tells until its connection ends."""
        with suppress(EOFError, OSError):
            while True:
                told = connection.recv()
                self._heard = time.monotonic()
                self._in_loop(self._put, told)

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _put(self, told: Update) -> None:
        if told.number in self._listeners:
            self._listeners[told.number].put(told)

    def _end(self) -> None:
        """Tell all who wait that the process has died, such as for want of memory."""
        self.is_over = True
        for number, listener in self._listeners.items():
            listener.put(Update(number, error=_too_early(), is_done=True))


def _too_early() -> BusyError:
    return BusyError("the search has ended too early: try again")
