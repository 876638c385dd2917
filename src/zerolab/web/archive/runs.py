"""Runs: what there are, and what they have recorded."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import NamedTuple

from zerolab.core.errors import quoted
from zerolab.store.folder import is_locked
from zerolab.store.listing import RunSummary, find_runs, summarise
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.history import read_records
from zerolab.training.records import GateRecord, Record
from zerolab.web.archive.remembered import Remembered
from zerolab.web.errors import MissingError
from zerolab.web.folders import Folders, modified

RUNNING, STOPPED = "running", "stopped"

_WATCHED = ("config.toml", "state.json", "metrics.jsonl")
_SUMMARIES: Remembered[RunSummary] = Remembered()
_RECORDS: Remembered[list[Record]] = Remembered()
_LOOKED_SECONDS = 0.4
_MOST_SEEN = 10_000
_looking = threading.Lock()
"""Who looks whether a run is locked holds the lock for a moment, and another who looks would take
it for a process at work."""
_seen: dict[Path, tuple[float, bool]] = {}
"""When somebody looked last, and whether a process was at work."""


class KeptNetwork(NamedTuple):
    """A network whose weights are on disk."""

    iteration: int
    elo: float | None
    """Training Elo; None where no gate has said it."""
    is_best: bool


def list_runs(folders: Folders) -> list[RunSummary]:
    """Return what there is in the folders of runs; folders that are missing hold none."""
    present = [each for each in folders.runs if each.is_dir()]
    return [summary(path) for path in find_runs(present)]


def newest_run(folders: Folders) -> RunSummary | None:
    """Return the run that has got on last; None where there is none."""
    found = list_runs(folders)
    return max(found, key=lambda each: modified(Path(each.path) / "state.json"), default=None)


def summary(path: Path) -> RunSummary:
    """Describe a run; one that cannot be read is described as damaged."""
    found = _SUMMARIES.get(str(path), watched(path), lambda: _summarise(path))
    if found.status not in (RUNNING, STOPPED):
        return found
    return found._replace(status=RUNNING if is_at_work(path) else STOPPED)


def _summarise(path: Path) -> RunSummary:
    with _looking:
        return summarise(path)


def is_at_work(path: Path) -> bool:
    """Return whether a process trains the run in a folder."""
    with _looking:
        now = time.monotonic()
        when, was_at_work = _seen.get(path, (-math.inf, False))
        if now - when < _LOOKED_SECONDS:
            return was_at_work
        if len(_seen) > _MOST_SEEN:
            _seen.clear()
        _seen[path] = now, is_locked(path)
        return _seen[path][1]


def watched(path: Path) -> list[Path]:
    """Return the files of a run that say how far it has come."""
    return [path / name for name in _WATCHED]


def open_run(folders: Folders, name: str) -> RunFolder:
    """Return a run that a page names; raise UserError where it is none, or is not served."""
    path = folders.confined(Path(name))
    if not is_run(path):
        raise MissingError(f"{quoted(name)} is not a run: expected one of the page Runs")
    return RunFolder.open(path)


def records_of(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return _RECORDS.get(str(run.path), watched(run.path), lambda: read_records(run))


def kept_networks(run: RunFolder) -> list[KeptNetwork]:
    """Return the networks of a run that can play, in the order of their training."""
    elo: dict[int, float] = {}
    gates = [record for record in records_of(run) if isinstance(record, GateRecord)]
    if gates:
        elo[0] = 0.0
    elo.update((record.iteration, record.elo) for record in gates if record.accepted)
    best = run.progress.best
    return [KeptNetwork(each, elo.get(each), each == best) for each in run.networks()]
