"""Records read from runs, and reporters of progress.

Progress within a stage is stored in a hidden file of the run, `LIVE_FILE_NAME`, which the web pages
read. The file changes about once a second and is removed after training. If a run is killed, the
next training removes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field, ValidationError

from zerolab.core.config import Settings, settings_error
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_text, remove_file, write_text
from zerolab.rules.rules import DRAW, ONGOING
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import GateRecord, HeldOutRecord, OpponentRecord, Record

if TYPE_CHECKING:
    from zerolab.training.train_settings import TrainSettings


def read_records(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return [_record(line, str(run.path / "metrics.jsonl")) for line in run.metrics()]


def parse_records(lines: Iterable[Mapping[str, Any]], source: str = "") -> list[Record]:
    """Return records from lines of metrics.jsonl; raise UserError if they are damaged.

    `source` names the origin of the lines in error messages.
    """
    return [_record(line, source) for line in lines]


def without_final_evaluations(records: Iterable[Record]) -> list[Record]:
    """Return the records without those of final evaluations, which an extended run can contain."""
    return [
        record
        for record in records
        if not isinstance(record, OpponentRecord)
        and not (isinstance(record, HeldOutRecord) and record.part == "test")
    ]


def best_network_after(records: Iterable[Record], iteration: int) -> int:
    """Return the iteration of the best network after `iteration`; 0 is the initial network."""
    accepted = (
        record.iteration
        for record in records
        if isinstance(record, HeldOutRecord) or (isinstance(record, GateRecord) and record.accepted)
    )
    return max((number for number in accepted if number <= iteration), default=0)


def _record(line: Mapping[str, Any], source: str) -> Record:
    stage = line.get("stage")
    if not isinstance(stage, str) or stage not in Record.class_by_stage:
        stages = ", ".join(Record.class_by_stage)
        raise UserError(f"{source}: unknown stage {quoted(stage)}: expected one of {stages}")
    kind = Record.class_by_stage[stage]
    try:
        return kind.model_validate(dict(line))
    except ValidationError as error:
        raise settings_error(kind, error, source) from None


class Reporter(Protocol):
    """Display of a run's progress; the trainer calls it in the training thread."""

    def message(self, text: str) -> None:
        """Show a line that does not belong to a stage."""
        ...

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        """Report the start of a stage, or of a part of one, with `total` units of work."""
        ...

    def progress(self, done: int, note: str = "") -> None:
        """Report the number of finished units, with an optional note."""
        ...

    def stage_finished(self, record: Record) -> None:
        """Report the record of a finished stage after it is saved."""
        ...


class NullReporter:
    """Reporter that shows nothing."""

    def message(self, text: str) -> None:
        pass

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        pass

    def progress(self, done: int, note: str = "") -> None:
        pass

    def stage_finished(self, record: Record) -> None:
        pass


class RunClock:
    """Clock that estimates a run's remaining time from the iterations since the command started.

    `iterations` is None for a run without a fixed number of iterations. `seconds_left` is the time
    until the stop rule ends the run, or None without a time limit. `completed_share` returns the
    share of the run that its stop rule counts as done; it is called once per iteration.
    """

    def __init__(
        self,
        iterations: int | None,
        seconds_left: float | None = None,
        completed_share: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._iterations = iterations
        self._began = self._iteration_began = time.monotonic()
        self._limit = None if seconds_left is None else self._began + seconds_left
        self._completed_share = completed_share
        self._first_share = self._share = 0.0
        self._first: int | None = None
        self._current = 0

    @classmethod
    def of_run(cls, run: RunFolder, settings: TrainSettings) -> RunClock:
        """Return the clock of a run whose training starts or is resumed now."""

        def records() -> list[Record]:
            return without_final_evaluations(read_records(run))

        return cls(
            settings.iterations,
            settings.stop.seconds_left(records()),
            lambda: settings.stop.completed_share(records()),
        )

    def set_iteration(self, iteration: int) -> None:
        """Set the current iteration."""
        if self._first is None or iteration != self._current:
            self._iteration_began, self._share = time.monotonic(), self._completed_share()
        if self._first is None:
            self._first, self._began = iteration, self._iteration_began
            self._first_share = self._share
        self._current = iteration

    @property
    def iteration_of_total(self) -> str:
        """Number of the current iteration, with the total if known, such as ``3/60``."""
        total = "" if self._iterations is None else f"/{self._iterations}"
        return f"{self._current}{total}"

    def remaining_seconds(self) -> float | None:
        """Return the estimated number of remaining seconds.

        Returns None once the estimate or the time limit is exceeded. Without a time limit, also
        returns None in the first iteration, after the last iteration, and if the number of
        iterations is not fixed.
        """
        now = time.monotonic()
        left = None if self._limit is None else self._limit - now
        done = self._current - (self._first or 0)
        if self._iterations is not None and done >= 1 and self._current <= self._iterations:
            seconds = (now - self._began) / (done + 0.5)
            by_iterations = seconds * (self._iterations - self._current + 0.5)
            left = by_iterations if left is None else min(left, by_iterations)
            gained = self._share - self._first_share
            if self._limit is None and gained > 0:
                seconds = (self._iteration_began - self._began) / gained
                left = min(left, seconds * (1 - self._share) - (now - self._iteration_began))
        return left if left is None or left > 0 else None


LIVE_FILE_NAME = ".live.json"

_MAX_BYTES = 1 << 16
_SECONDS = 1.0
"""Minimum time in seconds between writes of the file."""


class LiveGame(Settings):
    """Latest finished game of self-play."""

    number: int = Field(ge=0)
    """Number of the game in its iteration."""
    actions: tuple[int, ...]
    """All moves, without the -1 of a resignation."""
    result: int = Field(ge=-1, le=1)
    """Outcome for the first player."""


class LiveProgress(Settings):
    """Progress within the current stage."""

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
    """Estimated seconds until the task ends; None before its first unit is finished."""
    run_seconds_left: float | None = None
    """Estimated seconds until the run ends, or None (see `RunClock.remaining_seconds`)."""
    latest_game: LiveGame | None = None
    """Latest game; None until one is finished, and in modes that finish all games together."""


class LiveReporter:
    """Reporter that keeps `LIVE_FILE_NAME` up to date and forwards all reports."""

    def __init__(self, run: RunFolder, reporter: Reporter, clock: RunClock) -> None:
        self._path = run.path / LIVE_FILE_NAME
        self._reporter = reporter
        self._clock = clock
        self._task: dict[str, Any] = {}
        self._game: GameRecord | None = None
        self._began = 0.0
        self._written = -_SECONDS
        self.close()  # the file that a killed process left behind

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
    result = DRAW if game.result == ONGOING else game.result  # the game reached its ply limit
    return LiveGame(number=game.number, actions=game.actions[: game.ply_count], result=result)


def read_live_progress(run: Path) -> LiveProgress | None:
    """Return the progress within a run's stage, or None if there is none or it is unreadable."""
    try:
        return LiveProgress.model_validate_json(read_text(run / LIVE_FILE_NAME, _MAX_BYTES))
    except (UserError, ValidationError):
        return None
