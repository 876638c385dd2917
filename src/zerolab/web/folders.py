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
from typing import Generic, TypeVar

from zerolab.core.errors import UserError, quoted
from zerolab.store.folder import is_locked
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.records import Record
from zerolab.training.reporting import read_records
from zerolab.web.requests import ForbiddenError, MissingError


@dataclass(frozen=True)
class Folders:
    """The folders that pages show; they can read nothing else on disk."""

    runs: tuple[Path, ...] = (Path("runs"),)
    """Folders of runs, or runs; new runs and uploaded agents go to the first one."""
    studies: Path = Path("studies")
    tournaments: Path = Path("tournaments")

    @property
    def agents(self) -> Path:
        """The folder of uploaded agent files."""
        return self.runs[0] / "agents"

    @property
    def server(self) -> Path:
        """The folder of what outlives the server: its token, and files about training processes."""
        return self.runs[0] / ".server"

    def confined_network(self, name: str) -> str:
        """Return the name of a run, a network RUN@N or a file, within the folders of runs.

        Raises ForbiddenError if the path leads elsewhere, with or without the part after the @.
        """
        for path in {name, name.rpartition("@")[0] or name}:
            self.confined(Path(path))
        return name

    def confined(self, path: Path, among: Sequence[Path] | None = None) -> Path:
        """Return a path within `among`, by default within the folders of runs.

        Raises ForbiddenError if it leads elsewhere, including by symbolic links.
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
    """Return the time stamp of the last change of a file or folder; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_Result = TypeVar("_Result")
_Signature = tuple[tuple[int, int, int] | None, ...]

_MAX_CACHED = 2000


class FileCache(Generic[_Result]):
    """Results read from files, by key, valid until one of the files changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, tuple[_Signature, _Result]] = OrderedDict()

    def get(self, key: str, files: Iterable[Path], read: Callable[[], _Result]) -> _Result:
        """Return the last result of `read`, or call it if one of the files has changed since."""
        signature = tuple(map(_file_signature, files))
        with self._lock:
            cached = self._cached.get(key)
            if cached is not None and cached[0] == signature:
                self._cached.move_to_end(key)
                return cached[1]
        result = read()
        with self._lock:
            self._cached[key] = signature, result
            if len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)
        return result


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    """Return values that change whenever a file does; None if it does not exist."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


RUNNING, STOPPED = "running", "stopped"

_SUMMARIES: FileCache[RunSummary] = FileCache()
_RECORDS: FileCache[list[Record]] = FileCache()

_LOCK_SECONDS = 0.4
"""Validity of a look at a run's lock."""
_MAX_LOCKS = 10_000
_looking = threading.Lock()
"""Checking a run's lock takes that lock for a moment, which a second check would mistake for
training."""
_locks: dict[Path, tuple[float, bool]] = {}
"""By folder, the time of the last check and its result."""


def list_runs(folders: Folders) -> list[RunSummary]:
    """Return the runs in the folders of runs, if these exist."""
    present = [each for each in folders.runs if each.is_dir()]
    return [summary(path) for path in find_runs(present)]


def newest_run(folders: Folders) -> RunSummary | None:
    """Return the run with the latest progress; None if there is no run."""
    found = list_runs(folders)
    return max(found, key=lambda each: modified(Path(each.path) / "state.json"), default=None)


def summary(path: Path) -> RunSummary:
    """Summarise a run; one that cannot be read is described as damaged."""
    found = _SUMMARIES.get(str(path), progress_files(path), lambda: _summarise(path))
    if found.status not in (RUNNING, STOPPED):
        return found
    return found._replace(status=RUNNING if is_running(path) else STOPPED)


def _summarise(path: Path) -> RunSummary:
    with _looking:
        return summarise_run(path)


def is_running(path: Path) -> bool:
    """Return whether a process is training the run in a folder."""
    with _looking:
        now = time.monotonic()
        when, was_locked = _locks.get(path, (-math.inf, False))
        if now - when < _LOCK_SECONDS:
            return was_locked
        if len(_locks) > _MAX_LOCKS:
            _locks.clear()
        _locks[path] = now, is_locked(path)
        return _locks[path][1]


def progress_files(path: Path) -> list[Path]:
    """Return the files of a run that change with its progress."""
    return [path / name for name in ("config.toml", "state.json", "metrics.jsonl")]


def open_run(folders: Folders, name: str) -> RunFolder:
    """Return the run of that name; raise UserError if it is not a run or not served."""
    path = folders.confined(Path(name))
    if not is_run(path):
        raise MissingError(f"{quoted(name)} is not a run: expected one of the page Runs")
    return RunFolder.open(path)


def records_of(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return _RECORDS.get(str(run.path), progress_files(run.path), lambda: read_records(run))
