"""One trial: a run is trained, resumed where it was stopped, and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.kinds.run import run_agent
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, write_text
from zerolab.core.progress import ProgressBar
from zerolab.play.match import play_match
from zerolab.store.run_folder import RUN, RunFolder, is_run
from zerolab.studies.tuning.settings import (
    OPENINGS,
    TuningPlan,
    in_one_line,
    preset_path,
    run_path,
)
from zerolab.studies.tuning.store import Claimed
from zerolab.training.configure import saved_settings, with_findings
from zerolab.training.history import read_records
from zerolab.training.learner import DivergedError
from zerolab.training.records import FINAL_RECORDS, AccuracyRecord, LearnRecord, Record
from zerolab.training.reporting import Reporter
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer

_SECONDS = 3600.0
_MACHINE = ("selfplay.threads",)  # may differ where a run is resumed with other workers


class Watcher(NamedTuple):
    """Who shows the progress of a trial."""

    message: Callable[[str], None]
    """Shows a line."""
    training: Callable[[int], AbstractContextManager[Reporter]]
    """Makes what shows a run's training, from its number of iterations."""
    progress_bar: ProgressBar


class Measured(NamedTuple):
    """The objective of a trial with its 95 % interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


def run_trial(claimed: Claimed, plan: TuningPlan, folder: Path, watcher: Watcher) -> None:
    """Train and measure a trial, and tell what came out; one that was stopped goes on.

    Settings that do not fit each other, and learning that diverges, are such an outcome. Raises
    UserError for what is no fault of the settings, such as a full disk.
    """
    try:
        settings = plan.trial(claimed.values, claimed.number)
        preset = plan.preset(claimed.values, claimed.number)
    except UserError as error:
        claimed.refuse(in_one_line(error))
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
        claimed.refuse(in_one_line(error))
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


def _train(run: RunFolder, claimed: Claimed, plan: TuningPlan, watcher: Watcher) -> None:
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


def _measure(run: RunFolder, plan: TuningPlan, watcher: Watcher) -> Measured | None:
    """Return the objective of a run that is trained; None where it has none."""
    if plan.settings.objective == "elo":
        return _elo(run, plan, watcher)
    records = read_records(run)
    if plan.settings.objective == "loss":
        return _last_loss(records)
    return _last_accuracy(records)


def _last_accuracy(records: Sequence[Record]) -> Measured | None:
    for each in reversed(records):
        if isinstance(each, AccuracyRecord):
            return Measured(each.search_strong, each.search_strong_low, each.search_strong_high)
    return None


def _last_loss(records: Sequence[Record]) -> Measured | None:
    """Return the errors of all heads, added up: one measure, whatever is minimised."""
    for each in reversed(records):
        if isinstance(each, LearnRecord):
            return Measured(sum(each.loss[head] for head in each.heads))
    return None


def _elo(run: RunFolder, plan: TuningPlan, watcher: Watcher) -> Measured:
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
    return Measured(found.elo, found.low, found.high)


def _facts(run: RunFolder, measured: Measured | None) -> dict[str, float]:
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
