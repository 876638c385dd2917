"""Served folders, the runs in them, and a cache of results read from files."""

from __future__ import annotations

import math
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_text
from zerolab.store.checks import hex_digest
from zerolab.store.folder import is_locked
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.panels import Trend, trend_of_run
from zerolab.training.records import Record
from zerolab.training.reporting import read_records
from zerolab.web.requests import ForbiddenError, NotFoundError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def server_folder_in(folder: Path) -> Path:
    """Return the folder in which the server keeps its files about the runs in `folder`."""
    return folder / ".server"


@dataclass(frozen=True)
class Folders:
    """Folders that pages can access. Everything else on the disk is off limits."""

    runs: tuple[Path, ...] = (Path("runs"),)
    """Runs or folders that contain runs. New runs and uploaded agents go to the first folder."""
    studies: Path = Path("studies")
    tournaments: Path = Path("tournaments")

    @property
    def agents(self) -> Path:
        """Folder of uploaded agent files."""
        return self.runs[0] / "agents"

    @property
    def server_folder(self) -> Path:
        """Folder of the server's files: training processes and the class."""
        return server_folder_in(self.runs[0])

    @property
    def puzzles(self) -> Path:
        """Folder of puzzle files written by `zerolab puzzles`."""
        return self.runs[0] / "puzzles"

    @property
    def classroom(self) -> Path:
        """Folder of the class: names, tokens, agents and tournaments."""
        return self.server_folder / "class"

    def puzzle_file(self, game: str) -> Path:
        """Return the file in which this user's server stores the puzzles for a game.

        The file is outside the served folders, whose authors could otherwise invent puzzles. Raises
        UserError if there is no folder for this user's data.
        """
        folder = user_state_folder() / "puzzles" / _folder_key(self.server_folder)
        return folder / f"{game.replace(':', '-')}.jsonl"

    def require_served_network_path(self, name: str) -> str:
        """Return `name` if it names a run, a network RUN@N or a file inside the run folders.

        Raises ForbiddenError if the path is outside, with or without the part after the @. If RUN@N
        is not a path, but RUN is a run, only RUN is checked, since it may itself be served.
        """
        run, _, number = name.rpartition("@")
        paths = {name, run or name}
        if number.isdecimal() and not os.path.lexists(name) and is_run(Path(run)):
            paths = {run}
        for path in paths:
            self.require_served_path(Path(path))
        return name

    @property
    def tournament_sources(self) -> tuple[Path, Path]:
        """Folders that contain tournaments."""
        return self.tournaments, self.studies

    def may_list(self, path: Path, among: Sequence[Path] | None = None) -> bool:
        """Return whether a listing may show a path, because requests for it will be accepted.

        Responses are UTF-8, so they can name only such paths. For the rest, see
        `require_served_path`.
        """
        try:
            str(path).encode()
            self.require_served_path(path, among)
        except (UnicodeEncodeError, UserError):
            return False
        return True

    def require_served_path(self, path: Path, among: Sequence[Path] | None = None) -> Path:
        """Return `path` if it is inside a folder in `among`; by default, the run folders.

        Raises ForbiddenError if it is outside, even through symbolic links, and UserError if it is
        not a valid path.
        """
        folders = self.runs if among is None else among
        try:
            resolved = path.resolve()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                resolved.stat()  # raises for impossible names, such as very long ones
            is_inside = any(resolved.is_relative_to(each.resolve()) for each in folders)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"{quoted(path)} is not a path") from error
        if not is_inside:
            served = ", ".join(each.as_posix() for each in folders)
            raise ForbiddenError(f"{quoted(path)} is not served: expected a path in {served}")
        return path


def new_folder_path(folders: Folders, name: str, parent: Path, example: str) -> Path:
    """Return the path of a new folder in `parent`, which is one of the served folders.

    Raises UserError if `name` is already used or, with `example` in the message, if it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            f"name = {quoted(name)}: expected letters, digits, dots, dashes and underscores, such"
            f" as {example}"
        )
    path = folders.require_served_path(parent / name, (parent,))
    if path.exists():
        raise UserError(f"name = {quoted(name)}: {quoted(path)} already exists; use another name")
    return path


def modification_time(path: Path) -> float:
    """Return the modification time of a file or folder, or 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_Result = TypeVar("_Result")
_Signature = tuple[tuple[int, int, int] | None, ...]

_MAX_CACHED = 2000


class FileCache(Generic[_Result]):
    """Cache of results read from files. A result is valid until one of its files changes.

    If several callers need the same result at the same time, one reads it and the others wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, tuple[_Signature, _Result]] = OrderedDict()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        """Locks of the keys in use."""

    def get(self, key: str, files: Iterable[Path], read: Callable[[], _Result]) -> _Result:
        """Return the cached result, or call `read` if one of the files has changed."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            return self._get(key, tuple(map(_file_signature, files)), read)

    def _get(self, key: str, signature: _Signature, read: Callable[[], _Result]) -> _Result:
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
    """Return numbers that change whenever the file changes, or None if it does not exist."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


RUNNING, STOPPED = "running", "stopped"

_SUMMARIES: FileCache[RunSummary] = FileCache()
_RECORDS: FileCache[list[Record]] = FileCache()
_TRENDS: FileCache[Trend] = FileCache()

_LOCK_SECONDS = 0.4
"""Time for which the result of a lock check is reused."""
_MAX_LOCKS = 10_000
_checking = threading.Lock()
"""Lock that serialises checks of folder locks. A check briefly takes the folder's lock, which a
simultaneous check would mistake for work in the folder."""
_locks: dict[Path, tuple[float, bool]] = {}
"""Time and result of the last lock check, by folder."""


def list_runs(folders: Folders) -> list[RunSummary]:
    """Return the runs in all existing run folders, without those that links lead to elsewhere."""
    existing = [each for each in folders.runs if each.is_dir()]
    return [run_summary(path) for path in filter(folders.may_list, find_runs(existing))]


def newest_run(folders: Folders) -> RunSummary | None:
    """Return the run with the most recent progress, or None if there are no runs."""
    return max(list_runs(folders), key=latest_progress_time, default=None)


def latest_progress_time(run: RunSummary) -> float:
    """Return the time of a run's most recent progress, or 0 if it has no state file."""
    return modification_time(Path(run.path) / "state.json")


def run_summary(path: Path) -> RunSummary:
    """Return the summary of a run, with the status "damaged" if the run is unreadable."""

    def summarise() -> RunSummary:
        with _checking:
            return summarise_run(path)

    cached = _SUMMARIES.get(str(path), progress_files(path), summarise)
    if cached.status not in (RUNNING, STOPPED):
        return cached
    return cached._replace(status=RUNNING if is_running(path) else STOPPED)


def is_running(path: Path) -> bool:
    """Return whether a process is training the run, or playing the tournament, in a folder."""
    with _checking:
        now = time.monotonic()
        when, was_locked = _locks.get(path, (-math.inf, False))
        if now - when < _LOCK_SECONDS:
            return was_locked
        if len(_locks) > _MAX_LOCKS:
            _locks.clear()
        _locks[path] = now, is_locked(path)
        return _locks[path][1]


def progress_files(path: Path) -> list[Path]:
    """Return the run files that change as training progresses."""
    return [path / name for name in ("config.toml", "state.json", "metrics.jsonl")]


def open_run(folders: Folders, name: str) -> RunFolder:
    """Return the run called `name`; raise UserError if it is not a run or is not served."""
    path = folders.require_served_path(Path(name))
    if not is_run(path):
        raise NotFoundError(f"{quoted(name)} is not a run: expected one listed on the Runs page")
    return RunFolder.open(path)


def records_of(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return _RECORDS.get(str(run.path), progress_files(run.path), lambda: read_records(run))


def run_trend(path: Path) -> Trend:
    """Return the trend of a run, without values if its records are damaged."""

    def read() -> Trend:
        try:
            return trend_of_run(records_of(RunFolder.open(path)))
        except UserError:
            return Trend("", [])

    return _TRENDS.get(str(path), progress_files(path), read)


_SECRET_BYTES = 24
_MAX_SECRET_BYTES = 200


def folder_secret(folder: Path) -> str:
    """Return this user's secret for a served folder, which stays the same across servers.

    The secret is stored outside the folder, whose author could otherwise know it. Raises UserError
    if the secret cannot be read or written.
    """
    path = user_state_folder() / "served" / _folder_key(folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(_SECRET_BYTES))
    except OSError as error:
        raise UserError(f"cannot save a token in {quoted(path)}: {error.strerror}") from error
    secret = read_text(path, _MAX_SECRET_BYTES).strip()
    if len(secret) < _SECRET_BYTES:
        raise UserError(f"{quoted(path)} is too short for a token: delete it")
    return secret


def _folder_key(folder: Path) -> str:
    """Return the name under which this user's data about a folder is stored."""
    return hex_digest(str(folder.resolve()).encode())


def user_state_folder() -> Path:
    """Return the folder for this user's data that must survive restarts.

    Raises UserError if there is neither a home directory nor XDG_STATE_HOME.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise UserError("there is no home directory: set XDG_STATE_HOME to a folder") from None
    return Path(state, "zerolab")
