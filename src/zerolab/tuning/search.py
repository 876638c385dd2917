"""Search over settings: trials are claimed, trained and measured."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.kinds.run import run_agent
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, write_text
from zerolab.core.processes import ProgressBar, map_in_processes
from zerolab.play.match import play_match
from zerolab.report.figures import save_figure
from zerolab.report.markdown import titled_table
from zerolab.store.run_folder import RUN, RunFolder, is_run
from zerolab.training.configure import saved_settings, with_findings
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

_SECONDS = 3600.0
_MACHINE = ("selfplay.threads",)  # may differ where a run is resumed with other workers


class TrialDisplay(NamedTuple):
    """Who shows the progress of a trial."""

    message: Callable[[str], None]
    """Shows a line."""
    training: Callable[[int], AbstractContextManager[Reporter]]
    """Makes what shows a run's training, from its number of iterations."""
    progress_bar: ProgressBar


class MeasuredObjective(NamedTuple):
    """The objective of a trial with its 95 % interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


def run_trial(claimed: ClaimedTrial, plan: TuningPlan, folder: Path, watcher: TrialDisplay) -> None:
    """Train and measure a trial, and tell what came out; one that was stopped goes on.

    Settings that do not fit each other, and learning that diverges, are such an outcome. Raises
    UserError for what is no fault of the settings, such as a full disk.
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
        _train(run, claimed, plan, watcher)
    except _FallsBehindError:
        claimed.prune(_facts(run, None))
        return
    except DivergedError as error:
        claimed.refuse(joined_error(error))
        return
    measured = _measure(run, plan, watcher)
    if measured is None:
        claimed.refuse(f"the run has ended without a measurement of {plan.settings.objective}")
        return
    facts = _facts(run, measured)
    time = [facts["hours"]] if plan.settings.and_time else []
    claimed.finish([measured.value, *time], facts)


def _open(path: Path, settings: TrainSettings) -> RunFolder:
    if not is_run(path):
        return RunFolder.create(path, settings.model_dump())
    run = RunFolder.open(path)
    saved = saved_settings(run)
    wanted = with_findings(settings, saved)
    RUN.require_equal(path, saved.model_dump(), wanted.model_dump(), except_for=_MACHINE)
    return run


class _FallsBehindError(Exception):
    """Ends the training of a trial early."""


def _train(run: RunFolder, claimed: ClaimedTrial, plan: TuningPlan, watcher: TrialDisplay) -> None:
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
        with watcher.training(settings.iterations) as reporter:
            Trainer(run, settings, reporter, check).train()


def _measure(run: RunFolder, plan: TuningPlan, watcher: TrialDisplay) -> MeasuredObjective | None:
    """Return the objective of a run that is trained; None where it has none."""
    if plan.settings.objective == "elo":
        return _elo(run, plan, watcher)
    records = read_records(run)
    if plan.settings.objective == "loss":
        return _last_loss(records)
    return _last_accuracy(records)


def _last_accuracy(records: Sequence[Record]) -> MeasuredObjective | None:
    for each in reversed(records):
        if isinstance(each, AccuracyRecord):
            return MeasuredObjective(
                each.search_strong, each.search_strong_low, each.search_strong_high
            )
    return None


def _last_loss(records: Sequence[Record]) -> MeasuredObjective | None:
    """Return the errors of all heads, added up: one measure, whatever is minimised."""
    for each in reversed(records):
        if isinstance(each, LearnRecord):
            return MeasuredObjective(sum(each.loss[head] for head in each.heads))
    return None


def _elo(run: RunFolder, plan: TuningPlan, watcher: TrialDisplay) -> MeasuredObjective:
    """Return the Elo of the best network above the opponent, from paired random openings.

    All trials begin with the same ones.
    """
    settings = plan.settings
    assert plan.opponent is not None  # the plan has checked it
    agent = run_agent(run, run.progress.best)
    title = f"{agent.name} against {plan.opponent.name}"
    with watcher.progress_bar(title, settings.games, "games") as update:
        match = play_match(
            plan.game, agent, plan.opponent, settings.games, settings.seed,
            progress=update, openings=OPENINGS,
        )  # fmt: skip
    found = match.difference()
    return MeasuredObjective(found.elo, found.low, found.high)


def _facts(run: RunFolder, measured: MeasuredObjective | None) -> dict[str, float]:
    """Return what reports need to know beside the objectives."""
    facts = {"hours": _hours(read_records(run))}
    if measured is not None and measured.low is not None and measured.high is not None:
        facts |= {"low": measured.low, "high": measured.high}
    return facts


def _hours(records: Sequence[Record]) -> float:
    """Return the hours of self-play, learning and gates, without those of measurements."""
    measured = (AccuracyRecord, *FINAL_RECORDS)
    trained = (each for each in records if not isinstance(each, measured))
    return sum(each.wall_seconds for each in trained) / _SECONDS


_MOST = 1_000_000
_MOST_WORKERS = 256
_LOOK = 2.0  # seconds between two looks at what the workers have done


def tune(
    folder: Path, settings: TuningSettings, trials: int, workers: int, watcher: TrialDisplay
) -> TuningReport:
    """Search until there are `trials` trials, and write the report into the folder.

    A search that was stopped is resumed. Other processes may take part in the same folder: then a
    trial that one of them still works on is left to it. Raises UserError for every mistake, before
    there is a folder where that is possible.
    """
    _require_count("trials", trials, _MOST)
    _require_count("workers", workers, _MOST_WORKERS)
    plan = TuningPlan(settings)
    store = TrialStore(folder, plan)
    if workers == 1:
        work_on_trials(
            store, trials, lambda claimed: _run_and_tell(claimed, plan, store, trials, watcher)
        )
    else:
        _work_together(store, plan, trials, workers, watcher.progress_bar)
    return _report(store, plan)


def work_on_trials(store: TrialStore, trials: int, run: Callable[[ClaimedTrial], None]) -> None:
    """Claim and run trials until there is nothing left to claim."""
    while True:
        with store.claimed(trials) as claimed:
            if claimed is None:
                return
            run(claimed)


def _run_and_tell(
    claimed: ClaimedTrial, plan: TuningPlan, store: TrialStore, trials: int, watcher: TrialDisplay
) -> None:
    chosen = ", ".join(f"{key} = {short(value)}" for key, value in claimed.values.items())
    watcher.message(f"trial {claimed.number}, {trials} in all: {chosen}")
    run_trial(claimed, plan, store.folder, watcher)
    outcome = results_of(store)[claimed.number].summary(plan.settings.objective)
    watcher.message(f"trial {claimed.number}: {outcome}\n")


class _Share(NamedTuple):
    """What a worker process needs to know."""

    folder: Path
    settings: TuningSettings
    trials: int
    worker: int
    workers: int


def _work_together(
    store: TrialStore, plan: TuningPlan, trials: int, workers: int, progress_bar: ProgressBar
) -> None:
    shares = (
        _Share(store.folder, plan.settings, trials, worker, workers) for worker in range(workers)
    )
    with (
        _followed(store, plan, trials, progress_bar),
        map_in_processes(_work_alone, shares, workers) as finished,
    ):
        for _ in finished:
            pass


def _work_alone(share: _Share) -> None:
    """Do the work of one of several processes, quietly."""
    _keep_to_share(share.worker, share.workers)
    plan = TuningPlan(share.settings)
    store = TrialStore(share.folder, plan)
    quiet = TrialDisplay(
        lambda text: None, lambda iterations: nullcontext(NullReporter()), _no_progress
    )
    work_on_trials(
        store, share.trials, lambda claimed: run_trial(claimed, plan, share.folder, quiet)
    )


@contextmanager
def _no_progress(title: str, total: int, unit: str) -> Iterator[Callable[[int, str], None]]:
    yield lambda done, note: None


def _keep_to_share(worker: int, workers: int) -> None:
    """Leave this process its share of the cores, where the system can bind processes to some."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[worker::workers] or [cores[worker % len(cores)]])


@contextmanager
def _followed(
    store: TrialStore, plan: TuningPlan, trials: int, progress_bar: ProgressBar
) -> Iterator[None]:
    """Show how many trials are finished, and the best of them, while others work on them."""
    over = threading.Event()

    def follow(update: Callable[[int, str], None]) -> None:
        while not over.wait(_LOOK):
            try:
                results = results_of(store)
            except UserError:  # the workers say so, too
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
    """Write table, figure and the best preset into the folder."""
    report = TuningReport.of(store, plan)
    write_text(store.folder / "tuning.md", titled_table(report.table(all_trials=True)) + "\n")
    if report.best is not None:
        # Without hours: a search that was stopped and resumed ends with the same bytes.
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
