"""Progress of training in a notebook."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from zerolab.training.records import Record
from zerolab.training.reporting import NullReporter, Reporter, RunClock

_SECONDS = 0.2
"""Minimum time between updates of the display within a stage."""


def in_notebook() -> bool:
    """Return whether the program runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def notebook_reporter(iterations: int | None) -> Reporter:
    """Return a reporter with a progress bar in a notebook, and one that shows nothing elsewhere."""
    return NotebookReporter(iterations) if in_notebook() else NullReporter()


class NotebookReporter:
    """Reporter that shows a progress bar and the last finished stage below a cell."""

    def __init__(self, iterations: int | None) -> None:
        from IPython.display import display  # noqa: PLC0415  only there in notebooks

        self._clock = RunClock(iterations)
        self._stage, self._total, self._unit, self._done, self._note = "", 0, "", 0, ""
        self._last = ""
        self._updated = 0.0
        self._handle: Any = display(self, display_id=True)

    def message(self, text: str) -> None:
        self._last = text
        self._update()

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        self._clock.set_iteration(iteration)
        self._stage, self._total, self._unit, self._done, self._note = title, total, unit, 0, ""
        self._update()

    def progress(self, done: int, note: str = "") -> None:
        self._done, self._note = done, note
        if time.monotonic() - self._updated >= _SECONDS:
            self._update()

    def stage_finished(self, record: Record) -> None:
        self._last = f"iteration {record.iteration}: {' '.join(record.summary().split())}"
        self._stage = ""
        self._update()

    def _update(self) -> None:
        self._updated = time.monotonic()
        self._handle.update(self)

    def _status(self) -> str:
        seconds = self._clock.remaining_seconds()
        minutes = 0 if seconds is None else round(seconds / 60)
        left = f", about {minutes} min left" if minutes else ""
        note = f", {self._note}" if self._note else ""
        return (
            f"iteration {self._clock.iteration_label}, {self._stage}: {self._done:,} of"
            f" {self._total:,} {self._unit}{note}{left}"
        )

    def _repr_html_(self) -> str:
        if not self._stage:
            return escape(repr(self))
        status = escape(self._status())
        bar = f'value="{self._done}" max="{max(1, self._total)}" aria-label="{status}"'
        return f"<div><progress {bar}></progress> {status}<br>{escape(self._last)}</div>"

    def __repr__(self) -> str:
        return self._status() if self._stage else self._last or "training begins"
