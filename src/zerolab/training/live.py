"""Progress within a stage, in a hidden file of the run that the web pages read.

The file is not part of the run: it changes about once a second and is removed after training. If
training is killed, the next training removes it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from zerolab.core.config import Settings
from zerolab.core.errors import UserError
from zerolab.core.files import read_text, remove_file, write_text
from zerolab.rules.rules import DRAW, ONGOING
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import Record
from zerolab.training.reporting import Reporter, RunClock

LIVE_FILE = ".live.json"

_MAX_BYTES = 1 << 16
_SECONDS = 1.0
"""Minimum time between two writes."""


class LiveGame(Settings):
    """Latest finished game of self-play."""

    number: int = Field(ge=0)
    """Number of the game in its iteration."""
    actions: tuple[int, ...]
    """All moves, without the -1 of a resignation."""
    result: int = Field(ge=-1, le=1)
    """Outcome for the first player."""


class LiveProgress(Settings):
    """Progress of the stage in progress."""

    iteration: int = Field(ge=0)
    task: str
    """Stage, or part of a stage, such as "gate"."""
    done: int = Field(ge=0)
    """Number of finished units."""
    total: int = Field(ge=0)
    """Number of units of the task."""
    unit: str
    """Unit of the work, such as "games"."""
    note: str
    """Speed, or the agents for which the task is waiting."""
    seconds_left: float | None = None
    """Estimate for the task; None before its first unit is finished."""
    run_seconds_left: float | None = None
    """Estimate for the run; None in the first iteration since training began."""
    latest_game: LiveGame | None = None
    """None before a game of the iteration is finished, and in modes that finish all at once."""


class LiveReporter:
    """Reporter that keeps `LIVE_FILE` up to date and passes all reports on."""

    def __init__(self, run: RunFolder, reporter: Reporter, iterations: int) -> None:
        self._path = run.path / LIVE_FILE
        self._reporter = reporter
        self._clock = RunClock(iterations)
        self._task: dict[str, Any] = {}
        self._game: GameRecord | None = None
        self._began = 0.0
        self._written = -_SECONDS
        self.close()  # the file of a training that was killed

    def message(self, text: str) -> None:
        self._reporter.message(text)

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        self._reporter.stage_started(iteration, title, total, unit)
        self._clock.set_iteration(iteration)
        if self._task.get("iteration") != iteration:
            self._game = None
        self._task = {"iteration": iteration, "task": title, "total": total, "unit": unit}
        self._began = time.monotonic()
        self._show(0, "")

    def progress(self, done: int, note: str = "") -> None:
        self._reporter.progress(done, note)
        self._show(done, note)

    def stage_finished(self, record: Record) -> None:
        self._reporter.stage_finished(record)

    def show_game(self, game: GameRecord) -> None:
        """Show a finished game of self-play, at the next report of progress."""
        self._game = game

    def close(self) -> None:
        """Remove the file."""
        with suppress(UserError):
            remove_file(self._path)

    def _show(self, done: int, note: str) -> None:
        """Write the file, unless the last write is too recent."""
        now = time.monotonic()
        if now - self._written < _SECONDS:
            return
        self._written = now
        total: int = self._task["total"]
        live = LiveProgress(
            **self._task,
            done=done,
            note=note,
            seconds_left=(now - self._began) / done * max(0, total - done) if done else None,
            run_seconds_left=self._clock.remaining_seconds(),
            latest_game=_live_game(self._game),
        )
        with suppress(UserError):  # a full disk ends training when a stage is saved, not before
            write_text(self._path, live.model_dump_json(exclude_none=True), durable=False)


def _live_game(game: GameRecord | None) -> LiveGame | None:
    if game is None:
        return None
    result = DRAW if game.result == ONGOING else game.result  # at the limit of plies
    return LiveGame(number=game.number, actions=game.actions[: game.ply_count], result=result)


def read_live_progress(run: Path) -> LiveProgress | None:
    """Return the progress within a run's stage, or None if there is none or it is unreadable."""
    try:
        return LiveProgress.model_validate_json(read_text(run / LIVE_FILE, _MAX_BYTES))
    except (UserError, ValidationError):
        return None
