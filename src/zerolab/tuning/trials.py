"""Trials of a settings search, stored on disk and shared by several processes.

Optuna's study is stored in ``journal.jsonl``. A process locks a trial while working on it, and the
lock is released when the process ends. A trial that is recorded as running but not locked has
therefore been stopped, and the next process resumes it.

If a process is killed during a write, Optuna's own file backend waits for half a minute and treats
the partial line as damage. The `TrialJournal` backend has a lock that is released when its process
ends, removes partial lines before writing, and adds a digest to each line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from zerolab.core.errors import UserError
from zerolab.core.files import check_not_symlink, check_regular_file, make_folder
from zerolab.store.checks import (
    check_schema_version,
    hex_digest,
    user_errors_on_read,
    user_errors_on_write,
)
from zerolab.store.folder import FolderKind, lock_folder
from zerolab.tuning.plan import TuningPlan
from zerolab.tuning.space import TrialValues

SCHEMA = 1
_MAX_BYTES = 1 << 30


class TrialJournal(BaseJournalBackend):
    """Journal of Optuna's operations in a file; only new lines are read each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._entries: list[dict[str, Any]] = []
        self._bytes = 0  # number of bytes read

    def read_logs(self, log_number_from: int) -> Sequence[dict[str, Any]]:
        """Return the entries from index `log_number_from` on; raise UserError if one is damaged."""
        if self._path.exists():
            check_regular_file(self._path, _MAX_BYTES)
            with user_errors_on_read(self._path), open(self._path, "rb") as file:
                file.seek(self._bytes)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]  # another process may be writing
            for line in complete.splitlines(keepends=True):
                self._entries.append(self._parsed(line))
                self._bytes += len(line)
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries durably; raise UserError if the disk is full or read-only."""
        check_not_symlink(self._path)
        lines = "".join(_line(entry) for entry in logs)
        with user_errors_on_write(self._path), self._lock, open(self._path, "ab") as file:
            file.truncate(_complete_bytes(self._path))
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            check_schema_version(self._path, entry.pop("schema", None), SCHEMA)
            if entry.pop("digest", None) == _digest(entry):
                return entry
        number = len(self._entries) + 1
        raise UserError(f"{self._path} is damaged at line {number}; restore it from a backup")


def _line(entry: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(entry))  # converts enumerations to numbers
    return json.dumps({"schema": SCHEMA, **plain, "digest": _digest(plain)}) + "\n"


def _digest(entry: dict[str, Any]) -> str:
    return hex_digest(json.dumps(entry, sort_keys=True).encode())


def _complete_bytes(path: Path) -> int:
    """Return the size of a file without an incomplete last line."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = size
        while start:
            start = max(0, start - 4096)
            file.seek(start)
            newline = file.read(4096).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
    return 0


TUNING_FOLDER_KIND = FolderKind("tuning", "tuning.toml", "--folder")

JOURNAL_FILE_NAME = "journal.jsonl"
_NAME = "tuning"
_LOCK_TIMEOUT = 60.0  # seconds; locks are held for a fraction of a second
_MIN_COMPLETE = 5  # number of complete trials before pruning begins
_EXEMPT_SHARE = 0.25  # a trial is not pruned until this share of it is complete
_REFUSED = "refused"


class ClaimedTrial:
    """Trial on which this process is working."""

    def __init__(self, study: Study, trial: Trial, values: TrialValues) -> None:
        self._study = study
        self._trial = trial
        self.number = trial.number
        self.values = values
        """Value of each searched setting."""

    def record_and_should_prune(
        self, iteration: int, objective: float, completed_share: float
    ) -> bool:
        """Record the objective after an iteration; return True if the trial should be pruned.

        A trial should be pruned if its best objective so far is below the median of the complete
        trials after the same iteration. The first trials are exempt, and so is every trial with a
        `completed_share` of less than a quarter. A stopped process may already have recorded the
        objective.
        """
        if iteration not in self._recorded.intermediate_values:
            self._trial.report(objective, iteration)
        return completed_share >= _EXEMPT_SHARE and self._trial.should_prune()

    def complete(self, objectives: list[float], attributes: Mapping[str, Any]) -> None:
        """Record that the trial is complete, with its objectives and attributes for reports."""
        self._set_attributes(attributes)
        self._study.tell(self._trial, objectives)

    def prune(self, attributes: Mapping[str, Any]) -> None:
        """Record that the trial was stopped early, with attributes for reports."""
        self._set_attributes(attributes)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    def refuse(self, reason: str) -> None:
        """Record that the trial yields no objective, and the reason."""
        self._set_attributes({_REFUSED: reason})
        if _REFUSED not in self._recorded.constraints:
            self._trial.set_constraint(_REFUSED, 1.0)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    @property
    def _recorded(self) -> FrozenTrial:
        """Recorded state of the trial; a stopped process may have written part of it."""
        return self._study.get_trials(deepcopy=False)[self.number]

    def _set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Record attributes, except those that a stopped process has already recorded."""
        for key, value in attributes.items():
            if self._recorded.user_attrs.get(key) != value:
                self._trial.set_user_attr(key, value)


class TrialStore:
    """Folder with the trials of a search."""

    def __init__(self, folder: Path, plan: TuningPlan) -> None:
        """Create the folder of a search, or open it to resume the search.

        Raises UserError if the folder contains other files, a search with other settings, or a
        damaged journal.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder = folder
        self._plan = plan
        make_folder(folder)
        TUNING_FOLDER_KIND.require_own_or_empty(folder)
        with lock_folder(folder, _LOCK_TIMEOUT):
            self._save_settings()
            self._study = self._open()

    @property
    def optuna_study(self) -> Study:
        """Optuna study of the search."""
        return self._study

    def trials(self) -> list[FrozenTrial]:
        """Return all trials ordered by number, including those run by other processes."""
        return self._study.get_trials(deepcopy=False)

    @contextmanager
    def claim_trial(self, trial_count: int) -> Iterator[ClaimedTrial | None]:
        """Claim a stopped trial, or a new trial if there are fewer than `trial_count`.

        Yields None if there is no trial to claim. The trial is locked against other processes until
        the context is left or this process ends.
        """
        with lock_folder(self.folder, _LOCK_TIMEOUT):
            claim = self._claim_stopped() or self._claim_new(trial_count)
            if claim is not None:
                number, lock, trial = claim
                values = self._suggest(number, trial or self._study.ask())
        if claim is None:
            yield None
            return
        try:
            yield ClaimedTrial(self._study, self._trial(number), values)
        finally:
            lock.release()

    def _claim_stopped(self) -> tuple[int, FileLock, Trial | None] | None:
        for trial in self.trials():
            lock = self._lock(trial.number) if trial.state == TrialState.RUNNING else None
            if lock is None:
                continue
            # Another process can complete the trial and unlock it before it is locked here.
            if self.trials()[trial.number].state == TrialState.RUNNING:
                return trial.number, lock, self._trial(trial.number)
            lock.release()
        return None

    def _claim_new(self, trial_count: int) -> tuple[int, FileLock, Trial | None] | None:
        number = len(self.trials())
        lock = self._lock(number) if number < trial_count else None
        return (number, lock, None) if lock is not None else None

    def _trial(self, number: int) -> Trial:
        return Trial(self._study, self.trials()[number]._trial_id)

    def _lock(self, number: int) -> FileLock | None:
        """Acquire and return the lock of a trial, or return None if another process holds it."""
        for name in ("runs", "presets"):
            check_not_symlink(self.folder / name)
        make_folder(self.folder / "runs")
        lock = FileLock(self.folder / "runs" / f".{number:04}.lock")
        with user_errors_on_write(self.folder):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return None
        return lock

    def _save_settings(self) -> None:
        settings = self._plan.immutable_settings()
        if not TUNING_FOLDER_KIND.matches(self.folder):
            TUNING_FOLDER_KIND.write_settings(self.folder, settings)
            return
        TUNING_FOLDER_KIND.require_equal_settings(
            self.folder, TUNING_FOLDER_KIND.read_settings(self.folder), settings,
            note=" (only trials and workers can change)",
        )  # fmt: skip

    def _open(self) -> Study:
        path = self.folder / JOURNAL_FILE_NAME
        if not path.exists() and any((self.folder / "runs").glob("[0-9]*")):
            raise UserError(f"{path} is missing; restore it from a backup")
        settings = self._plan.settings
        main = StudyDirection.MAXIMIZE if settings.is_maximised else StudyDirection.MINIMIZE
        pruner = MedianPruner(_MIN_COMPLETE) if self._plan.has_pruning else NopPruner()
        with user_errors_on_read(path):  # Optuna does not check the operations in a journal
            try:
                storage = JournalStorage(TrialJournal(path))
                if storage.get_all_studies():
                    return optuna.load_study(study_name=_NAME, storage=storage, pruner=pruner)
            except AssertionError as error:
                raise ValueError(error) from error
        return optuna.create_study(
            storage=storage,
            study_name=_NAME,
            directions=[main, StudyDirection.MINIMIZE] if settings.and_time else [main],
            pruner=pruner,
        )

    def _suggest(self, number: int, trial: Trial) -> TrialValues:
        """Return the values of a trial, drawing those that were not drawn before.

        Each value has a separate random stream, so it depends on the complete trials, but not on
        which process draws it, nor on the values that a killed process drew before.
        """

        def before_draw(key: str) -> None:
            entropy = [self._plan.settings.seed, number, *key.encode()]
            (seed,) = np.random.SeedSequence(entropy).generate_state(1)
            self._study.sampler = TPESampler(seed=int(seed))

        return self._plan.space.suggest(trial, before_draw)


def refusal_reason(trial: FrozenTrial) -> str:
    """Return the reason why a trial was refused, or an empty string if it was not refused."""
    return str(trial.user_attrs.get(_REFUSED, ""))
