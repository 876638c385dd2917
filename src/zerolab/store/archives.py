"""Members of npz archives, whose sizes are looked at before anything is decompressed.

A file of a few megabytes can hold gigabytes of zeros, and can say less of itself than it holds.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.store.checks import damaged, reading, require_file

_LARGEST_DIRECTORY = 1 << 16
"""Bytes; zipfile keeps a kilobyte for each entry, of which examples have a dozen."""
_LARGEST_TEXT = 1 << 25
_FREE_BYTES = 1 << 26
_MOST_EXPANDED = 250
"""Times the size of a file that its columns may have, beyond a few. The most that was seen are 113,
of random games on 19x19; with a search it is less than 50."""
_HEAD = 256
_AT_ONCE = 1 << 20

_END = b"PK\5\6"
_END_64 = b"PK\6\7"


class _Column(NamedTuple):
    """Location of an array within its member, by the member's head and the directory."""

    member: zipfile.ZipInfo
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Archive:
    """An npz archive that is open for reading; methods raise as `open_archive` says."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive

    def __contains__(self, name: str) -> bool:
        return name in self._archive.namelist()

    def text(self, name: str) -> bytes:
        """Return a member that is no array, of at most 32 MiB."""
        member = self._member(name)
        if member.file_size > _LARGEST_TEXT:
            raise damaged(self._path, f"{name} has {member.file_size:,} bytes")
        return bytes(self._content(member))

    def columns(self, forms: Mapping[str, tuple[str, int]]) -> dict[str, NDArray[Any]]:
        """Return arrays of an equal length, whose dtypes and numbers of axes are known."""
        found = {name: self._column(name, *form) for name, form in forms.items()}
        if len({column.shape[0] for column in found.values()}) != 1:
            raise damaged(self._path, "its columns do not match each other")
        total = sum(column.member.file_size for column in found.values())
        limit = _FREE_BYTES + _MOST_EXPANDED * self._path.stat().st_size
        if total > limit:
            raise damaged(self._path, f"it expands to {total:,} bytes, expected at most {limit:,}")
        return {
            name: np.frombuffer(self._content(each.member), each.dtype, offset=each.offset).reshape(
                each.shape
            )
            for name, each in found.items()
        }

    def _column(self, name: str, dtype: str, axes: int) -> _Column:
        member = self._member(f"{name}.npy")
        with self._archive.open(member) as opened:
            head = BytesIO(opened.read(_HEAD))
        if np.lib.format.read_magic(head) != (1, 0):
            raise ValueError(f"{name} has a head of another version")
        shape, is_fortran, found = np.lib.format.read_array_header_1_0(head)
        if (found, len(shape), is_fortran) != (np.dtype(dtype), axes, False) or min(shape) < 0:
            raise ValueError("its columns do not match each other")
        if head.tell() + prod(shape) * found.itemsize != member.file_size:
            raise ValueError(f"{name} does not have the size that it says")
        return _Column(member, head.tell(), found, shape)

    def _member(self, name: str) -> zipfile.ZipInfo:
        member = self._archive.getinfo(name)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that is not known here")
        return member

    def _content(self, member: zipfile.ZipInfo) -> bytearray:
        """Read a member whole, but no further than it says; its checksum is compared at its end."""
        content = bytearray(member.file_size)
        view, done = memoryview(content), 0
        with self._archive.open(member) as opened:
            while done < len(content):
                read = opened.read(min(_AT_ONCE, len(content) - done))
                if not read:
                    raise ValueError(f"{member.filename} is too short")
                view[done : done + len(read)] = read
                done += len(read)
        return content


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an npz archive; raise UserError for whatever is wrong with it, now or as it is read."""
    require_file(path)
    with reading(path), open(path, "rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(-min(length, 98), os.SEEK_END)
        _check_directory(file.read())
        with zipfile.ZipFile(file) as archive:
            yield Archive(path, archive)


def _check_directory(end: bytes) -> None:
    """Raise ValueError unless the last 98 bytes of an archive name a small directory."""
    if end[-22:-18] != _END or end[-2:] != b"\0\0":
        raise ValueError("its directory is missing")
    (size,) = struct.unpack_from("<L", end, len(end) - 10)
    if end[-42:-38] == _END_64:  # of files of 4 GiB and more
        (size,) = struct.unpack_from("<Q", end, 40)
    if size > _LARGEST_DIRECTORY:
        raise ValueError(f"its directory has {size:,} bytes")
