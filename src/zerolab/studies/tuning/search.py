"""The search: trials are claimed and run until there are as many as asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.core.figures import save_figure
from zerolab.core.files import write_text
from zerolab.core.progress import ProgressBar
from zerolab.evaluation.workers import in_order
from zerolab.studies.report.markdown import titled_table
from zerolab.studies.tuning.figures import draw
from zerolab.studies.tuning.report import TuningReport, best_of, results_of, short
from zerolab.studies.tuning.settings import TuningPlan, TuningSettings
from zerolab.studies.tuning.store import Claimed, Store
from zerolab.studies.tuning.trial import Watcher, run_trial
from zerolab.training.reporting import NullReporter

_MOST = 1_000_000
_MOST_WORKERS = 256
_LOOK = 2.0  # seconds between two looks at what the workers have done


def search(
    folder: Path, settings: TuningSettings, trials: int, workers: int, watcher: Watcher
) -> TuningReport:
    """Search until there are `trials` trials, and write the report into the folder.

    A search that was stopped is resumed. Other processes may take part in the same folder: then a
    trial that one of them still works on is left to it. Raises UserError for every mistake, before
    there is a folder where that is possible.
    """
    _require_count("trials", trials, _MOST)
    _require_count("workers", workers, _MOST_WORKERS)
    plan = TuningPlan(settings)
    store = Store(folder, plan)
    if workers == 1:
        work(store, trials, lambda claimed: _run_and_tell(claimed, plan, store, trials, watcher))
    else:
        _work_together(store, plan, trials, workers, watcher.progress_bar)
    return _report(store, plan)


def work(store: Store, trials: int, run: Callable[[Claimed], None]) -> None:
    """Claim and run trials until there is nothing left to claim."""
    while True:
        with store.claimed(trials) as claimed:
            if claimed is None:
                return
            run(claimed)


def _run_and_tell(
    claimed: Claimed, plan: TuningPlan, store: Store, trials: int, watcher: Watcher
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
    store: Store, plan: TuningPlan, trials: int, workers: int, progress_bar: ProgressBar
) -> None:
    shares = (
        _Share(store.folder, plan.settings, trials, worker, workers) for worker in range(workers)
    )
    with (
        _followed(store, plan, trials, progress_bar),
        in_order(_work_alone, shares, workers) as finished,
    ):
        for _ in finished:
            pass


def _work_alone(share: _Share) -> None:
    """Do the work of one of several processes, quietly."""
    _keep_to_share(share.worker, share.workers)
    plan = TuningPlan(share.settings)
    store = Store(share.folder, plan)
    quiet = Watcher(lambda text: None, lambda iterations: nullcontext(NullReporter()), _no_progress)
    work(store, share.trials, lambda claimed: run_trial(claimed, plan, share.folder, quiet))


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
    store: Store, plan: TuningPlan, trials: int, progress_bar: ProgressBar
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


def _report(store: Store, plan: TuningPlan) -> TuningReport:
    """Write table, figure and the best preset into the folder."""
    report = TuningReport.of(store, plan)
    write_text(store.folder / "tuning.md", titled_table(report.table(all_trials=True)) + "\n")
    if report.best is not None:
        # Without hours: a search that was stopped and resumed ends with the same bytes.
        head = f"# Trial {report.best.number}: {report.best.measured(plan.settings.objective)}\n"
        preset = plan.preset(report.best.values, report.best.number)
        write_text(store.folder / "best.toml", head + preset)
        figure = draw(report)
        for ending in ("png", "svg"):
            save_figure(figure, store.folder / f"tuning.{ending}")
    return report


def _require_count(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UserError(f"{name} = {quoted(value)}: expected at least 1, at most {most:,}")
