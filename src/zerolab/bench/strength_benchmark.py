"""Strength benchmark: accuracy on solved positions against hours of training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from zerolab.bench import strength_report
from zerolab.bench.benchmarks import StrengthSettings, strength_variant
from zerolab.bench.strength_report import (
    AccuracyLog,
    CheckpointAccuracy,
    TimedCheckpoint,
    evaluation_search_options,
    measure_checkpoint_accuracy,
)
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.files import write_text
from zerolab.core.processes import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import CollectionProgress, make_dataset
from zerolab.evaluation.positions import SolvedPositions, read_positions
from zerolab.play.engine import ProgressCallback
from zerolab.report.figures import save_figure
from zerolab.report.table import percent
from zerolab.report.text import titled_markdown_table
from zerolab.rules.catalogue import parse_game
from zerolab.store.folder import FolderKind
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.configure import require_effects, resolve_settings, resume_settings
from zerolab.training.criteria import elapsed_training_seconds
from zerolab.training.records import AccuracyRecord, GateRecord, Record
from zerolab.training.reporting import Reporter, read_records
from zerolab.training.train_settings import TrainSettings
from zerolab.training.trainer import Trainer, check_new_run

_MAX_ITERATIONS = 1_000_000  # never reached, because the clock ends the run
_SECONDS_PER_HOUR = 3600.0
_ROUNDING = 1e-9


def train_for_hours(
    folder: Path, variant: str, seed: int, settings: StrengthSettings, reporter: Reporter
) -> None:
    """Train one run until its hours are used up, resuming it if it was interrupted.

    Raises UserError if the settings do not fit the game or if the folder cannot be written to.
    """
    train_settings = variant_run_settings(variant, seed, settings)
    if is_run(folder):
        run = RunFolder.open(folder)
        train_settings, inputs = resume_settings(run, _changes(variant, seed, settings)), None
    else:
        inputs = check_new_run(train_settings)
        run = RunFolder.create(folder, train_settings.model_dump())
    with run.locked():
        if train_settings.run_length_setting_name:  # the run's stop rule ends it
            if not run.progress.finished:
                Trainer(run, train_settings, reporter, inputs=inputs).train()
            return
        clock = _Clock(settings.hours, read_records(run))
        if not clock.is_over:
            try:
                Trainer(run, train_settings, reporter, clock.add, inputs=inputs).train()
            except _TimeIsUpError:
                return


def variant_run_settings(variant: str, seed: int, settings: StrengthSettings) -> TrainSettings:
    """Return the settings of a run; raise UserError unless they fit the game.

    If a schedule spans the run, the time limit is the run's stop rule and cannot be changed later.
    """
    preset = strength_variant(variant).preset
    train_settings = resolve_settings(settings.game, preset, _changes(variant, seed, settings))
    require_effects(train_settings, settings.changes)
    if train_settings.supervised.positions:
        raise UserError(
            "supervised.positions: expected no value, because all runs of this benchmark learn from"
            " self-play"
        )
    return train_settings


def _changes(variant: str, seed: int, settings: StrengthSettings) -> tuple[str, ...]:
    """Return the settings that differ from the variant's preset, as ``a.b=c``."""
    named = strength_variant(variant)
    run_changes = f"seed={seed}", f"iterations={_MAX_ITERATIONS}", "stop=never"
    changes = (*run_changes, *named.changes, *settings.changes)
    if not resolve_settings(settings.game, named.preset, changes).run_length_setting_name:
        return changes
    limit = f"stop={{name='hours', hours={settings.hours!r}}}"
    return (*changes, "final_evaluation.games=0", limit)


def timed_checkpoints(run: RunFolder) -> list[TimedCheckpoint]:
    """Return the best network after each iteration of a run, and the training hours until then.

    The hours exclude accuracy measurements.
    """
    records = [each for each in read_records(run) if not isinstance(each, AccuracyRecord)]
    seconds_spent = accumulate(elapsed_training_seconds([each]) for each in records)
    timed, best_network = [], 0
    for record, seconds in zip(records, seconds_spent, strict=True):
        if isinstance(record, GateRecord):
            best_network = record.iteration if record.accepted else best_network
            timed.append(TimedCheckpoint(best_network, seconds / _SECONDS_PER_HOUR))
    return timed


def select_due_checkpoints(
    candidates: list[TimedCheckpoint], every: float, hours: float, *, is_finished: bool = False
) -> list[TimedCheckpoint]:
    """Return the first checkpoint at or after each due time, in hours.

    The due times are the multiples of `every` below `hours`, and `hours` itself. The last
    checkpoint of a finished run is used for `hours` even if the run ends a little earlier. After a
    long iteration, a checkpoint can be the first for several due times; it is used for the last of
    these.
    """
    steps = int(hours / every - _ROUNDING)
    selected: dict[float, TimedCheckpoint] = {}
    for due in (*(every * (step + 1) for step in range(steps)), hours):
        latest = candidates[-1] if candidates and is_finished and due == hours else None
        first = next((each for each in candidates if each.hours >= due), latest)
        if first is not None:  # a later due time replaces an earlier one of the same checkpoint
            selected[first.hours] = first._replace(due=round(due, 6))
    return list(selected.values())


class _TimeIsUpError(Exception):
    """Signal to end training after an iteration."""


class _Clock:
    """Time limit that sums the times of stages and ends a run after a complete iteration."""

    def __init__(self, hours: float, records: list[Record]) -> None:
        self._remaining_seconds = hours * _SECONDS_PER_HOUR
        self._is_after_iteration = False
        for record in records:
            self._spend(record)

    @property
    def is_over(self) -> bool:
        return self._remaining_seconds <= 0 and self._is_after_iteration

    def add(self, record: Record) -> None:
        """Add the time of a stage; raise _TimeIsUpError if it ends an iteration and time is up."""
        self._spend(record)
        if self.is_over:
            raise _TimeIsUpError

    def _spend(self, record: Record) -> None:
        if not isinstance(record, AccuracyRecord):
            self._remaining_seconds -= elapsed_training_seconds([record])
            self._is_after_iteration = isinstance(record, GateRecord)


BENCHMARK_FOLDER_KIND = FolderKind("benchmark", "strength.toml", "--folder")

_MAY_GROW = ("variants", "seeds", "hours")
_POSITIONS_SEED = 1


class BenchmarkDisplay(NamedTuple):
    """Functions that display the progress of the benchmark."""

    show_message: Callable[[str], None]
    """Function that displays a line of text."""
    new_training_reporter: Callable[[], AbstractContextManager[Reporter]]
    """Function that creates a reporter for a training run."""
    progress_bar: Callable[[str, int, str], AbstractContextManager[ProgressCallback]]
    """Function that creates a progress bar from a title, a total and a unit."""


def run_strength_benchmark(
    folder: Path, settings: StrengthSettings, display: BenchmarkDisplay
) -> dict[str, list[strength_report.StrengthPoint]]:
    """Run the benchmark in `folder`, write a table and a figure there, and return the curves.

    Later calls can add variants, seeds and hours. Results include all variants of earlier calls.
    Raises UserError if the folder contains other files or a benchmark with other settings, or if
    the settings are inconsistent.
    """
    for variant in settings.variants:  # report errors before solving positions
        evaluation_search_options(variant_run_settings(variant, 0, settings).search, settings)
    with BENCHMARK_FOLDER_KIND.locked(folder):
        all_settings = _save_settings(folder, settings)
        positions = _positions(folder, settings, display)
        accuracy_log = AccuracyLog(folder / "accuracy.jsonl")
        for seed in range(settings.seeds):
            for variant in settings.variants:
                path = folder / "runs" / f"{variant}-{seed}"
                display.show_message(f"{variant}, seed {seed}: {settings.hours:g} h")
                with display.new_training_reporter() as reporter:
                    train_for_hours(path, variant, seed, settings, reporter)
                _measure(path, variant, seed, settings, positions, accuracy_log, display)
        curves = strength_report.strength_curves(accuracy_log.entries, all_settings)
        _write(folder, curves, all_settings)
    return curves


def _save_settings(folder: Path, settings: StrengthSettings) -> StrengthSettings:
    """Save and return the settings, with the variants and seeds of earlier calls."""
    if BENCHMARK_FOLDER_KIND.matches(folder):
        source = str(folder / BENCHMARK_FOLDER_KIND.settings_file)
        previous = validate(
            StrengthSettings, BENCHMARK_FOLDER_KIND.read_settings(folder), source=source
        )
        BENCHMARK_FOLDER_KIND.require_equal_settings(
            folder, previous.model_dump(mode="json"), settings.model_dump(mode="json"),
            except_for=_MAY_GROW,
        )  # fmt: skip
        if settings.hours < previous.hours:
            raise UserError(
                f"hours = {settings.hours:g}: expected at least the {previous.hours:g} hours of the"
                f" runs in {folder}"
            )
        if settings.hours > previous.hours:
            _require_extensible(folder, previous)
        variants = tuple(dict.fromkeys([*previous.variants, *settings.variants]))
        seeds = max(previous.seeds, settings.seeds)
        settings = settings.model_copy(update={"variants": variants, "seeds": seeds})
    BENCHMARK_FOLDER_KIND.write_settings(folder, settings.model_dump(mode="json"))
    return settings


def _require_extensible(folder: Path, previous: StrengthSettings) -> None:
    """Raise UserError if the runs of any variant cannot continue for more hours."""
    for variant in previous.variants:
        if spanning := variant_run_settings(variant, 0, previous).run_length_setting_name:
            raise UserError(
                f"the {variant} runs in {folder} end after {previous.hours:g} hours, because"
                f" {spanning} spans the whole run: expected the same --hours or another --folder"
            )


def _positions(
    folder: Path, settings: StrengthSettings, display: BenchmarkDisplay
) -> SolvedPositions:
    """Return the solved test positions, which the first call collects."""
    game, path = parse_game(settings.game), folder / "positions.parquet"
    if not path.exists():
        dataset_settings = DatasetSettings(seed=_POSITIONS_SEED, perfect=0.5, one_per_game=True)
        title = f"solving {settings.game}"
        with display.progress_bar(title, settings.positions, "positions") as update:

            def show_progress(collected: CollectionProgress) -> None:
                update(collected.position_count, "")

            make_dataset(
                game, settings.positions, dataset_settings, path, available_cores(), show_progress
            )
    positions, _ = read_positions(path, game)
    return positions


def _measure(
    path: Path,
    variant: str,
    seed: int,
    settings: StrengthSettings,
    positions: SolvedPositions,
    accuracy_log: AccuracyLog,
    display: BenchmarkDisplay,
) -> None:
    run = RunFolder.open(path)
    for checkpoint in select_due_checkpoints(
        timed_checkpoints(run), settings.every, settings.hours, is_finished=run.progress.finished
    ):
        measured = accuracy_log.run_entries(variant, seed)
        if any(each.due == checkpoint.due for each in measured):
            continue
        if known := next((x for x in measured if x.network == checkpoint.network), None):
            update = {"due": checkpoint.due, "hours": checkpoint.hours}
            accuracy_log.add(known.model_copy(update=update))
            continue
        title = f"measuring {variant}-{seed}@{checkpoint.network}"
        with display.progress_bar(title, len(positions), "positions") as report:
            shares = measure_checkpoint_accuracy(run, checkpoint, positions, settings, report)
        fields = {"variant": variant, "seed": seed, **checkpoint._asdict(), **shares}
        accuracy = CheckpointAccuracy.model_validate(fields)
        accuracy_log.add(accuracy)
        display.show_message(
            f"{variant}-{seed}, {checkpoint.hours:.2f} h: {percent(accuracy.strong.value)} strong,"
            f" {percent(accuracy.weak.value)} weak,"
            f" network alone {percent(accuracy.network_strong.value)}"
        )


def _write(
    folder: Path, curves: dict[str, list[strength_report.StrengthPoint]], settings: StrengthSettings
) -> None:
    figure = strength_report.draw_strength_curves(curves, settings)
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"strength.{ending}")
    text = titled_markdown_table(strength_report.strength_table(curves, settings))
    write_text(
        folder / "strength.md", f"{text}\n\n![Accuracy against hours of training](strength.png)\n"
    )
