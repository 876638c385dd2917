"""Folders of work that can be stopped and resumed: runs, tournaments, studies, data sets.

A folder is recognised by its settings file. Work is resumed with the same settings, by one process
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_no_link, make_folder
from zerolab.core.flattening import flatten
from zerolab.store.checks import reading, writing
from zerolab.store.state import read_config, write_config

LEFTOVERS = f".*.{'[0-9a-f]' * 8}.part"
"""Temporary files of `core.files.atomic_replace`, whose writers were killed."""

_LOCK = ".lock"
_PATIENCE = 0.2  # seconds: `is_locked` in another process holds the lock for a moment


class FolderKind(NamedTuple):
    """A kind of folder, such as that of a tournament."""

    noun: str
    """Its name in messages and in the settings file: ``tournament``."""
    settings_file: str
    """The settings file, which identifies a folder of this kind: ``tournament.toml``."""
    option: str
    """The option for the folder: ``--folder``."""

    def is_in(self, path: Path) -> bool:
        """Return True for a folder of this kind; raise UserError if it cannot be read."""
        with reading(path):
            return (path / self.settings_file).is_file()

    def require_ours(self, path: Path) -> None:
        """Raise UserError for a folder that is neither of this kind nor empty.

        Hidden files do not count.
        """
        with reading(path):
            others = any(not entry.name.startswith(".") for entry in path.iterdir())
        if others and not self.is_in(path):
            raise UserError(
                f"{quoted(path)} is not a {self.noun} and not empty: expected a new or empty"
                f" folder; choose another {self.option}"
            )

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Create the folder if needed, and keep other processes out of it.

        Half-written files of killed writers are removed. Raises UserError if the folder holds
        something else or another process works in it.
        """
        make_folder(path)
        self.require_ours(path)  # before a lock file is created in a foreign folder
        with exclusive(path):
            for leftover in path.glob(LEFTOVERS):
                with suppress(OSError):
                    leftover.unlink()
            yield

    def read_settings(self, path: Path) -> dict[str, Any]:
        """Return the saved settings; raise UserError if they are missing, damaged or newer."""
        return read_config(path / self.settings_file, self.noun)

    def write_settings(self, path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the saved settings atomically; return them as they will be read back."""
        return write_config(path / self.settings_file, settings, self.noun)

    def require_equal(
        self,
        path: Path,
        saved: Mapping[str, Any],
        wanted: Mapping[str, Any],
        except_for: Container[str] = (),
        note: str = "",
    ) -> None:
        """Raise UserError for the first setting that differs.

        Settings are named by dotted keys, those in `except_for` may differ, and `note` says so.
        """
        before, after = (dict(flatten(each, into_lists=True)) for each in (saved, wanted))
        for key in {**before, **after}:
            if key not in except_for and before.get(key) != after.get(key):
                raise UserError(
                    f"{key} = {_shown(after, key)} differs from {_shown(before, key)} in"
                    f" {quoted(path)}: a {self.noun} keeps its settings{note}; choose another"
                    f" {self.option}"
                )


def _shown(table: Mapping[str, Any], key: str) -> str:
    return quoted(table[key]) if key in table else "nothing"


def may_be(is_of_kind: Callable[[Path], bool], path: Path) -> bool:
    """Return True for a folder of a kind, and for one that cannot be read, so that it is listed."""
    try:
        return is_of_kind(path)
    except UserError:
        return True


class InUseError(UserError):
    """Another process is using a folder."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder.

    The lock ends with its process, however that ends. Raises InUseError if another process holds
    it, UserError if the folder cannot be written.
    """
    check_no_link(folder / _LOCK)
    lock = FileLock(folder / _LOCK, thread_local=False)  # any thread may release it
    with writing(folder):
        try:
            lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 10)
        except Timeout:
            raise InUseError(f"{folder} is in use: another process is at work on it") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Return True if a process is using a folder, without writing anything."""
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
