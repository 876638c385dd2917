"""Files: replaced whole or not at all, and looked at before they are read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zerolab.core.errors import UserError, quoted

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


def check_path(path: Path) -> None:
    """Raise UserError if nothing can have this name: it is too long, or not UTF-8.

    Everything else, missing or not, is fine.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"{quoted(path)}: expected a name in UTF-8") from None
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:  # too long; a null character
        raise UserError(f"{quoted(path)}: {_reason(error)}") from None


def check_file(path: Path, limit: int) -> None:
    """Raise UserError unless `path` is a regular file of at most `limit` bytes.

    Opening a named pipe waits for whoever writes into it; a device may never end. So this comes
    before a file that somebody else has made is opened.
    """
    try:
        _check_kind(path, path.stat(), limit)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def check_no_link(path: Path) -> None:
    """Raise UserError for a link, before something is written through it.

    Otherwise a stranger's folder could change a file of the user's.
    """
    if path.is_symlink():
        raise UserError(f"cannot write {quoted(path)}: it is a link; expected a file")


def read_limited(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; raise UserError otherwise."""
    check_file(path, limit)
    try:
        with open(path, "rb") as file:
            _check_kind(path, os.fstat(file.fileno()), limit)
            content = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > limit:  # it has grown, or is one of those that say they have no bytes
        raise _too_large(path, f"more than {limit:,}", limit)
    return content


def read_text(path: Path, limit: int) -> str:
    """Return the text of a regular UTF-8 file of at most `limit` bytes; raise UserError otherwise.

    Line ends are kept as they are.
    """
    try:
        return read_limited(path, limit).decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"cannot read {quoted(path)}: byte {error.start:,} is not UTF-8 text"
        ) from None


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Give a temporary path to write; on success it is flushed to disk and takes `path`'s place.

    A crash leaves the old file or the new one, never half of either, and the temporary one if it
    comes at a bad moment: `.NAME.*.part`. Of several writers at once, each has a temporary file of
    its own, and the last one to end wins. Raises UserError where the disk is full or the folder
    cannot be written; the old file stays.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error
    finally:
        with suppress(OSError):  # where it could not be made, it cannot always be removed either
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace a text file in one step."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    with atomic_replace(path) as temporary:
        temporary.write_bytes(content)


def remove_file(path: Path) -> None:
    """Remove a file if there is one; raise UserError where that is impossible."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error


def check_target(path: Path) -> None:
    """Raise UserError if a file cannot be written there, before the work that leads to it."""
    check_path(path)
    try:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise _unwritable(path, f"the folder {quoted(path.parent)} does not exist")
        if path.is_dir():
            raise _unwritable(path, "it is a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _unwritable(path, f"no permission for the folder {quoted(path.parent)}")
    except OSError as error:
        raise _unwritable(path, _reason(error)) from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents; raise UserError where that is impossible."""
    check_path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {quoted(path)}: {_reason(error)}") from error


def _check_kind(path: Path, found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "special file")
        raise UserError(f"cannot read {quoted(path)}: it is a {kind}; expected a file")
    if found.st_size > limit:
        raise _too_large(path, f"{found.st_size:,}", limit)


def _too_large(path: Path, size: str, limit: int) -> UserError:
    return UserError(f"cannot read {quoted(path)}: it has {size} bytes; expected at most {limit:,}")


def _unreadable(path: Path, error: OSError | ValueError) -> UserError:
    return UserError(f"cannot read {quoted(path)}: {_reason(error)}")


def _unwritable(path: Path, reason: str) -> UserError:
    return UserError(f"cannot write {quoted(path)}: {reason}")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; only systems that can open a folder need it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
