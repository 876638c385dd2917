"""Showing a training run: a live bar in a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_PLAIN_SECONDS = 15.0


class TerminalReporter:
    """Shows the current stage as a bar, and every finished stage as one line above it."""

    def __init__(self, console: Console, iterations: int) -> None:
        self._console = console
        self._clock = RunClock(iterations)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, unit="", note="")

    def __enter__(self) -> TerminalReporter:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def stage(self, iteration: int, name: str, total: int, unit: str) -> None:
        """See `Reporter.stage`."""
        self._clock.stage(iteration)
        self._bar.reset(
            self._task,
            description=f"iteration {iteration}/{self._clock.iterations} {name}",
            total=total,
            unit=unit,
            note="",
        )

    def progress(self, done: int, note: str = "") -> None:
        """See `Reporter.progress`."""
        left = self._clock.left()
        self._bar.update(self._task, completed=done, note=", ".join(filter(None, (note, left))))

    def finish_stage(self, metrics: Mapping[str, Any]) -> None:
        """See `Reporter.finish_stage`."""
        self._console.print(describe_stage(metrics), highlight=False, soft_wrap=True)


class PlainReporter:
    """Prints a line for every finished stage, and now and then one for the stage under way."""

    def __init__(self, console: Console, iterations: int) -> None:
        self._console = console
        self._clock = RunClock(iterations)
        self._stage = ("", 0, "")
        self._last = 0.0

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def stage(self, iteration: int, name: str, total: int, unit: str) -> None:
        """See `Reporter.stage`."""
        self._clock.stage(iteration)
        self._stage = (f"iteration {iteration}/{self._clock.iterations} {name}", total, unit)
        self._last = time.monotonic()

    def progress(self, done: int, note: str = "") -> None:
        """See `Reporter.progress`."""
        if time.monotonic() - self._last < _PLAIN_SECONDS:
            return
        self._last = time.monotonic()
        title, total, unit = self._stage
        extras = "".join(f", {extra}" for extra in (note, self._clock.left()) if extra)
        line = f"{title}: {done}/{total} {unit}{extras}"
        self._console.print(line, highlight=False, soft_wrap=True)

    def finish_stage(self, metrics: Mapping[str, Any]) -> None:
        """See `Reporter.finish_stage`."""
        self._console.print(describe_stage(metrics), highlight=False, soft_wrap=True)


class RunClock:
    """Estimates the time left from the iterations finished since the command began."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self._began = time.monotonic()
        self._first: int | None = None
        self._current = 0

    def stage(self, iteration: int) -> None:
        """Note which iteration is under way."""
        if self._first is None:
            self._first, self._began = iteration, time.monotonic()
        self._current = iteration

    def left(self) -> str:
        """Return the estimate in words; empty before the first iteration is over."""
        done = self._current - (self._first or 0)
        if done < 1 or self._current > self.iterations:
            return ""
        elapsed = time.monotonic() - self._began
        remaining = elapsed / (done + 0.5) * (self.iterations - self._current + 0.5)
        return f"about {duration(remaining)} left"


def duration(seconds: float) -> str:
    """Return a time span for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def describe_stage(metrics: Mapping[str, Any]) -> str:
    """Return one line about a finished stage, from its metrics."""
    head = f"{metrics['iteration']:4}  "
    tail = f"  ({metrics['wall_seconds']:.1f} s)"
    return head + _DESCRIPTIONS[metrics["stage"]](metrics) + tail


def _describe_self_play(m: Mapping[str, Any]) -> str:
    seconds = max(m["wall_seconds"], 1e-9)
    return (
        f"self-play  {m['games']} games ({m['distinct_games']} distinct),"
        f" {m['positions']} positions, {m['positions'] / seconds:,.0f} positions/s,"
        f" {m['simulations'] / seconds:,.0f} simulations/s"
    )


def _describe_learning(m: Mapping[str, Any]) -> str:
    return (
        f"learn      policy loss {m['loss_policy']:.3f}, value loss {m['loss_value']:.3f},"
        f" {m['samples']} samples, {m['samples'] / max(m['wall_seconds'], 1e-9):,.0f} samples/s"
    )


def _describe_gate(m: Mapping[str, Any]) -> str:
    verdict = "accepted" if m["accepted"] else "rejected"
    if "wins" not in m:
        return f"gate       {verdict}"
    score = f"{m['wins']} won, {m['draws']} drawn, {m['losses']} lost"
    return f"gate       {verdict}: {score}, training Elo {m['elo']:+.0f}"


def _describe_contest(m: Mapping[str, Any]) -> str:
    return (
        f"warm_start_match    plain search against the warm start: {m['wins']} won, {m['draws']} drawn,"
        f" {m['losses']} lost; stronger with a probability of {m['los']:.1%}"
    )


def _describe_evaluation(m: Mapping[str, Any]) -> str:
    return (
        f"evaluate   {m['positions']} solved positions, strong {m['network_strong']:.1%}, with"
        f" search {m['search_strong']:.1%}; weak {m['network_weak']:.1%}, {m['search_weak']:.1%}"
    )


def _describe_yardstick(m: Mapping[str, Any]) -> str:
    return (
        f"against {m['opponent']}: {m['score_rate']:.1%} (95 % interval {m['low']:.1%} to"
        f" {m['high']:.1%}), {m['wins']} won, {m['draws']} drawn, {m['losses']} lost,"
        f" {m['distinct_games']} distinct games"
    )


_DESCRIPTIONS = {
    "selfplay": _describe_self_play,
    "learn": _describe_learning,
    "gate": _describe_gate,
    "warm_start_match": _describe_contest,
    "evaluate": _describe_evaluation,
    "measure": _describe_yardstick,
}
