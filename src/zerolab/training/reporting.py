"""How the training loop reports to whoever watches it."""

from __future__ import annotations

from typing import Protocol

from zerolab.training.records import Record


class Reporter(Protocol):
    """Shows a run's progress; the loop calls it from its own thread."""

    def message(self, text: str) -> None:
        """Show one line that belongs to no stage."""
        ...

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        """Take note that a stage, or a part of one, of `total` units of work begins."""
        ...

    def progress(self, done: int, note: str = "") -> None:
        """Report the units done so far, and what else is worth showing."""
        ...

    def stage_finished(self, record: Record) -> None:
        """Report a record of a finished stage once it is saved."""
        ...


class NullReporter:
    """A reporter that shows nothing."""

    def message(self, text: str) -> None:
        """See `Reporter.message`."""

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        """See `Reporter.stage_started`."""

    def progress(self, done: int, note: str = "") -> None:
        """See `Reporter.progress`."""

    def stage_finished(self, record: Record) -> None:
        """See `Reporter.stage_finished`."""
