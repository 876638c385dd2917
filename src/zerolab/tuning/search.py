"""Claiming, training and measuring the trials of a settings search.

Each trial is a run with settings proposed by Optuna.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.run_agents import agent_of_run
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, write_text
from zerolab.core.processes import claim_cores, cores_by_worker, map_in_processes
from zerolab.core.resources import ProgressBarFactory
from zerolab.networks.inference import use_gpu_of_worker
from zerolab.networks.objectives import Head
from zerolab.play.match import play_match
from zerolab.report.figures import save_figure
from zerolab.report.table import Interval
from zerolab.report.text import titled_markdown_table
from zerolab.store.run_folder import RUN_FOLDER_KIND, RunFolder, is_run
from zerolab.training.configure import saved_settings, with_values_set_by_run
from zerolab.training.learner import DivergedError
from zerolab.training.records import (
    AccuracyRecord,
    HeldOutRecord,
    LearnRecord,
    OpponentRecord,
    Record,
)
from zerolab.training.reporting import NullReporter, Reporter, RunClock, read_records
from zerolab.training.train_settings import TrainSettings
from zerolab.training.trainer import Trainer
from zerolab.tuning.plan import (
    OPENING_PLIES,
    TuningPlan,
    TuningSettings,
    one_line_error,
    trial_preset_path,
    trial_run_path,
)
from zerolab.tuning.trials import ClaimedTrial, TrialStore
from zerolab.tuning.tuning_report import (
    TuningReport,
    best_result,
    draw_trials_and_importance,
    setting_value_text,
    trial_results,
)

_MACHINE_KEYS = ("selfplay.threads", "device")  # may differ between workers and machines
_MAX_TRIALS = 1_000_000
_MAX_WORKERS = 256
_POLL_SECONDS = 2.0


class TrialDisplay(NamedTuple):
    """Functions that display the progress of trials."""

    show_message: Callable[[str], None]
    """Function that displays a line of text."""
    new_training_reporter: Callable[[RunClock], AbstractContextManager[Reporter]]
    """Function that creates a reporter for a training run with a given clock."""
    progress_bar: ProgressBarFactory


def run_trial(claimed: ClaimedTrial, plan: TuningPlan, folder: Path, display: TrialDisplay) -> None:
    """Train and measure a trial, resuming it if it was stopped, and record its outcome.

    Incompatible settings and diverging training are recorded as outcomes. Raises UserError for
    other problems, such as a full disk.
    """
    try:
        settings = plan.trial_settings(claimed.values, claimed.number)
        preset = plan.trial_preset(claimed.values, claimed.number)
    except UserError as error:
        claimed.refuse(one_line_error(error))
        return
    path = trial_preset_path(folder, claimed.number)
    make_folder(path.parent)
    write_text(path, preset)
    run = _open(trial_run_path(folder, claimed.number), settings)
    try:
        _train(run, claimed, plan, display)
    except _PrunedError:
        claimed.prune(_report_attributes(run, None))
        return
    except DivergedError as error:
        claimed.refuse(one_line_error(error))
        return
    objective = _objective_value(run, plan, display)
    if objective is None:
        claimed.refuse(f"the run ended without a measurement of the {plan.settings.objective}")
        return
    attributes = _report_attributes(run, objective)
    time = [attributes["hours"]] if plan.settings.and_time else []
    claimed.complete([objective.value, *time], attributes)


def _open(path: Path, settings: TrainSettings) -> RunFolder:
    if not is_run(path):
        return RunFolder.create(path, settings.model_dump())
    run = RunFolder.open(path)
    saved = saved_settings(run)
    expected = with_values_set_by_run(settings, saved)
    RUN_FOLDER_KIND.require_equal_settings(
        path, saved.model_dump(), expected.model_dump(), except_for=_MACHINE_KEYS
    )
    return run


class _PrunedError(Exception):
    """Signal to end the training of a trial early."""


def _train(run: RunFolder, claimed: ClaimedTrial, plan: TuningPlan, display: TrialDisplay) -> None:
    settings = saved_settings(run)

    def check(record: Record) -> None:
        if not (plan.has_pruning and isinstance(record, AccuracyRecord)):
            return
        iteration = record.iteration
        by_rule = settings.stop.completed_share(read_records(run))
        share = max(iteration / settings.iterations, by_rule)
        if claimed.record_and_should_prune(iteration, record.search_strong, share):
            raise _PrunedError

    with run.locked():
        for record in read_records(run):  # written by a stopped process
            check(record)
        with display.new_training_reporter(RunClock.of_run(run, settings)) as reporter:
            Trainer(run, settings, reporter, check).train()


def _objective_value(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval | None:
    """Return the objective of a trained run, or None if the run never measured it."""
    if plan.settings.objective == "elo":
        return _elo(run, plan, display)
    records = read_records(run)
    if plan.settings.objective == "loss":
        return _last_loss(records, saved_settings(run).network.heads)
    return _last_accuracy(records)


def _last_accuracy(records: Sequence[Record]) -> Interval | None:
    for record in reversed(records):
        if isinstance(record, AccuracyRecord):
            low, high = record.search_strong_low, record.search_strong_high
            return Interval(record.search_strong, low, high)
    return None


def _last_loss(records: Sequence[Record], heads: Sequence[Head]) -> Interval | None:
    """Return the last sum of head losses, which is comparable between loss functions, or None."""
    for record in reversed(records):
        if isinstance(record, LearnRecord):
            return Interval.unbounded(sum(record.loss[head.name] for head in heads))
    return None


def _elo(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval:
    """Return the Elo of the best network relative to the opponent.

    Each random opening is played with both colours, and all trials use the same openings.
    """
    settings = plan.settings
    assert plan.opponent is not None  # checked by the plan
    agent = agent_of_run(run, run.progress.best)
    title = f"{agent.name} against {plan.opponent.name}"
    with display.progress_bar(title, settings.match_games, "games") as update:
        match = play_match(
            plan.game, agent, plan.opponent, settings.match_games, settings.seed,
            progress=update, openings=OPENING_PLIES,
        )  # fmt: skip
    return match.elo_difference().interval


def _report_attributes(run: RunFolder, objective: Interval | None) -> dict[str, float]:
    """Return attributes for reports: the training time and, if known, the ends of the interval."""
    attributes = {"hours": _training_hours(read_records(run))}
    if objective is not None and objective.is_bounded:
        attributes |= {"low": objective.low, "high": objective.high}
    return attributes


def _training_hours(records: Sequence[Record]) -> float:
    """Return the hours spent on self-play, learning and gates, excluding measurements."""
    measurements = AccuracyRecord | HeldOutRecord | OpponentRecord
    training = (record for record in records if not isinstance(record, measurements))
    return sum(record.wall_seconds for record in training) / 3600


def tune(
    folder: Path, settings: TuningSettings, trial_count: int, workers: int, display: TrialDisplay
) -> TuningReport:
    """Search until there are `trial_count` trials, and write the report to the folder.

    A stopped search is resumed. Several processes can work in one folder at the same time, on
    different trials. Raises UserError for invalid settings, if possible before the folder is
    created.
    """
    _require_count("trials", trial_count, _MAX_TRIALS)
    _require_count("workers", workers, _MAX_WORKERS)
    plan = TuningPlan(settings)
    store = TrialStore(folder, plan)
    if workers == 1:
        work_on_trials(
            store,
            trial_count,
            lambda claimed: _run_and_show(claimed, plan, store, trial_count, display),
        )
    else:
        _work_together(store, plan, trial_count, workers, display.progress_bar)
    return _report(store, plan)


def work_on_trials(
    store: TrialStore, trial_count: int, work: Callable[[ClaimedTrial], None]
) -> None:
    """Claim trials one by one and call `work` with each, until there are `trial_count`."""
    while True:
        with store.claim_trial(trial_count) as claimed:
            if claimed is None:
                return
            work(claimed)


def _run_and_show(
    claimed: ClaimedTrial,
    plan: TuningPlan,
    store: TrialStore,
    trial_count: int,
    display: TrialDisplay,
) -> None:
    values = ", ".join(
        f"{key} = {setting_value_text(value)}" for key, value in claimed.values.items()
    )
    display.show_message(f"trial {claimed.number} of {trial_count} trials: {values}")
    run_trial(claimed, plan, store.folder, display)
    outcome = trial_results(store)[claimed.number].summary(plan.settings.objective)
    display.show_message(f"trial {claimed.number}: {outcome}\n")


class _WorkerJob(NamedTuple):
    """Arguments of a worker process."""

    folder: Path
    settings: TuningSettings
    trial_count: int
    core_locks: Path
    cores_by_worker: list[list[int]]
    """Cores of each process; see `claim_cores`."""


def _work_together(
    store: TrialStore,
    plan: TuningPlan,
    trial_count: int,
    workers: int,
    progress_bar: ProgressBarFactory,
) -> None:
    with tempfile.TemporaryDirectory(prefix="zerolab-workers-") as core_locks:
        job = _WorkerJob(
            store.folder, plan.settings, trial_count, Path(core_locks), cores_by_worker(workers)
        )
        with (
            _progress_shown(store, plan, trial_count, progress_bar),
            map_in_processes(
                _run_worker, repeat(job, workers), workers, option="--workers"
            ) as finished,
        ):
            for _ in finished:
                pass


def _run_worker(job: _WorkerJob) -> None:
    """Run trials in a worker process without displaying progress."""
    use_gpu_of_worker(claim_cores(job.core_locks, job.cores_by_worker))
    plan = TuningPlan(job.settings)
    store = TrialStore(job.folder, plan)
    quiet = TrialDisplay(lambda text: None, lambda clock: nullcontext(NullReporter()), _no_progress)
    work_on_trials(
        store, job.trial_count, lambda claimed: run_trial(claimed, plan, job.folder, quiet)
    )


@contextmanager
def _no_progress(title: str, total: int, unit: str) -> Iterator[Callable[[int, str], None]]:
    yield lambda done, note: None


@contextmanager
def _progress_shown(
    store: TrialStore, plan: TuningPlan, trial_count: int, progress_bar: ProgressBarFactory
) -> Iterator[None]:
    """Show how many trials are finished, and the best result, while other processes are working."""
    stop = threading.Event()

    def follow(update: Callable[[int, str], None]) -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                results = trial_results(store)
            except UserError:  # also reported by the workers
                return
            best = best_result(results, plan.settings)
            note = "" if best is None else f"best: {best.summary(plan.settings.objective)}"
            update(sum(result.state != "running" for result in results), note)

    with progress_bar("searching", trial_count, "trials") as update:
        thread = threading.Thread(target=follow, args=(update,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _report(store: TrialStore, plan: TuningPlan) -> TuningReport:
    """Write the table, figure and best preset to the folder, and return the report."""
    report = TuningReport.from_store(store, plan)
    write_text(
        store.folder / "tuning.md", titled_markdown_table(report.table(all_trials=True)) + "\n"
    )
    if (best := report.best_result) is not None:
        # Hours are omitted so that a resumed search writes an identical file.
        head = f"# Trial {best.number}: {best.objective_text(plan.settings.objective)}\n"
        preset = plan.trial_preset(best.setting_values, best.number)
        write_text(store.folder / "best.toml", head + preset)
        figure = draw_trials_and_importance(report)
        for suffix in ("png", "svg"):
            save_figure(figure, store.folder / f"tuning.{suffix}")
    return report


def _require_count(name: str, count: int, maximum: int) -> None:
    if not 1 <= count <= maximum:
        raise UserError(f"{name} = {quoted(count)}: expected a number from 1 to {maximum:,}")
