"""Training a run until its time is used up."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from zerolab.bench.strength.settings import StrengthSettings
from zerolab.bench.strength.variants import PRESET, VARIANTS
from zerolab.core.errors import UserError, quoted
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.configure import amend, resolve
from zerolab.training.effects import require_effects
from zerolab.training.history import read_records
from zerolab.training.records import AccuracyRecord, GateRecord, Record
from zerolab.training.reporting import Reporter
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer, check_inputs

_ENDLESS = 1_000_000  # iterations; the clock ends a run
_SECONDS = 3600.0
_ROUNDING = 1e-9


class Checkpoint(NamedTuple):
    """A network of a run, and how long it took to train."""

    network: int
    hours: float
    due: float = 0.0
    """The hours after which it is the first network, where it stands for these."""


def train(
    folder: Path, variant: str, seed: int, settings: StrengthSettings, show: Reporter
) -> None:
    """Train one run until its hours are used up; a run that was stopped is resumed.

    Raises UserError for settings that do not fit the game, and where the folder cannot be written.
    """
    wanted = run_settings(variant, seed, settings)
    if is_run(folder):
        run = RunFolder.open(folder)
        wanted = amend(run, _changes(variant, seed, settings))
    else:
        check_inputs(wanted)
        run = RunFolder.create(folder, wanted.model_dump())
    with run.locked():
        clock = _Clock(settings.hours, read_records(run))
        if not clock.is_over:
            try:
                Trainer(run, wanted, show, clock.add).train()
            except _TimeIsUpError:
                return


def run_settings(variant: str, seed: int, settings: StrengthSettings) -> TrainSettings:
    """Return the settings of one run; raise UserError for those that do not fit the game or time.

    A run ends by the clock, so no schedule may depend on its number of iterations.
    """
    found = resolve(settings.game, PRESET, _changes(variant, seed, settings))
    require_effects(found, settings.changes)
    if found.learn.schedule.spans_run:
        raise UserError(
            f"learn.schedule = {quoted(found.learn.schedule.name)} needs a number of iterations,"
            " but hours end these runs: expected another schedule"
        )
    return found


def _changes(variant: str, seed: int, settings: StrengthSettings) -> tuple[str, ...]:
    own = f"seed={seed}", f"iterations={_ENDLESS}"
    return (*own, *VARIANTS[variant].changes, *settings.changes)


def checkpoints(run: RunFolder) -> list[Checkpoint]:
    """Return the best networks after each iteration of a run, with the hours until then."""
    records = [each for each in read_records(run) if not isinstance(each, AccuracyRecord)]
    hours = accumulate(each.wall_seconds / _SECONDS for each in records)
    found, best = [], 0
    for record, spent in zip(records, hours, strict=True):
        if isinstance(record, GateRecord):
            best = record.iteration if record.accepted else best
            found.append(Checkpoint(best, spent))
    return found


def spaced(known: list[Checkpoint], every: float, hours: float) -> list[Checkpoint]:
    """Return the first checkpoints at or after each multiple of `every` below `hours`, and `hours`.

    Where one is the first for several of these times, it stands for the last of them.
    """
    steps = int(hours / every - _ROUNDING)
    chosen: dict[int, Checkpoint] = {}
    for due in (*(every * (step + 1) for step in range(steps)), hours):
        first = next((each for each in known if each.hours >= due), None)
        if first is not None:
            chosen[first.network] = first._replace(due=round(due, 6))
    return list(chosen.values())


class _TimeIsUpError(Exception):
    """Ends training between two iterations."""


class _Clock:
    """Adds up what the stages of a run took, and ends it at the end of an iteration."""

    def __init__(self, hours: float, records: list[Record]) -> None:
        self._left = hours * _SECONDS
        self._ends_iteration = False
        for record in records:
            self._spend(record)

    @property
    def is_over(self) -> bool:
        return self._left <= 0 and self._ends_iteration

    def add(self, record: Record) -> None:
        """Take in a record; raise _TimeIsUpError if it ends an iteration and the time."""
        self._spend(record)
        if self.is_over:
            raise _TimeIsUpError

    def _spend(self, record: Record) -> None:
        if not isinstance(record, AccuracyRecord):
            self._left -= record.wall_seconds
            self._ends_iteration = isinstance(record, GateRecord)
