"""Showing how far long work has come: a bar in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from zerolab.cli.progress import duration

PLAIN_SECONDS = 15.0
"""Between lines, where there is no terminal."""

Update = Callable[[int, str], None]
"""Takes the units done so far, and what else is worth saying."""


@contextmanager
def meter(title: str, total: int, unit: str) -> Iterator[Update]:
    """Show progress on standard error, and about how much time is left, while the work is done."""
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield _Lines(console, title, total, unit).update
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit, markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


class _Lines:
    """Prints a line every quarter of a minute."""

    def __init__(self, console: Console, title: str, total: int, unit: str) -> None:
        self._console = console
        self._form = f"{title}: {{}}/{total} {unit}"
        self._total = total
        self._began = self._last = time.monotonic()
        self._first: int | None = None

    def update(self, done: int, note: str) -> None:
        """Print how far it has come if it is time to."""
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
        line = ", ".join([self._form.format(done), *extras])
        self._console.print(line, highlight=False, soft_wrap=True)
