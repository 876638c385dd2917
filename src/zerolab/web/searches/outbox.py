"""Bounded, ordered queue of messages to a search process."""

from __future__ import annotations

import threading

from zerolab.web.errors import BusyError
from zerolab.web.searches.process import Begin, Drop, Look

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
