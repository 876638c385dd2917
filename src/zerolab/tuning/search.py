"""Settings search, which claims, trains and measures trials.

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

from zerolab.agents.kinds.run import run_agent
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, write_text
from zerolab.core.processes import ProgressBar, claim_cores, map_in_processes, shares_of_cores
from zerolab.play.match import play_match
from zerolab.report.figures import save_figure
from zerolab.report.interval import Interval
from zerolab.report.markdown import titled_table
from zerolab.store.run_folder import RUN, RunFolder, is_run
from zerolab.training.configure import complete_settings, saved_settings
from zerolab.training.learner import DivergedError
from zerolab.training.records import FINAL_RECORDS, AccuracyRecord, LearnRecord, Record
from zerolab.training.reporting import NullReporter, Reporter, read_records
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer
from zerolab.tuning.plan import (
    OPENINGS,
    TuningPlan,
    TuningSettings,
    joined_error,
    preset_path,
    run_path,
)
from zerolab.tuning.trials import ClaimedTrial, TrialStore
from zerolab.tuning.tuning_report import TuningReport, best_of, draw_tuning, results_of, short

_MACHINE = ("selfplay.threads",)  # can differ if a run is resumed with another number of workers
_MAX_TRIALS = 1_000_000
_MAX_WORKERS = 256
_POLL_SECONDS = 2.0


class TrialDisplay(NamedTuple):
    """Functions that display the progress of trials."""

    message: Callable[[str], None]
    """Function that displays a line of text."""
    training: Callable[[int], AbstractContextManager[Reporter]]
    """Function that returns a training reporter for a given number of iterations."""
    progress_bar: ProgressBar


def run_trial(claimed: ClaimedTrial, plan: TuningPlan, folder: Path, display: TrialDisplay) -> None:
    """Train and measure a trial, resuming it if necessary, and record its outcome.

    Incompatible settings and diverging training count as outcomes. Other problems, such as a full
    disk, raise UserError.
    """
    try:
        settings = plan.trial(claimed.values, claimed.number)
        preset = plan.preset(claimed.values, claimed.number)
    except UserError as error:
        claimed.refuse(joined_error(error))
        return
    path = preset_path(folder, claimed.number)
    make_folder(path.parent)
    write_text(path, preset)
    run = _open(run_path(folder, claimed.number), settings)
    try:
        _train(run, claimed, plan, display)
    except _FallsBehindError:
        claimed.prune(_facts(run, None))
        return
    except DivergedError as error:
        claimed.refuse(joined_error(error))
        return
    objective = _measure(run, plan, display)
    if objective is None:
        claimed.refuse(f"the run ended without a measurement of {plan.settings.objective}")
        return
    facts = _facts(run, objective)
    time = [facts["hours"]] if plan.settings.and_time else []
    claimed.finish([objective.value, *time], facts)


def _open(path: Path, settings: TrainSettings) -> RunFolder:
    if not is_run(path):
        return RunFolder.create(path, settings.model_dump())
    run = RunFolder.open(path)
    saved = saved_settings(run)
    expected = complete_settings(settings, saved)
    RUN.require_equal(path, saved.model_dump(), expected.model_dump(), except_for=_MACHINE)
    return run


class _FallsBehindError(Exception):
    """Signal to stop the training of a trial early."""


def _train(run: RunFolder, claimed: ClaimedTrial, plan: TuningPlan, display: TrialDisplay) -> None:
    def check(record: Record) -> None:
        if (
            plan.prunes
            and isinstance(record, AccuracyRecord)
            and claimed.falls_behind(record.iteration, record.search_strong)
        ):
            raise _FallsBehindError

    settings = saved_settings(run)
    with run.locked():
        for record in read_records(run):  # left by a stopped process
            check(record)
        with display.training(settings.iterations) as reporter:
            Trainer(run, settings, reporter, check).train()


def _measure(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval | None:
    """Return the objective of a trained run, or None if it was never measured."""
    if plan.settings.objective == "elo":
        return _elo(run, plan, display)
    records = read_records(run)
    if plan.settings.objective == "loss":
        return _last_loss(records)
    return _last_accuracy(records)


def _last_accuracy(records: Sequence[Record]) -> Interval | None:
    for record in reversed(records):
        if isinstance(record, AccuracyRecord):
            low, high = record.search_strong_low, record.search_strong_high
            return Interval(record.search_strong, low, high)
    return None


def _last_loss(records: Sequence[Record]) -> Interval | None:
    """Return the total loss of all heads, which does not depend on the minimised loss function."""
    for record in reversed(records):
        if isinstance(record, LearnRecord):
            return Interval.unknown(sum(record.loss[head] for head in record.heads))
    return None


def _elo(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval:
    """Return the Elo of the best network relative to the opponent.

    Each random opening is played with both colours, and all trials use the same openings.
    """
    settings = plan.settings
    assert plan.opponent is not None  # checked by the plan
    agent = run_agent(run, run.progress.best)
    title = f"{agent.name} against {plan.opponent.name}"
    with display.progress_bar(title, settings.games, "games") as update:
        match = play_match(
            plan.game, agent, plan.opponent, settings.games, settings.seed,
            progress=update, openings=OPENINGS,
        )  # fmt: skip
    return match.difference().interval


def _facts(run: RunFolder, objective: Interval | None) -> dict[str, float]:
    """Return the training time and the ends of the interval of the objective for reports."""
    facts = {"hours": _training_hours(read_records(run))}
    if objective is not None and objective.is_known:
        facts |= {"low": objective.low, "high": objective.high}
    return facts


def _training_hours(records: Sequence[Record]) -> float:
    """Return the hours spent on self-play, learning and gates, excluding measurements."""
    measurements = (AccuracyRecord, *FINAL_RECORDS)
    training = (record for record in records if not isinstance(record, measurements))
    return sum(record.wall_seconds for record in training) / 3600


def tune(
    folder: Path, settings: TuningSettings, trials: int, workers: int, display: TrialDisplay
) -> TuningReport:
    """Search until there are `trials` trials, and write the report to the folder.

    A stopped search is resumed. Several processes can work in the same folder at the same time, on
    different trials. Mistakes raise UserError, if possible before the folder is created.
    """
    _require_count("trials", trials, _MAX_TRIALS)
    _require_count("workers", workers, _MAX_WORKERS)
    plan = TuningPlan(settings)
    store = TrialStore(folder, plan)
    if workers == 1:
        work_on_trials(
            store, trials, lambda claimed: _run_and_show(claimed, plan, store, trials, display)
        )
    else:
        _work_together(store, plan, trials, workers, display.progress_bar)
    return _report(store, plan)


def work_on_trials(store: TrialStore, trials: int, run: Callable[[ClaimedTrial], None]) -> None:
    """Claim and run trials until none remain."""
    while True:
        with store.claimed(trials) as claimed:
            if claimed is None:
                return
            run(claimed)


def _run_and_show(
    claimed: ClaimedTrial, plan: TuningPlan, store: TrialStore, trials: int, display: TrialDisplay
) -> None:
    values = ", ".join(f"{key} = {short(value)}" for key, value in claimed.values.items())
    display.message(f"trial {claimed.number} of {trials} trials: {values}")
    run_trial(claimed, plan, store.folder, display)
    outcome = results_of(store)[claimed.number].summary(plan.settings.objective)
    display.message(f"trial {claimed.number}: {outcome}\n")


class _WorkerJob(NamedTuple):
    """Arguments of a worker process."""

    folder: Path
    settings: TuningSettings
    trials: int
    core_locks: Path
    shares: list[list[int]]
    """Cores of each process, see `claim_cores`."""


def _work_together(
    store: TrialStore, plan: TuningPlan, trials: int, workers: int, progress_bar: ProgressBar
) -> None:
    with tempfile.TemporaryDirectory(prefix="zerolab-workers-") as core_locks:
        job = _WorkerJob(
            store.folder, plan.settings, trials, Path(core_locks), shares_of_cores(workers)
        )
        with (
            _progress_shown(store, plan, trials, progress_bar),
            map_in_processes(_run_worker, repeat(job, workers), workers) as finished,
        ):
            for _ in finished:
                pass


def _run_worker(job: _WorkerJob) -> None:
    """Do the work of one process without displaying progress."""
    claim_cores(job.core_locks, job.shares)
    plan = TuningPlan(job.settings)
    store = TrialStore(job.folder, plan)
    quiet = TrialDisplay(
        lambda text: None, lambda iterations: nullcontext(NullReporter()), _no_progress
    )
    work_on_trials(store, job.trials, lambda claimed: run_trial(claimed, plan, job.folder, quiet))


@contextmanager
def _no_progress(title: str, total: int, unit: str) -> Iterator[Callable[[int, str], None]]:
    yield lambda done, note: None


@contextmanager
def _progress_shown(
    store: TrialStore, plan: TuningPlan, trials: int, progress_bar: ProgressBar
) -> Iterator[None]:
    """Display the number of finished trials and the best trial while other processes work."""
    stop = threading.Event()

    def follow(update: Callable[[int, str], None]) -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                results = results_of(store)
            except UserError:  # also reported by the workers
                return
            best = best_of(results, plan.settings)
            note = "" if best is None else f"best: {best.summary(plan.settings.objective)}"
            update(sum(result.state != "running" for result in results), note)

    with progress_bar("searching", trials, "trials") as update:
        thread = threading.Thread(target=follow, args=(update,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _report(store: TrialStore, plan: TuningPlan) -> TuningReport:
    """Write the table, figure and best preset to the folder, and return the report."""
    report = TuningReport.of(store, plan)
    write_text(store.folder / "tuning.md", titled_table(report.table(all_trials=True)) + "\n")
    if report.best is not None:
        # Hours are omitted so that a resumed search produces an identical file.
        head = f"# Trial {report.best.number}: {report.best.measured(plan.settings.objective)}\n"
        preset = plan.preset(report.best.values, report.best.number)
        write_text(store.folder / "best.toml", head + preset)
        figure = draw_tuning(report)
        for suffix in ("png", "svg"):
            save_figure(figure, store.folder / f"tuning.{suffix}")
    return report


def _require_count(name: str, value: int, largest: int) -> None:
    if not 1 <= value <= largest:
        raise UserError(f"{name} = {quoted(value)}: expected a number from 1 to {largest:,}")
