"""Folders of resumable work: runs, tournaments, studies and data sets.

A folder is identified by its settings file. Work resumes with the same settings, and only one
process at a time can work in a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_not_symlink, make_folder
from zerolab.core.nested_tables import flatten
from zerolab.store.checks import user_errors_on_read, user_errors_on_write
from zerolab.store.state import read_settings_file, write_settings_file

LEFTOVERS = f".*.{'[0-9a-f]' * 8}.part"
"""Glob pattern of temporary files that `core.files.atomic_replace` leaves if it is killed."""

_LOCK = ".lock"
_LOCK_SECONDS = 0.2  # not 0, because `is_locked` in another process takes the lock briefly


class FolderKind(NamedTuple):
    """A kind of folder, such as tournament folders."""

    noun: str
    """Name in messages and in the settings file, such as ``tournament``."""
    settings_file: str
    """Settings file that identifies folders of this kind, such as ``tournament.toml``."""
    folder_option: str
    """Command-line option for the folder, such as ``--folder``."""

    def matches(self, path: Path) -> bool:
        """Return True for a folder of this kind; raise UserError if it cannot be read."""
        with user_errors_on_read(path):
            return (path / self.settings_file).is_file()

    def require_own_or_empty(self, path: Path) -> None:
        """Raise UserError for a folder that is neither of this kind nor empty.

        Hidden files are ignored.
        """
        with user_errors_on_read(path):
            has_content = any(not entry.name.startswith(".") for entry in path.iterdir())
        if has_content and not self.matches(path):
            raise UserError(
                f"{quoted(path)} is not a {self.noun} and not empty: expected a new or empty"
                f" folder; choose another {self.folder_option}"
            )

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Create the folder if necessary, and lock it against other processes.

        Temporary files of killed processes are removed. Raises UserError if the folder has other
        content or another process is using it.
        """
        make_folder(path)
        self.require_own_or_empty(path)  # first, to avoid creating a lock file in a foreign folder
        with lock_folder(path):
            for leftover in path.glob(LEFTOVERS):
                with suppress(OSError):
                    leftover.unlink()
            yield

    def read_settings(self, path: Path) -> dict[str, Any]:
        """Return the saved settings; raise UserError if they are missing, damaged or newer."""
        return read_settings_file(path / self.settings_file, self.noun)

    def write_settings(self, path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the saved settings atomically; return them as `read_settings` will."""
        return write_settings_file(path / self.settings_file, settings, self.noun)

    def require_equal_settings(
        self,
        path: Path,
        saved: Mapping[str, Any],
        requested: Mapping[str, Any],
        except_for: Container[str] = (),
        note: str = "",
    ) -> None:
        """Raise UserError for the first setting that differs.

        Settings with the dotted keys in `except_for` can differ; the error message mentions them in
        `note`.
        """
        before, after = (dict(flatten(each, into_lists=True)) for each in (saved, requested))
        for key in {**before, **after}:
            if key not in except_for and before.get(key) != after.get(key):
                raise UserError(
                    f"{key} = {_value_text(after, key)} differs from {_value_text(before, key)} in"
                    f" {quoted(path)}: a {self.noun} keeps its settings{note}; choose another"
                    f" {self.folder_option}"
                )


def _value_text(table: Mapping[str, Any], key: str) -> str:
    return quoted(table[key]) if key in table else "nothing"


def matches_or_is_unreadable(is_of_kind: Callable[[Path], bool], path: Path) -> bool:
    """Return True for a folder that is of a kind or cannot be read.

    Listings include unreadable folders so that users notice them.
    """
    try:
        return is_of_kind(path)
    except UserError:
        return True


class FolderInUseError(UserError):
    """Error for a folder that another process is using."""


@contextmanager
def lock_folder(folder: Path, max_wait: float = _LOCK_SECONDS) -> Iterator[None]:
    """Lock a folder against other processes, waiting up to `max_wait` seconds for the lock.

    The lock ends with its process, even if the process is killed. Raises FolderInUseError if
    another process has the lock, and UserError if the folder is not writable.
    """
    check_not_symlink(folder / _LOCK)
    lock = FileLock(folder / _LOCK, thread_local=False)  # any thread can release it
    with user_errors_on_write(folder):
        try:
            lock.acquire(timeout=max_wait, poll_interval=_LOCK_SECONDS / 10)
        except Timeout:
            raise FolderInUseError(f"{folder} is in use by another process") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Return True if a process is using a folder; write nothing."""
    if not (folder / _LOCK).exists() or (folder / _LOCK).is_symlink():
        return False
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
