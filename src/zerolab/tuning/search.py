"""Search over settings: trials are claimed, trained and measured.

A trial is a run; Optuna proposes its settings.
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

_MACHINE = ("selfplay.threads",)  # may differ if a run is resumed with other workers
_MAX_TRIALS = 1_000_000
_MAX_WORKERS = 256
_POLL_SECONDS = 2.0


class TrialDisplay(NamedTuple):
    """Display of the progress of trials."""

    message: Callable[[str], None]
    """Shows a line."""
    training: Callable[[int], AbstractContextManager[Reporter]]
    """Returns a reporter of a run's training, from its number of iterations."""
    progress_bar: ProgressBar


def run_trial(claimed: ClaimedTrial, plan: TuningPlan, folder: Path, display: TrialDisplay) -> None:
    """Train and measure a trial, resuming it if it was stopped, and record its outcome.

    Settings that do not fit each other, and learning that diverges, are outcomes, too. Raises
    UserError for other problems, such as a full disk.
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
    measured = _measure(run, plan, display)
    if measured is None:
        claimed.refuse(f"the run ended without a measurement of {plan.settings.objective}")
        return
    facts = _facts(run, measured)
    time = [facts["hours"]] if plan.settings.and_time else []
    claimed.finish([measured.value, *time], facts)


def _open(path: Path, settings: TrainSettings) -> RunFolder:
    if not is_run(path):
        return RunFolder.create(path, settings.model_dump())
    run = RunFolder.open(path)
    saved = saved_settings(run)
    wanted = complete_settings(settings, saved)
    RUN.require_equal(path, saved.model_dump(), wanted.model_dump(), except_for=_MACHINE)
    return run


class _FallsBehindError(Exception):
    """Ends the training of a trial early."""


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
        for record in read_records(run):  # of a process that was stopped
            check(record)
        with display.training(settings.iterations) as reporter:
            Trainer(run, settings, reporter, check).train()


def _measure(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval | None:
    """Return the objective of a trained run; None if it was never measured."""
    if plan.settings.objective == "elo":
        return _elo(run, plan, display)
    records = read_records(run)
    if plan.settings.objective == "loss":
        return _last_loss(records)
    return _last_accuracy(records)


def _last_accuracy(records: Sequence[Record]) -> Interval | None:
    for each in reversed(records):
        if isinstance(each, AccuracyRecord):
            return Interval(each.search_strong, each.search_strong_low, each.search_strong_high)
    return None


def _last_loss(records: Sequence[Record]) -> Interval | None:
    """Return the sum of the errors of all heads: the same measure for every loss function."""
    for each in reversed(records):
        if isinstance(each, LearnRecord):
            return Interval.unknown(sum(each.loss[head] for head in each.heads))
    return None


def _elo(run: RunFolder, plan: TuningPlan, display: TrialDisplay) -> Interval:
    """Return the Elo difference of the best network to the opponent.

    Both play each random opening with both colours; the openings are the same in all trials.
    """
    settings = plan.settings
    assert plan.opponent is not None  # the plan has checked it
    agent = run_agent(run, run.progress.best)
    title = f"{agent.name} against {plan.opponent.name}"
    with display.progress_bar(title, settings.games, "games") as update:
        match = play_match(
            plan.game, agent, plan.opponent, settings.games, settings.seed,
            progress=update, openings=OPENINGS,
        )  # fmt: skip
    return match.difference().interval


def _facts(run: RunFolder, measured: Interval | None) -> dict[str, float]:
    """Return facts that reports need besides the objectives."""
    facts = {"hours": _hours(read_records(run))}
    if measured is not None and measured.is_known:
        facts |= {"low": measured.low, "high": measured.high}
    return facts


def _hours(records: Sequence[Record]) -> float:
    """Return the hours of self-play, learning and gates, without those of measurements."""
    measurements = (AccuracyRecord, *FINAL_RECORDS)
    training = (each for each in records if not isinstance(each, measurements))
    return sum(each.wall_seconds for each in training) / 3600


def tune(
    folder: Path, settings: TuningSettings, trials: int, workers: int, display: TrialDisplay
) -> TuningReport:
    """Search until there are `trials` trials, and write the report into the folder.

    A search that was stopped is resumed. Other processes may work in the same folder; trials that
    they are working on are left to them. Raises UserError for every mistake, if possible before the
    folder is created.
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
    """Claim and run trials until none is left."""
    while True:
        with store.claimed(trials) as claimed:
            if claimed is None:
                return
            run(claimed)


def _run_and_show(
    claimed: ClaimedTrial, plan: TuningPlan, store: TrialStore, trials: int, display: TrialDisplay
) -> None:
    chosen = ", ".join(f"{key} = {short(value)}" for key, value in claimed.values.items())
    display.message(f"trial {claimed.number}, {trials} in all: {chosen}")
    run_trial(claimed, plan, store.folder, display)
    outcome = results_of(store)[claimed.number].summary(plan.settings.objective)
    display.message(f"trial {claimed.number}: {outcome}\n")


class _WorkerJob(NamedTuple):
    """Work of one of several processes."""

    folder: Path
    settings: TuningSettings
    trials: int
    core_locks: Path
    shares: list[list[int]]
    """Cores of the processes; see `claim_cores`."""


def _work_together(
    store: TrialStore, plan: TuningPlan, trials: int, workers: int, progress_bar: ProgressBar
) -> None:
    with tempfile.TemporaryDirectory(prefix="zerolab-workers-") as core_locks:
        job = _WorkerJob(
            store.folder, plan.settings, trials, Path(core_locks), shares_of_cores(workers)
        )
        with (
            _progress_shown(store, plan, trials, progress_bar),
            map_in_processes(_work_alone, repeat(job, workers), workers) as finished,
        ):
            for _ in finished:
                pass


def _work_alone(job: _WorkerJob) -> None:
    """Do the work of one process, quietly."""
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
    """Show the number of finished trials and the best one while other processes work."""
    over = threading.Event()

    def follow(update: Callable[[int, str], None]) -> None:
        while not over.wait(_POLL_SECONDS):
            try:
                results = results_of(store)
            except UserError:  # the workers report it, too
                return
            best = best_of(results, plan.settings)
            note = "" if best is None else f"best: {best.summary(plan.settings.objective)}"
            update(sum(each.state != "running" for each in results), note)

    with progress_bar("searching", trials, "trials") as update:
        thread = threading.Thread(target=follow, args=(update,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _report(store: TrialStore, plan: TuningPlan) -> TuningReport:
    """Write table, figure and best preset into the folder, and return the report."""
    report = TuningReport.of(store, plan)
    write_text(store.folder / "tuning.md", titled_table(report.table(all_trials=True)) + "\n")
    if report.best is not None:
        # Without hours, so that a search that was stopped and resumed ends with the same bytes.
        head = f"# Trial {report.best.number}: {report.best.measured(plan.settings.objective)}\n"
        preset = plan.preset(report.best.values, report.best.number)
        write_text(store.folder / "best.toml", head + preset)
        figure = draw_tuning(report)
        for ending in ("png", "svg"):
            save_figure(figure, store.folder / f"tuning.{ending}")
    return report


def _require_count(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UserError(f"{name} = {quoted(value)}: expected at least 1, at most {most:,}")
