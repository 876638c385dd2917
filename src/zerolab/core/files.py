"""Atomic writes, guarded reads, and JSON without NaN or infinity."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError, quoted

_FILE_TYPES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


def check_valid_path(path: Path) -> None:
    """Raise UserError if a path is too long, is not valid UTF-8 or contains a null character.

    The path need not exist.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"{quoted(path)}: expected a name in UTF-8") from None
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:  # too long, or with a null character
        raise UserError(f"{quoted(path)}: {_reason(error)}") from None


def check_regular_file(path: Path, max_bytes: int) -> None:
    """Raise UserError unless `path` is a regular file of at most `max_bytes`.

    Call this before opening a file of unknown origin. Opening a named pipe blocks until another
    process writes to it, and reading from a device may never end.
    """
    try:
        _check_type(path, path.stat(), max_bytes)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def check_not_symlink(path: Path) -> None:
    """Raise UserError if `path` is a symbolic link.

    Call this before writing, since a link in a downloaded folder could redirect the write to one of
    the user's files.
    """
    if path.is_symlink():
        raise UserError(f"cannot write {quoted(path)}: it is a link; expected a regular file")


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`; raise UserError otherwise."""
    check_regular_file(path, max_bytes)
    try:
        with open(path, "rb") as file:
            _check_type(path, os.fstat(file.fileno()), max_bytes)
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > max_bytes:  # the file has grown, or is a special file that reports size 0
        raise _too_large(path, f"more than {max_bytes:,}", max_bytes)
    return content


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a regular UTF-8 file of at most `max_bytes`; raise UserError otherwise.

    Line endings are preserved; a leading byte order mark is removed.
    """
    try:
        return read_file(path, max_bytes).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UserError(
            f"cannot read {quoted(path)}: byte {error.start:,} is not UTF-8 text"
        ) from None


@contextmanager
def atomic_replace(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; on success, flush it to disk and rename it to `path`.

    Without `durable`, the file is not flushed, and a crash of the machine can damage it. Any other
    crash leaves a complete file, old or new, and perhaps the temporary file `.NAME.*.part`.
    Concurrent writers use different temporary files, and the last one to finish wins. Raises
    UserError if the disk is full or the folder is not writable; the old file is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if durable:
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            _flush_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error
    finally:
        with suppress(OSError):  # the caller may not have created it
            temporary.unlink()


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace a text file atomically; see `atomic_replace`."""
    write_bytes(path, text.encode(), durable=durable)


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically; see `atomic_replace`."""
    with atomic_replace(path, durable=durable) as temporary:
        temporary.write_bytes(content)


def write_private_text(path: Path, text: str) -> None:
    """Replace a text file atomically with one that only its owner can read."""
    with atomic_replace(path) as temporary:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def remove_file(path: Path) -> None:
    """Remove a file if it exists; raise UserError if that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error


def check_output_path(path: Path) -> None:
    """Raise UserError if no file can be written at `path`.

    Call this before starting work whose results will be written there.
    """
    check_valid_path(path)
    try:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise _unwritable(path, f"the folder {quoted(path.parent)} does not exist")
        if path.is_dir():
            raise _unwritable(path, "it is a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _unwritable(path, f"no permission to write to the folder {quoted(path.parent)}")
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error


def strict_json(title: str, table: Mapping[str, Any]) -> str:
    """Return a table as JSON; raise UserError if it contains anything else, such as NaN."""
    try:
        return json.dumps(table, indent=1, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise UserError(f"{title}: {error}") from None


def make_folder(path: Path) -> None:
    """Create a folder and its parents; raise UserError if that fails."""
    check_valid_path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        obstacle = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if obstacle.is_file():
            raise UserError(f"{quoted(obstacle)} is a file: expected a folder") from None
        if not obstacle.exists():
            raise UserError(f"{quoted(obstacle)} is a broken link: expected a folder") from None
        raise UserError(f"cannot create the folder {quoted(path)}: {_reason(error)}") from error


def _check_type(path: Path, status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        types = (name for is_type, name in _FILE_TYPES if is_type(status.st_mode))
        file_type = next(types, "special file")
        raise UserError(f"cannot read {quoted(path)}: it is a {file_type}; expected a file")
    if status.st_size > max_bytes:
        raise _too_large(path, f"{status.st_size:,}", max_bytes)


def _too_large(path: Path, size: str, max_bytes: int) -> UserError:
    return UserError(
        f"cannot read {quoted(path)}: it is {size} bytes; expected at most {max_bytes:,}"
    )


def _unreadable(path: Path, error: OSError | ValueError) -> UserError:
    return UserError(f"cannot read {quoted(path)}: {_reason(error)}")


def _unwritable(path: Path, reason: str) -> UserError:
    return UserError(f"cannot write {quoted(path)}: {reason}")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _flush_folder(folder: Path) -> None:
    """Make a rename durable, on systems where folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
