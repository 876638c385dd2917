"""Served folders, the runs in them, and a cache of what was read."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from zerolab.core.errors import UserError, quoted
from zerolab.store.folder import is_locked
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.records import GateRecord, Record
from zerolab.training.reporting import read_records
from zerolab.web.errors import ForbiddenError, MissingError


@dataclass(frozen=True)
class Folders:
    """Where things are that pages show; nothing else on disk is read for them."""

    runs: tuple[Path, ...] = (Path("runs"),)
    """Folders of runs, or runs; new runs and agents' files go to the first one."""
    studies: Path = Path("studies")
    tournaments: Path = Path("tournaments")

    @property
    def agents(self) -> Path:
        """Where agents' files are kept that pages have brought."""
        return self.runs[0] / "agents"

    @property
    def server(self) -> Path:
        """Where the server keeps what outlives it: its token, and the processes that train."""
        return self.runs[0] / ".server"

    def confined_network(self, name: str) -> str:
        """Return what names a run, a network RUN@N or a file, within the folders of runs.

        Raises ForbiddenError for a path that leads elsewhere, with or without what follows the @.
        """
        for path in {name, name.rpartition("@")[0] or name}:
            self.confined(Path(path))
        return name

    def confined(self, path: Path, among: Sequence[Path] | None = None) -> Path:
        """Return a path within the folders of runs, or within others.

        Raises ForbiddenError for one that leads elsewhere, by symbolic links, too.
        """
        folders = self.runs if among is None else among
        try:
            resolved = path.resolve()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                resolved.stat()  # raises for names that no file can have, such as very long ones
            is_inside = any(resolved.is_relative_to(each.resolve()) for each in folders)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"{quoted(path)} is not a path") from error
        if not is_inside:
            places = ", ".join(each.as_posix() for each in folders)
            raise ForbiddenError(f"{quoted(path)} is not served: expected something in {places}")
        return path


def modified(path: Path) -> float:
    """Return when a file or folder was changed last, as a time stamp; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_Result = TypeVar("_Result")
_Signature = tuple[tuple[int, int, int] | None, ...]

_MOST_CACHED = 2000


class FileCache(Generic[_Result]):
    """Results of reading, by what was asked for; the oldest of many are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[_Signature, _Result]] = OrderedDict()

    def get(self, key: str, files: Iterable[Path], read: Callable[[], _Result]) -> _Result:
        """Return what `read` returned last, unless one of the files has changed since then."""
        signature = tuple(map(_file_signature, files))
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] == signature:
                self._known.move_to_end(key)
                return known[1]
        result = read()
        with self._lock:
            self._known[key] = signature, result
            if len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        return result


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None for one that is not there."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


RUNNING, STOPPED = "running", "stopped"

_WATCHED = ("config.toml", "state.json", "metrics.jsonl")
_SUMMARIES: FileCache[RunSummary] = FileCache()
_RECORDS: FileCache[list[Record]] = FileCache()
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
        return summarise_run(path)


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
