"""What can be wrong with a file of a run, each reported in one line."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import check_file, read_limited

# Everything that the decoders of numpy, zipfile, safetensors, json and tomllib were seen to raise
# when single bytes of their files were changed.
UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    AttributeError,  # safetensors asks numpy for types that it lacks
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    SafetensorError,
)


def damaged(path: Path, why: object) -> UserError:
    """Return the error for a file whose content is not what was written."""
    return UserError(f"{path} is damaged ({one_line(why)}); restore it from a backup")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise UserError for whatever goes wrong while a file is read and decoded."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it from a backup") from None
    except OSError as error:
        if error.filename is None and not isinstance(error, PermissionError):  # from a decoder
            raise damaged(path, error) from error
        raise UserError(f"cannot read {quoted(path)}: {error.strerror or error}") from error
    except UNREADABLE as error:
        raise damaged(path, error) from error


def require_file(path: Path, limit: int = 1 << 36) -> None:
    """Raise UserError if a file is missing, larger than `limit` bytes, or no regular file.

    Reading a named pipe or a device could take forever.
    """
    with reading(path):
        path.stat()
    check_file(path, limit)


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a file; see `require_file` for the errors raised."""
    require_file(path, limit)
    return read_limited(path, limit)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise UserError where the disk is full or the file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def check_schema(path: Path, found: Any, known: int) -> None:
    """Raise UserError where a file's schema version is not the one this version reads."""
    if not isinstance(found, int):
        raise UserError(f"{path} was not written by zerolab: it names no schema version")
    if found > known:
        raise UserError(
            f"{path} has schema version {found}, newer than the {known} known here: update zerolab"
        )
    if found < known:
        raise UserError(
            f"{path} has schema version {found}, older than the {known} read here: use the version"
            " of zerolab that wrote it"
        )


def digest(*parts: bytes) -> str:
    """Return 32 hexadecimal digits that change when any part does."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()
