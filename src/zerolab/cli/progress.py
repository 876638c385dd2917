"""Progress displays: bars in a terminal, plain lines elsewhere, and the summary of a run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from zerolab.cli.output import Console
from zerolab.cli.process import compilation_notice, wrap_line
from zerolab.core.config import Settings, VariantSettings
from zerolab.training.records import Record
from zerolab.training.reporting import RunClock

if TYPE_CHECKING:
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.train_settings import TrainSettings

PLAIN_INTERVAL_SECONDS = 15.0
"""Minimum number of seconds between lines of progress if the output is not a terminal."""

ProgressCallback = Callable[[int, str], None]
"""Callback that receives the number of finished units and a note."""


@contextmanager
def progress_bar(title: str, total: int, unit: str) -> Iterator[ProgressCallback]:
    """Show progress and an estimate of the remaining time on standard error; yield a callback."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, title, total, unit).update
        return
    with new_rich_progress(console) as bar:
        task = bar.add_task(title, total=total, unit=unit, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def new_rich_progress(console: Console) -> Progress:
    """Return a progress bar that disappears when stopped, for tasks with `unit` and `note`."""
    return _Progress(
        _CutText("{task.description}"),
        BarColumn(bar_width=min(24, console.width // 8)),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        _CutText("{task.fields[note]}"),
        console=console,
        transient=True,
    )


class _Progress(Progress):
    """Progress bars above the notice that kernels are being compiled."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if text := compilation_notice.text():
            yield Text(text)


class _CutText(TextColumn):
    """Text column that, unlike other columns, truncates lines too long for the terminal."""

    def __init__(self, text_format: str) -> None:
        # Rich shrinks only columns that may wrap; `render` keeps the text itself from wrapping.
        super().__init__(text_format, markup=False, table_column=Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def format_duration(seconds: float) -> str:
    """Return a duration as text, such as 45 s, 12 min or 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Lines:
    """Progress display for output that is not a terminal: at most four lines per minute."""

    def __init__(self, console: Console, title: str, total: int, unit: str) -> None:
        self._console = console
        self._format = f"{title}: {{}}/{total} {unit}"
        self._total = total
        self._began = self._last = time.monotonic()
        self._first: int | None = None

    def update(self, done: int, note: str) -> None:
        """Print the progress unless the last line is too recent."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        if now - self._last < PLAIN_INTERVAL_SECONDS:
            return
        self._last = now
        extras = [note] if note else []
        if done > self._first:
            remaining = (now - self._began) / (done - self._first) * (self._total - done)
            extras.append(f"about {format_duration(remaining)} left")
        line = ", ".join([self._format.format(done), *extras])
        _print(self._console, line)


class TerminalReporter:
    """Reporter that shows the current stage as a bar, below a line for each finished stage."""

    def __init__(self, console: Console, clock: RunClock) -> None:
        self._console = console
        self._clock = clock
        self._bar = new_rich_progress(console)
        self._task = self._bar.add_task("starting", total=None, unit="", note="")

    def __enter__(self) -> TerminalReporter:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def message(self, text: str) -> None:
        _print(self._console, text)

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        self._clock.set_iteration(iteration)
        self._bar.reset(
            self._task,
            description=f"iteration {self._clock.iteration_of_total} {title}",
            total=total,
            unit=unit,
            note="",
        )

    def progress(self, done: int, note: str = "") -> None:
        notes = ", ".join(filter(None, (note, _time_left(self._clock))))
        self._bar.update(self._task, completed=done, note=notes)

    def stage_finished(self, record: Record) -> None:
        _print(self._console, describe_record(record))


class PlainReporter:
    """Reporter that prints each finished stage, and progress at most four times per minute."""

    def __init__(self, console: Console, clock: RunClock) -> None:
        self._console = console
        self._clock = clock
        self._stage = ("", 0, "")
        self._last = 0.0

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def message(self, text: str) -> None:
        _print(self._console, text)

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        self._clock.set_iteration(iteration)
        self._stage = (f"iteration {self._clock.iteration_of_total} {title}", total, unit)
        self._last = time.monotonic()

    def progress(self, done: int, note: str = "") -> None:
        if time.monotonic() - self._last < PLAIN_INTERVAL_SECONDS:
            return
        self._last = time.monotonic()
        title, total, unit = self._stage
        extras = "".join(f", {extra}" for extra in (note, _time_left(self._clock)) if extra)
        line = f"{title}: {done}/{total} {unit}{extras}"
        _print(self._console, line)

    def stage_finished(self, record: Record) -> None:
        _print(self._console, describe_record(record))


def _time_left(clock: RunClock) -> str:
    """Return the estimate of a run's remaining time as text, or "" if there is none."""
    seconds = clock.remaining_seconds()
    return "" if seconds is None else f"about {format_duration(seconds)} left"


def describe_record(record: Record) -> str:
    """Return a one-line description of a finished stage."""
    return f"{record.iteration:4}  {record.summary()}  ({record.wall_seconds:.1f} s)"


def _print(console: Console, line: str) -> None:
    console.print(line if console.soft_wrap else wrap_line(line, console.width))


def print_run_header(
    console: Console, run: RunFolder, settings: TrainSettings, verbose: bool
) -> None:
    """Print the main settings and the progress of a run, preceded by all settings if `verbose`."""
    from zerolab.store.folder import RunProgress

    if verbose:
        import tomli_w

        console.print(tomli_w.dumps(settings.model_dump()))
    lines = main_settings(settings)
    width = max(map(len, lines))
    for title, text in lines.items():
        line = f"{title:{width}}  {text}"
        console.print(wrap_line(line, None if console.soft_wrap else console.width, width + 2))
    progress = run.progress
    is_extended = progress.finished and settings.iterations >= progress.iteration
    stage = "" if is_extended else f", {progress.stage}"
    resumed = f"resumed at iteration {min(progress.iteration, settings.iterations)}{stage}"
    state = "new run" if progress == RunProgress() else resumed
    if not verbose:
        console.print(f"all settings: --verbose, or {run.path / 'config.toml'}")
    if not progress.finished or settings.iterations >= progress.iteration:
        console.print(f"{run.path}: {state}\n")


def finished_message(run: RunFolder, settings: TrainSettings) -> str:
    """Return the message for a finished run, including how to continue it if possible."""
    done = run.progress.current_iteration
    message = f"{run.path}: already finished after {done} iteration{'s' * (done != 1)}"
    if done < settings.iterations:
        return f'{message} of {settings.iterations}, because of stop = "{settings.stop.name}"'
    if settings.run_length_setting_name:
        return (
            f"{message}; it cannot be extended, because {settings.run_length_setting_name} spans"
            " the whole run"
        )
    command = shlex.join(["zerolab", "train", "--run", str(run.path)])
    return f"{message}; train further with {command} --set iterations=N"


def main_settings(settings: TrainSettings) -> dict[str, str]:
    """Return the main settings of a run as text, by title."""
    heads = ", ".join(head.name for head in settings.network.heads)
    lines = {
        "game": settings.game,
        "preset": f"{settings.preset or 'none'}, seed {settings.seed}",
        "network": f"{_variant_text(settings.network)}; heads {heads}",
    }
    if settings.start is not None:
        lines["start"] = f"{settings.start.source}, transfer {settings.start.transfer}"
    if settings.supervised.positions:
        lines["positions"] = settings.supervised.positions
    else:
        search = settings.search
        first = settings.selfplay.search_settings_at(0.0, search).simulations
        growth = f"{first} to " if first < search.simulations else ""
        lines["search"] = (
            f"{growth}{search.simulations} simulations per move, {_variant_text(search.selection)}"
        )
        lines["self-play"] = _self_play(settings)
    lines["iterations"] = str(settings.iterations)
    if settings.stop.name != "never":
        lines["iterations"] += f" at most, stop {_variant_text(settings.stop)}"
    return lines


def _self_play(settings: TrainSettings) -> str:
    play = settings.selfplay
    if play.mode.name == "continuous":
        positions = play.mode.plies * play.parallel_games
        text = f"{positions:,} positions per iteration, in {play.parallel_games:,} games at once"
    else:
        text = f"{play.episodes:,} games per iteration, {_variant_text(play.mode)}"
    return text if settings.league is None else f"{text}, in a league"


def _variant_text(variant: VariantSettings) -> str:
    """Return the name of a variant and its values, such as ``puct (c 0.6)``."""
    values = [
        f"{name} {value}"
        for name, value in variant
        if name != "name" and value is not None and not isinstance(value, tuple | Settings)
    ]
    return f"{variant.name} ({', '.join(values)})" if values else variant.name
