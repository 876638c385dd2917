"""Progress of long work: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from zerolab.cli.output import Console

PLAIN_SECONDS = 15.0
"""Between lines, where there is no terminal."""

Update = Callable[[int, str], None]
"""Takes the number of units done so far, and a note to show beside it."""


@contextmanager
def progress_bar(title: str, total: int, unit: str) -> Iterator[Update]:
    """Show progress on standard error, and about how much time is left, while the work is done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, title, total, unit).update
        return
    with new_bar(console) as bar:
        task = bar.add_task(title, total=total, unit=unit, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def new_bar(console: Console) -> Progress:
    """Return a bar, whose tasks have the fields `unit` and `note`, that vanishes when it stops."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
    )


def duration(seconds: float) -> str:
    """Return a time span for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Lines:
    """Prints four lines per minute."""

    def __init__(self, console: Console, title: str, total: int, unit: str) -> None:
        self._console = console
        self._format = f"{title}: {{}}/{total} {unit}"
        self._total = total
        self._began = self._last = time.monotonic()
        self._first: int | None = None

    def update(self, done: int, note: str) -> None:
        """Print the progress if it is time to."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        if now - self._last < PLAIN_SECONDS:
            return
        self._last = now
        extras = [note] if note else []
        if done > self._first:
            left = (now - self._began) / (done - self._first) * (self._total - done)
            extras.append(f"about {duration(left)} left")
        line = ", ".join([self._format.format(done), *extras])
        self._console.print(line, soft_wrap=True)
