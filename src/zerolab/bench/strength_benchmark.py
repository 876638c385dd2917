"""Strength benchmark of accuracy on solved positions against training hours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from zerolab.bench import strength_report
from zerolab.bench.strength_report import (
    Checkpoint,
    Measured,
    Measurements,
    measure,
    search_at_test,
)
from zerolab.bench.strength_settings import PRESET, VARIANTS, StrengthSettings
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import write_text
from zerolab.core.processes import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import CollectionProgress, make_dataset
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.play.engine import Progress
from zerolab.report.figures import save_figure
from zerolab.report.markdown import titled_table
from zerolab.rules.catalogue import parse_game
from zerolab.store.folder import FolderKind
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.configure import amend_settings, require_effects, resolve_settings
from zerolab.training.records import AccuracyRecord, GateRecord, Record
from zerolab.training.reporting import Reporter, read_records
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer, check_new_run

_ENDLESS = 1_000_000  # iterations; the clock ends a run
_SECONDS = 3600.0
_ROUNDING = 1e-9


def train(
    folder: Path, variant: str, seed: int, settings: StrengthSettings, show: Reporter
) -> None:
    """Train one run until its hours are used up, resuming it if it was interrupted.

    Raise UserError if the settings do not fit the game or the folder cannot be written.
    """
    train_settings = run_settings(variant, seed, settings)
    if is_run(folder):
        run = RunFolder.open(folder)
        train_settings, inputs = amend_settings(run, _changes(variant, seed, settings)), None
    else:
        inputs = check_new_run(train_settings)
        run = RunFolder.create(folder, train_settings.model_dump())
    with run.locked():
        clock = _Clock(settings.hours, read_records(run))
        if not clock.is_over:
            try:
                Trainer(run, train_settings, show, clock.add, inputs=inputs).train()
            except _TimeIsUpError:
                return


def run_settings(variant: str, seed: int, settings: StrengthSettings) -> TrainSettings:
    """Return one run's settings; raise UserError if they do not fit the game or the time limit.

    Runs end by time, so no schedule may depend on the number of iterations.
    """
    train_settings = resolve_settings(settings.game, PRESET, _changes(variant, seed, settings))
    require_effects(train_settings, settings.changes)
    schedule = train_settings.learn.schedule
    if schedule.spans_run:
        raise UserError(
            f"learn.schedule = {quoted(schedule.name)} depends on the number of iterations,"
            " but these runs end after a number of hours: expected another schedule"
        )
    return train_settings


def _changes(variant: str, seed: int, settings: StrengthSettings) -> tuple[str, ...]:
    run_changes = f"seed={seed}", f"iterations={_ENDLESS}"
    return (*run_changes, *VARIANTS[variant].changes, *settings.changes)


def checkpoints(run: RunFolder) -> list[Checkpoint]:
    """Return the best network after each iteration of a run, with the hours spent until then."""
    records = [each for each in read_records(run) if not isinstance(each, AccuracyRecord)]
    hours = accumulate(each.wall_seconds / _SECONDS for each in records)
    best_networks, best = [], 0
    for record, spent in zip(records, hours, strict=True):
        if isinstance(record, GateRecord):
            best = record.iteration if record.accepted else best
            best_networks.append(Checkpoint(best, spent))
    return best_networks


def spaced(candidates: list[Checkpoint], every: float, hours: float) -> list[Checkpoint]:
    """Return the first checkpoint at or after each multiple of `every` below `hours`, and `hours`.

    A checkpoint that is first for several of these times is returned once, with the last of them.
    """
    steps = int(hours / every - _ROUNDING)
    selected: dict[int, Checkpoint] = {}
    for due in (*(every * (step + 1) for step in range(steps)), hours):
        first = next((each for each in candidates if each.hours >= due), None)
        if first is not None:
            selected[first.network] = first._replace(due=round(due, 6))
    return list(selected.values())


class _TimeIsUpError(Exception):
    """Signal to end training between two iterations."""


class _Clock:
    """Time limit that adds up stage durations and ends a run after a complete iteration."""

    def __init__(self, hours: float, records: list[Record]) -> None:
        self._remaining_seconds = hours * _SECONDS
        self._ends_iteration = False
        for record in records:
            self._spend(record)

    @property
    def is_over(self) -> bool:
        return self._remaining_seconds <= 0 and self._ends_iteration

    def add(self, record: Record) -> None:
        """Add a stage's time; raise _TimeIsUpError if an iteration ends and the time is used up."""
        self._spend(record)
        if self.is_over:
            raise _TimeIsUpError

    def _spend(self, record: Record) -> None:
        if not isinstance(record, AccuracyRecord):
            self._remaining_seconds -= record.wall_seconds
            self._ends_iteration = isinstance(record, GateRecord)


FOLDER = FolderKind("benchmark", "strength.toml", "--folder")

_MAY_GROW = ("variants", "seeds", "hours")
_POSITIONS_SEED = 1


class Watcher(NamedTuple):
    """Callbacks that show the benchmark's progress."""

    message: Callable[[str], None]
    """Shows a line of text."""
    training: Callable[[], AbstractContextManager[Reporter]]
    """Creates a reporter for a training run."""
    progress: Callable[[str, int, str], AbstractContextManager[Progress]]
    """Creates a progress bar from a title, total and unit."""


def run(
    folder: Path, settings: StrengthSettings, watcher: Watcher
) -> dict[str, list[strength_report.Point]]:
    """Run the benchmark in `folder`, write a table and figure there, and return the points.

    Later calls can add variants, seeds and hours. Raise UserError if the folder contains anything
    else or other settings, or if the settings are inconsistent.
    """
    for variant in settings.variants:  # report mistakes before solving positions
        search_at_test(run_settings(variant, 0, settings).search, settings)
    with FOLDER.locked(folder):
        _keep_settings(folder, settings)
        positions = _positions(folder, settings, watcher)
        measurements = Measurements(folder / "accuracy.jsonl")
        for seed in range(settings.seeds):
            for variant in settings.variants:
                path = folder / "runs" / f"{variant}-{seed}"
                watcher.message(f"{variant}, seed {seed}: {settings.hours:g} h")
                with watcher.training() as reporter:
                    train(path, variant, seed, settings, reporter)
                _measure(path, variant, seed, settings, positions, measurements, watcher)
        curves = strength_report.curves(measurements.all, settings)
        _write(folder, curves, settings)
    return curves


def _keep_settings(folder: Path, settings: StrengthSettings) -> None:
    if FOLDER.is_in(folder):
        source = str(folder / FOLDER.settings_file)
        previous = validate(StrengthSettings, FOLDER.read_settings(folder), source=source)
        FOLDER.require_equal(
            folder, previous.model_dump(mode="json"), settings.model_dump(mode="json"),
            except_for=_MAY_GROW,
        )  # fmt: skip
        if settings.hours < previous.hours:
            raise UserError(
                f"hours = {settings.hours:g}: runs in {folder} already have {previous.hours:g}"
            )
    FOLDER.write_settings(folder, settings.model_dump(mode="json"))


def _positions(folder: Path, settings: StrengthSettings, watcher: Watcher) -> Positions:
    """Return the solved positions, generating them on the first call."""
    game, path = parse_game(settings.game), folder / "positions.parquet"
    if not path.exists():
        dataset_settings = DatasetSettings(seed=_POSITIONS_SEED, perfect=0.5, one_per_game=True)
        title = f"solving {settings.game}"
        with watcher.progress(title, settings.positions, "positions") as update:

            def show(collected: CollectionProgress) -> None:
                update(collected.positions, "")

            make_dataset(game, settings.positions, dataset_settings, path, available_cores(), show)
    positions, _ = read_positions(path, game)
    return positions


def _measure(
    path: Path,
    variant: str,
    seed: int,
    settings: StrengthSettings,
    positions: Positions,
    measurements: Measurements,
    watcher: Watcher,
) -> None:
    run = RunFolder.open(path)
    for checkpoint in spaced(checkpoints(run), settings.every, settings.hours):
        if measurements.has(variant, seed, checkpoint.network):
            continue
        title = f"measuring {variant}-{seed}@{checkpoint.network}"
        with watcher.progress(title, len(positions), "positions") as update:
            shares = measure(run, checkpoint, positions, settings, update)
        fields = {"variant": variant, "seed": seed, **checkpoint._asdict(), **shares}
        measured = Measured.model_validate(fields)
        measurements.add(measured)
        watcher.message(
            f"{variant}-{seed}, {checkpoint.hours:.2f} h: {measured.strong.value:.1%} strong,"
            f" {measured.weak.value:.1%} weak, network alone {measured.network_strong.value:.1%}"
        )


def _write(
    folder: Path, curves: dict[str, list[strength_report.Point]], settings: StrengthSettings
) -> None:
    figure = strength_report.draw(curves, settings)
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"strength.{ending}")
    text = titled_table(strength_report.table(curves, settings))
    write_text(folder / "strength.md", f"{text}\n\n![Accuracy over hours](strength.png)\n")
