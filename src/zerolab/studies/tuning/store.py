"""The trials of a search in its folder, shared by the processes that work on them.

Optuna's study lives in ``journal.jsonl``. A process holds a lock while it works on a trial, which
ends with the process: a trial that runs without one was stopped, and the next process takes it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.store.checks import writing
from zerolab.store.folder import FolderKind
from zerolab.studies.tuning.journal import Journal
from zerolab.studies.tuning.settings import TuningPlan
from zerolab.studies.tuning.space import Values

FOLDER = FolderKind("tuning", "tuning.toml", "--folder")

JOURNAL = "journal.jsonl"
_NAME = "tuning"
_PATIENCE = 60.0  # seconds; a lock is held for a fraction of one
_COMPARED = 5  # complete trials before one is compared with them and may be pruned
_WARM_UP = 4  # the share of the iterations in which none is pruned: one of so many
_REFUSED = "refused"


class Claimed:
    """A trial that this process works on."""

    def __init__(self, study: Study, trial: Trial, values: Values) -> None:
        self._study = study
        self._trial = trial
        self.number = trial.number
        self.values = values
        """What the trial gives each setting that is searched."""

    def falls_behind(self, step: int, value: float) -> bool:
        """Keep the objective after a step; return whether it is below the median of other trials.

        The step may have been kept before, by a process that was stopped.
        """
        if step not in self._kept.intermediate_values:
            self._trial.report(value, step)
        return self._trial.should_prune()

    def finish(self, values: list[float], facts: Mapping[str, Any]) -> None:
        """Keep the objectives of a complete trial, and facts for reports."""
        self._note(facts)
        self._study.tell(self._trial, values)

    def prune(self, facts: Mapping[str, Any]) -> None:
        """Keep that the trial has been ended early."""
        self._note(facts)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    def refuse(self, reason: str) -> None:
        """Keep that such settings cannot be trained with, so that others are tried."""
        self._note({_REFUSED: reason})
        if _REFUSED not in self._kept.constraints:
            self._trial.set_constraint(_REFUSED, 1.0)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    @property
    def _kept(self) -> FrozenTrial:
        """What the journal has about the trial, perhaps from a process that was stopped."""
        return self._study.get_trials(deepcopy=False)[self.number]

    def _note(self, facts: Mapping[str, Any]) -> None:
        for key, value in facts.items():
            if self._kept.user_attrs.get(key) != value:  # else a process that was stopped noted it
                self._trial.set_user_attr(key, value)


class Store:
    """The folder of a search."""

    def __init__(self, folder: Path, plan: TuningPlan) -> None:
        """Make the folder, or open the one that holds this search.

        Raises UserError if it holds something else or a search with other settings, and for a
        damaged journal.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder = folder
        self._plan = plan
        make_folder(folder)
        FOLDER.require_ours(folder)
        with self._alone():
            self._keep_settings()
            self._study = self._open()

    @property
    def study(self) -> Study:
        """Optuna's view of the search."""
        return self._study

    def trials(self) -> list[FrozenTrial]:
        """Return all trials by number, with what other processes have added."""
        return self._study.get_trials(deepcopy=False)

    @contextmanager
    def claimed(self, trials: int) -> Iterator[Claimed | None]:
        """Claim a trial that was stopped, or a new one while there are fewer than `trials`.

        Gives None where there is nothing left to claim. No other process gets the trial until the
        context is left, or this process has ended.
        """
        with self._alone():
            found = self._stopped() or self._new(trials)
            if found is not None:
                number, lock, trial = found
                values = self._suggest(number, trial or self._study.ask())
        if found is None:
            yield None
            return
        try:
            yield Claimed(self._study, self._trial(number), values)
        finally:
            lock.release()

    def _stopped(self) -> tuple[int, FileLock, Trial | None] | None:
        for each in self.trials():
            if each.state == TrialState.RUNNING and (lock := self._lock(each.number)):
                return each.number, lock, self._trial(each.number)
        return None

    def _new(self, trials: int) -> tuple[int, FileLock, Trial | None] | None:
        number = len(self.trials())
        lock = self._lock(number) if number < trials else None
        return (number, lock, None) if lock is not None else None

    def _trial(self, number: int) -> Trial:
        return Trial(self._study, self.trials()[number]._trial_id)

    def _lock(self, number: int) -> FileLock | None:
        """Return the lock of a trial, which is held now; None if another process holds it."""
        make_folder(self.folder / "runs")
        lock = FileLock(self.folder / "runs" / f".{number:04}.lock")
        with writing(self.folder):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return None
        return lock

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from settings and claims for a moment."""
        lock = FileLock(self.folder / ".lock")
        with writing(self.folder):
            try:
                lock.acquire(timeout=_PATIENCE)
            except Timeout:
                raise UserError(f"{self.folder} is in use: another process keeps .lock") from None
        try:
            yield
        finally:
            lock.release()

    def _keep_settings(self) -> None:
        wanted = self._plan.identity()
        if not FOLDER.is_in(self.folder):
            FOLDER.write_settings(self.folder, wanted)
            return
        FOLDER.require_equal(
            self.folder, FOLDER.read_settings(self.folder), wanted,
            note=" (only trials and workers may change)",
        )  # fmt: skip

    def _open(self) -> Study:
        path = self.folder / JOURNAL
        if not path.exists() and any((self.folder / "runs").glob("[0-9]*")):
            raise UserError(f"{path} is missing; restore it from a backup")
        settings = self._plan.settings
        main = StudyDirection.MAXIMIZE if settings.is_maximised else StudyDirection.MINIMIZE
        warm_up = self._plan.base.iterations // _WARM_UP
        pruner = MedianPruner(_COMPARED, warm_up) if self._plan.prunes else NopPruner()
        storage = JournalStorage(Journal(path))
        if storage.get_all_studies():
            return optuna.load_study(study_name=_NAME, storage=storage, pruner=pruner)
        return optuna.create_study(
            storage=storage,
            study_name=_NAME,
            directions=[main, StudyDirection.MINIMIZE] if settings.and_time else [main],
            pruner=pruner,
        )

    def _suggest(self, number: int, trial: Trial) -> Values:
        """Return the values of a trial: those chosen before it was stopped, and the missing ones.

        Each is drawn from a separate stream, so that it does not depend on where a process was
        killed, nor on which process draws it.
        """

        def begin(key: str) -> None:
            entropy = [self._plan.settings.seed, number, *key.encode()]
            (seed,) = np.random.SeedSequence(entropy).generate_state(1)
            self._study.sampler = TPESampler(seed=int(seed))

        return self._plan.space.suggest(trial, begin)


def refusal(trial: FrozenTrial) -> str:
    """Return why a trial's settings could not be trained with; empty where they could."""
    return str(trial.user_attrs.get(_REFUSED, ""))
