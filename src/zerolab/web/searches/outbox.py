"""What a process is yet to be told: bounded, and in order."""

from __future__ import annotations

import threading

from zerolab.web.errors import BusyError
from zerolab.web.searches.process import Begin, Drop, Look

MOST_WAITING = 256
"""Searches and looks that wait for a process which takes no messages, such as while it compiles."""

Message = Begin | Look | Drop


class Outbox:
    """Messages that a process has not taken; one thread puts them in, another hands them over.

    To put something in never takes long. Whoever waits for a search or a look counts, and there is
    a bound to them. Drops are always taken, and need no bound of their own: each is of a search
    that has been handed over, of which a process that reads nothing gets few. What is dropped
    before it was handed over is forgotten here.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: dict[int, Message] = {}
        """By number, in order. A search has either its beginning or its end here."""
        self._drops = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another search or look."""
        return len(self._asked) - self._drops >= MOST_WAITING

    @property
    def is_empty(self) -> bool:
        """Whether everything has been handed over, but for what is being handed over."""
        return not self._asked

    def put(self, message: Begin | Look) -> None:
        """Put in a message; raise BusyError where it is full."""
        with self._changed:
            if self.is_full:
                raise BusyError("the process that searches is busy: try again in a moment")
            self._asked[message.number] = message
            self._changed.notify()

    def drop(self, number: int) -> None:
        """Say that nobody waits for a search any more."""
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
