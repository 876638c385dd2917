"""What the training loop tells whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Reporter(Protocol):
    """Shows a run's progress; the loop calls it from its own thread."""

    def stage(self, iteration: int, name: str, total: int, unit: str) -> None:
        """Begin a stage of `total` units of work."""
        ...

    def progress(self, done: int, note: str = "") -> None:
        """Report the units of the stage done so far, and what else is worth saying."""
        ...

    def finish_stage(self, metrics: Mapping[str, Any]) -> None:
        """Report a stage's line of metrics once it is saved."""
        ...


class NullReporter:
    """A reporter that shows nothing."""

    def stage(self, iteration: int, name: str, total: int, unit: str) -> None:
        """See `Reporter.stage`."""

    def progress(self, done: int, note: str = "") -> None:
        """See `Reporter.progress`."""

    def finish_stage(self, metrics: Mapping[str, Any]) -> None:
        """See `Reporter.finish_stage`."""
