"""One process at a time works on a run, or on another folder that grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from zerolab.core.errors import UserError
from zerolab.store.checks import writing

_NAME = ".lock"
_PATIENCE = 0.2  # seconds: `is_locked` in another process holds the lock for a moment


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder.

    The lock ends with its process, however that ends. Raises UserError if another process holds
    it or the folder cannot be written.
    """
    lock = FileLock(folder / _NAME)
    with writing(folder):
        try:
            lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 10)
        except Timeout:
            raise UserError(f"{folder} is in use: another process is at work on it") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Tell whether some process is at work on a run; nothing is written."""
    if not (folder / _NAME).exists():
        return False
    lock = FileLock(folder / _NAME)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
