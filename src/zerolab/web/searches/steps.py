"""Which piece of work has the next turn: short ones first, in fair shares for their clients.

Work is a generator, each step of which takes some hundredths of a second. What has had little time
so far goes first, as in a multi-level feedback queue [Corbato1962]: so a move that takes a tenth of
a second does not wait for analyses that go on for minutes. Work that can wait, such as analyses
that are shown while they grow, begins some levels further back. Among pieces of work on a level,
that goes first whose address has taken the least time, and of one address, that of the page that
has; who comes later begins where the others are, not with all the time that it has not used. Every
fourth turn goes by them alone, so that nobody waits for ever for short work of others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from zerolab.web.clients import Client

_MOMENT = 0.25
"""Seconds of the processor that work may take before all that has come later goes first."""
_PATIENCE = 3
"""Levels that work which can wait begins further back: behind what has had less than a second."""
_TURNS = 4
"""Of which one goes by what clients have had, whatever is short."""
_PAUSE = 0.02
"""Seconds between two results in all: where many search, each tells of its results less often."""


class Told(NamedTuple):
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

    def step(self) -> Told | None:
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
            return Told(work.number, work.untold, is_done=True)
        except Exception as error:  # whatever it is: whoever waits is to know
            self.remove(work.number)
            return Told(work.number, error=error, is_done=True)
        taken = time.thread_time() - began
        work.seconds += taken
        self._spent[work.client] += taken
        self._spent_of[work.client.address] += taken
        now = time.perf_counter()
        if now - work.told < _PAUSE * len(self._work):
            return None
        told, work.told, work.untold = Told(work.number, work.untold), now, None
        return told

    def _had(self, client: Client) -> tuple[float, float]:
        """Return what an address has had, and its page."""
        return self._spent_of[client.address], self._spent[client]
