"""Trials of a search on disk, shared by the processes that work on them.

Optuna's study is stored in ``journal.jsonl``. A process holds a lock while it works on a trial, and
the lock ends with the process: a running trial without a lock was stopped, and the next process
resumes it.

Optuna's own file backend waits half a minute for a process that was killed during a write, and
treats the partial line that it leaves as damage. Here the lock of the journal ends with its
process, a partial line is removed before the next one is written, and every line has a digest.
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
    """Journal of Optuna's operations, of which only new lines are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._entries: list[dict[str, Any]] = []
        self._bytes = 0  # read so far

    def read_logs(self, log_number_from: int) -> Sequence[dict[str, Any]]:
        """Return the entries from a number on; raise UserError for a damaged line."""
        if self._path.exists():
            check_file(self._path, _LARGEST)
            with reading(self._path), open(self._path, "rb") as file:
                file.seek(self._bytes)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]  # another process may be writing
            found = complete.splitlines(keepends=True)
            for line in found:
                self._entries.append(self._parsed(line))
                self._bytes += len(line)
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries durably; raise UserError if the disk is full or cannot be written."""
        lines = "".join(_line(each) for each in logs)
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
    plain = json.loads(json.dumps(entry))  # enumerations become numbers, as they are read back
    return json.dumps({"schema": SCHEMA, **plain, "digest": _digest(plain)}) + "\n"


def _digest(entry: dict[str, Any]) -> str:
    return digest(json.dumps(entry, sort_keys=True).encode())


def _complete_bytes(path: Path) -> int:
    """Return the length of a file without an unfinished last line."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        begin = size
        while begin:
            begin = max(0, begin - 4096)
            file.seek(begin)
            end = file.read(4096).rfind(b"\n")
            if end >= 0:
                return begin + end + 1
    return 0


FOLDER = FolderKind("tuning", "tuning.toml", "--folder")

JOURNAL = "journal.jsonl"
_NAME = "tuning"
_PATIENCE = 60.0  # seconds; a lock is held for a fraction of a second
_COMPARED = 5  # complete trials that a trial is compared with before it may be pruned
_WARM_UP = 4  # no trial is pruned in the first 1 / _WARM_UP of its iterations
_REFUSED = "refused"


class ClaimedTrial:
    """A trial that this process works on."""

    def __init__(self, study: Study, trial: Trial, values: Values) -> None:
        self._study = study
        self._trial = trial
        self.number = trial.number
        self.values = values
        """Value of each searched setting."""

    def falls_behind(self, step: int, value: float) -> bool:
        """Record the objective after a step; return whether it is below the median of other trials.

        A process that was stopped may have recorded the step before.
        """
        if step not in self._recorded.intermediate_values:
            self._trial.report(value, step)
        return self._trial.should_prune()

    def finish(self, values: list[float], facts: Mapping[str, Any]) -> None:
        """Record the objectives of the complete trial, and facts for reports."""
        self._record(facts)
        self._study.tell(self._trial, values)

    def prune(self, facts: Mapping[str, Any]) -> None:
        """Record that the trial was ended early."""
        self._record(facts)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    def refuse(self, reason: str) -> None:
        """Record that training with such settings is impossible, so that others are tried."""
        self._record({_REFUSED: reason})
        if _REFUSED not in self._recorded.constraints:
            self._trial.set_constraint(_REFUSED, 1.0)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    @property
    def _recorded(self) -> FrozenTrial:
        """The trial in the journal, which a process that was stopped may have written."""
        return self._study.get_trials(deepcopy=False)[self.number]

    def _record(self, facts: Mapping[str, Any]) -> None:
        """Record facts, except those recorded before by a process that was stopped."""
        for key, value in facts.items():
            if self._recorded.user_attrs.get(key) != value:
                self._trial.set_user_attr(key, value)


class TrialStore:
    """Folder of a search."""

    def __init__(self, folder: Path, plan: TuningPlan) -> None:
        """Create the folder, or open that of the same search.

        Raises UserError if it holds something else, a search with other settings or a damaged
        journal.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder = folder
        self._plan = plan
        make_folder(folder)
        FOLDER.require_ours(folder)
        with self._alone():
            self._save_settings()
            self._study = self._open()

    @property
    def study(self) -> Study:
        """Optuna's view of the search."""
        return self._study

    def trials(self) -> list[FrozenTrial]:
        """Return all trials by number, including those of other processes."""
        return self._study.get_trials(deepcopy=False)

    @contextmanager
    def claimed(self, trials: int) -> Iterator[ClaimedTrial | None]:
        """Claim a trial that was stopped, or a new one while there are fewer than `trials`.

        Yields None if nothing is left to claim. No other process gets the trial before the context
        is left or this process ends.
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
            yield ClaimedTrial(self._study, self._trial(number), values)
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
        """Acquire and return the lock of a trial; None if another process holds it."""
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
        """Keep other processes from settings and claims."""
        lock = FileLock(self.folder / ".lock")
        with writing(self.folder):
            try:
                lock.acquire(timeout=_PATIENCE)
            except Timeout:
                raise UserError(f"{self.folder} is in use: another process holds .lock") from None
        try:
            yield
        finally:
            lock.release()

    def _save_settings(self) -> None:
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
        """Return the values of a trial, including those drawn before it was stopped.

        Each value has its own random stream, so that it depends neither on where a process was
        killed nor on which process draws it.
        """

        def begin(key: str) -> None:
            entropy = [self._plan.settings.seed, number, *key.encode()]
            (seed,) = np.random.SeedSequence(entropy).generate_state(1)
            self._study.sampler = TPESampler(seed=int(seed))

        return self._plan.space.suggest(trial, begin)


def refusal(trial: FrozenTrial) -> str:
    """Return the reason why training with a trial's settings was impossible; empty if none."""
    return str(trial.user_attrs.get(_REFUSED, ""))
