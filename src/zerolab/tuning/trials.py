"""Storage of a search's trials on disk, shared by several processes.

Optuna's study is stored in ``journal.jsonl``. A process locks a trial while working on it, and the
lock is released when the process ends. A running trial without a lock was therefore stopped, and
the next process resumes it.

If a process is killed during a write, Optuna's own file backend waits for half a minute and treats
the partial line as damage. This backend has a lock that is released when its process ends, removes
partial lines before writing, and adds a digest to each line.
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
from zerolab.core.files import check_file, make_folder
from zerolab.store.checks import check_schema, digest, reading, writing
from zerolab.store.folder import FolderKind
from zerolab.tuning.plan import TuningPlan
from zerolab.tuning.space import Values

SCHEMA = 1
_LARGEST = 1 << 30


class Journal(BaseJournalBackend):
    """Journal of Optuna's operations that reads only new lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._entries: list[dict[str, Any]] = []
        self._bytes = 0  # number of bytes read

    def read_logs(self, log_number_from: int) -> Sequence[dict[str, Any]]:
        """Return the entries from `log_number_from` onwards; a damaged line raises UserError."""
        if self._path.exists():
            check_file(self._path, _LARGEST)
            with reading(self._path), open(self._path, "rb") as file:
                file.seek(self._bytes)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]  # another process can be writing
            for line in complete.splitlines(keepends=True):
                self._entries.append(self._parsed(line))
                self._bytes += len(line)
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries durably; a full or read-only disk raises UserError."""
        lines = "".join(_line(entry) for entry in logs)
        with writing(self._path), self._lock, open(self._path, "ab") as file:
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
            check_schema(self._path, entry.pop("schema", None), SCHEMA)
            if entry.pop("digest", None) == _digest(entry):
                return entry
        number = len(self._entries) + 1
        raise UserError(f"{self._path} is damaged at line {number}; restore it from a backup")


def _line(entry: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(entry))  # converts enumerations to numbers
    return json.dumps({"schema": SCHEMA, **plain, "digest": _digest(plain)}) + "\n"


def _digest(entry: dict[str, Any]) -> str:
    return digest(json.dumps(entry, sort_keys=True).encode())


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


FOLDER = FolderKind("tuning", "tuning.toml", "--folder")

JOURNAL = "journal.jsonl"
_NAME = "tuning"
_LOCK_TIMEOUT = 60.0  # seconds; locks are held for a fraction of a second
_COMPLETE_BEFORE_PRUNING = 5  # number of complete trials before pruning begins
_WARM_UP = 4  # trials are not pruned in the first 1 / _WARM_UP of their iterations
_REFUSED = "refused"


class ClaimedTrial:
    """Trial on which this process is working."""

    def __init__(self, study: Study, trial: Trial, values: Values) -> None:
        self._study = study
        self._trial = trial
        self.number = trial.number
        self.values = values
        """Value of each searched setting."""

    def falls_behind(self, step: int, value: float) -> bool:
        """Record the objective after a step and return whether the trial should be pruned.

        A trial is pruned if its objective is below the median of other trials. The step can already
        have been recorded by a stopped process.
        """
        if step not in self._recorded.intermediate_values:
            self._trial.report(value, step)
        return self._trial.should_prune()

    def finish(self, values: list[float], facts: Mapping[str, Any]) -> None:
        """Record the objectives of the complete trial and facts for reports."""
        self._record(facts)
        self._study.tell(self._trial, values)

    def prune(self, facts: Mapping[str, Any]) -> None:
        """Record that the trial was stopped early, and facts for reports."""
        self._record(facts)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    def refuse(self, reason: str) -> None:
        """Record that training with these settings is impossible."""
        self._record({_REFUSED: reason})
        if _REFUSED not in self._recorded.constraints:
            self._trial.set_constraint(_REFUSED, 1.0)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    @property
    def _recorded(self) -> FrozenTrial:
        """Recorded state of the trial, which a stopped process may have written."""
        return self._study.get_trials(deepcopy=False)[self.number]

    def _record(self, facts: Mapping[str, Any]) -> None:
        """Record facts, except those that a stopped process has already recorded."""
        for key, value in facts.items():
            if self._recorded.user_attrs.get(key) != value:
                self._trial.set_user_attr(key, value)


class TrialStore:
    """Folder with the trials of a search."""

    def __init__(self, folder: Path, plan: TuningPlan) -> None:
        """Create the folder of a search, or open it to resume the search.

        Raise UserError if the folder contains something else, a search with other settings or a
        damaged journal.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder = folder
        self._plan = plan
        make_folder(folder)
        FOLDER.require_ours(folder)
        with self._locked():
            self._save_settings()
            self._study = self._open()

    @property
    def study(self) -> Study:
        """Optuna study of the search."""
        return self._study

    def trials(self) -> list[FrozenTrial]:
        """Return all trials ordered by number, including trials of other processes."""
        return self._study.get_trials(deepcopy=False)

    @contextmanager
    def claimed(self, trials: int) -> Iterator[ClaimedTrial | None]:
        """Claim a stopped trial, or a new trial if there are fewer than `trials`.

        Yield None if there is no trial to claim. The trial stays locked against other processes
        until the context is left or this process ends.
        """
        with self._locked():
            claim = self._claim_stopped() or self._claim_new(trials)
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
            if trial.state == TrialState.RUNNING and (lock := self._lock(trial.number)):
                return trial.number, lock, self._trial(trial.number)
        return None

    def _claim_new(self, trials: int) -> tuple[int, FileLock, Trial | None] | None:
        number = len(self.trials())
        lock = self._lock(number) if number < trials else None
        return (number, lock, None) if lock is not None else None

    def _trial(self, number: int) -> Trial:
        return Trial(self._study, self.trials()[number]._trial_id)

    def _lock(self, number: int) -> FileLock | None:
        """Acquire and return the lock of a trial, or return None if another process holds it."""
        make_folder(self.folder / "runs")
        lock = FileLock(self.folder / "runs" / f".{number:04}.lock")
        with writing(self.folder):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return None
        return lock

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the settings and claims against other processes."""
        lock = FileLock(self.folder / ".lock")
        with writing(self.folder):
            try:
                lock.acquire(timeout=_LOCK_TIMEOUT)
            except Timeout:
                raise UserError(f"{self.folder} is in use: another process holds .lock") from None
        try:
            yield
        finally:
            lock.release()

    def _save_settings(self) -> None:
        settings = self._plan.identity()
        if not FOLDER.is_in(self.folder):
            FOLDER.write_settings(self.folder, settings)
            return
        FOLDER.require_equal(
            self.folder, FOLDER.read_settings(self.folder), settings,
            note=" (only trials and workers can change)",
        )  # fmt: skip

    def _open(self) -> Study:
        path = self.folder / JOURNAL
        if not path.exists() and any((self.folder / "runs").glob("[0-9]*")):
            raise UserError(f"{path} is missing; restore it from a backup")
        settings = self._plan.settings
        main = StudyDirection.MAXIMIZE if settings.is_maximised else StudyDirection.MINIMIZE
        warm_up = self._plan.base.iterations // _WARM_UP
        median_pruner = MedianPruner(_COMPLETE_BEFORE_PRUNING, warm_up)
        pruner = median_pruner if self._plan.prunes else NopPruner()
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
        """Return the values of a trial, drawing those that were not drawn before.

        Each value has a separate random stream, so it depends neither on the process that draws it
        nor on the point at which an earlier process was killed.
        """

        def begin(key: str) -> None:
            entropy = [self._plan.settings.seed, number, *key.encode()]
            (seed,) = np.random.SeedSequence(entropy).generate_state(1)
            self._study.sampler = TPESampler(seed=int(seed))

        return self._plan.space.suggest(trial, begin)


def refusal(trial: FrozenTrial) -> str:
    """Return the reason why a trial's settings were refused, or an empty string."""
    return str(trial.user_attrs.get(_REFUSED, ""))
