"""Writing files so that a crash leaves the old one or the new one, never half of either."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zerolab.core.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write; on success it is flushed to disk and takes `path`'s place.

    Raises UserError where the disk is full or the folder cannot be written; the old file stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # where it could not be made, it cannot always be removed either
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace a text file in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_target(path: Path) -> None:
    """Raise UserError if a file cannot be written there, before the work that leads to it."""
    try:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UserError(f"cannot write {path}: the folder {path.parent} does not exist")
        if path.is_dir():
            raise UserError(f"cannot write {path}: it is a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(f"cannot write {path}: no permission for the folder {path.parent}")
    except OSError as error:  # such as a name that is too long
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents; raise UserError where that is impossible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror or error}") from error


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; only systems that can open a folder need it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
