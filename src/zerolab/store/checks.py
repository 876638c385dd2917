"""Guarded reading of files that may be damaged or come from strangers, including SQLite files.

An SQLite file may contain endless views, triggers that run on every write, and pages that others
refer to a billion times. Its journal may be a named pipe, or name a file of the reader's that
SQLite would remove. So kinds and sizes are checked first, only the expected tables are accepted,
and the work of queries is limited by the size of the file.

Only SQLite opens its files: closing any other descriptor would drop the locks that other threads of
this process hold on them.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import check_file, check_no_link, read_limited

# All errors seen from the decoders of numpy, zipfile, safetensors, json and tomllib when single
# bytes of their files were changed.
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
    """Return the error for a file whose content has changed since it was written."""
    return UserError(f"{path} is damaged ({one_line(why)}); restore it from a backup")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise UserError for any error in reading or decoding a file."""
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
    """Return the content of a file; raise UserError as `require_file` does."""
    require_file(path, limit)
    return read_limited(path, limit)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise UserError if the disk is full or the file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def check_schema(path: Path, found: Any, known: int) -> None:
    """Raise UserError for a file with another schema version than the one known here."""
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
    """Return a digest of all parts, 32 hexadecimal digits."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


_LARGEST = 1 << 36
_LONGEST_ROW = 1 << 18
"""Bytes; a game has a few hundred."""
_ROWS_AT_ONCE = 64
_SECONDS_TO_READ = 5.0
_SECONDS_TO_WRITE = 15.0
"""Longest times to wait for another process to release the file."""

# Queries of games take at most one SQLite instruction per byte of the file.
_FREE_OPERATIONS = 2_000_000
_OPERATIONS_PER_BYTE = 10
_OPERATIONS_PER_STEP = 10_000
_FREE_BYTES = 1 << 20
_BYTES_PER_BYTE = 4

_NAMES_ANOTHER_FILE = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""The end of a journal that belongs to several databases."""
_STATISTICS = (
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
)
"""Tables that ANALYZE creates for SQLite's planner; other programs run it unasked."""
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_TOOBIG")


class Database(sqlite3.Connection):
    """A connection whose work is limited by the size of the file.

    Beyond the limit, a statement raises sqlite3.OperationalError.
    """

    _operations = _bytes = 0

    def allow(self, operations: int, read: int = 0) -> None:
        """Allow more instructions, and more bytes to be read by `rows`."""
        self._operations += operations
        self._bytes += read

    def rows(self, query: str, arguments: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        found: list[tuple[Any, ...]] = []
        cursor = self.execute(query, arguments)
        while some := cursor.fetchmany(_ROWS_AT_ONCE):
            found += some
            self._bytes -= sum(
                len(cell) for row in some for cell in row if isinstance(cell, str | bytes)
            )
            if self._bytes < 0:
                raise _TooMuchError
        return found

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        # count(*) would be one instruction for any number of pages.
        ((total,),) = self.rows(f"SELECT total(1) FROM {table}")
        return int(total)

    def is_exhausted(self) -> bool:
        """Count instructions; return True if the limit is exceeded."""
        self._operations -= _OPERATIONS_PER_STEP
        return self._operations < 0


class _TooMuchError(sqlite3.DatabaseError):
    sqlite_errorname = "SQLITE_INTERRUPT"


@contextmanager
def connected(path: Path, writing: bool) -> Iterator[Database]:
    """Open a database for reading or, if `writing`, for writing; it may then be new.

    Half-written changes of a killed process are rolled back. Raises UserError for every error of
    SQLite, and if another process holds the file.
    """
    if writing:
        check_no_link(path)
    has_journal = _check_kinds(path)
    # Rolling back half-written changes needs write access.
    mode = "rwc" if writing else "rw" if has_journal else "ro"
    seconds = _SECONDS_TO_WRITE if writing else _SECONDS_TO_READ
    try:
        _check_mode(path)
        with closing(_opened(path, mode, timeout=seconds)) as connection:
            _harden(connection, writing)
            size = path.stat().st_size
            connection.allow(
                _FREE_OPERATIONS + _OPERATIONS_PER_BYTE * size, _FREE_BYTES + _BYTES_PER_BYTE * size
            )
            yield connection
    except UnicodeDecodeError as error:
        raise damaged(path, error) from error
    except sqlite3.Error as error:
        raise _explained(path, error, seconds) from error


def check_objects(path: Path, objects: Iterable[tuple[str, str, str]], ours: Iterable[str]) -> None:
    """Raise UserError for objects, such as views, that the statements `ours` do not create.

    SQLite's own statistics are accepted. `objects` are the types, names and statements of
    sqlite_master.
    """
    statements = {_plain(text) for text in (*ours, *_STATISTICS)}
    for kind, name, text in objects:
        is_automatic = kind == "index" and text is None
        if not is_automatic and not (kind == "table" and _plain(str(text)) in statements):
            raise UserError(
                f"{path} holds the {one_line(kind)} {quoted(name)}:"
                " expected only the tables that zerolab writes"
            )


def _plain(statement: str) -> str:
    return " ".join(statement.split())


def _check_kinds(path: Path) -> bool:
    """Raise UserError for files that SQLite should not open; return True if there is a journal."""
    if path.exists():
        check_file(path, _LARGEST)
    target = os.path.realpath(path)  # SQLite follows links
    for ending in ("-wal", "-shm"):
        other = Path(target + ending)
        if os.path.lexists(other):
            raise UserError(
                f"{quoted(other)} is not written by zerolab: restore it and {path.name} from a"
                " backup, or remove it"
            )
    journal = Path(target + "-journal")
    if not os.path.lexists(journal):
        return False
    try:
        check_file(journal, _LARGEST)
        with open(journal, "rb") as file:
            file.seek(-min(journal.stat().st_size, len(_NAMES_ANOTHER_FILE)), os.SEEK_END)
            end = file.read()
    except (OSError, UserError):
        if not os.path.lexists(journal):  # the writer has finished
            return False
        raise
    if end == _NAMES_ANOTHER_FILE:
        raise UserError(f"{quoted(journal)} is not written by zerolab: it names another file")
    return True


def _check_mode(path: Path) -> None:
    """Raise UserError for a database in WAL mode, where even reading creates other files.

    Without locks, SQLite refuses such a file after reading its header, so that a concurrent change
    does no harm.
    """
    if not path.exists():
        return
    with closing(_opened(path, "ro&nolock=1")) as connection:
        try:
            connection.execute("PRAGMA application_id")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname == "SQLITE_CANTOPEN":
                raise UserError(
                    f"{path} is in SQLite's WAL mode: zerolab writes no such file; after"
                    " PRAGMA journal_mode = DELETE it can be read"
                ) from None


def _opened(path: Path, mode: str, **options: Any) -> Database:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, isolation_level=None, factory=Database, **options)


def _harden(connection: Database, writing: bool) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
    connection.set_progress_handler(connection.is_exhausted, _OPERATIONS_PER_STEP)
    if hasattr(connection, "setconfig"):  # Python 3.12
        for name, value in (("DEFENSIVE", True), ("ENABLE_TRIGGER", False), ("ENABLE_VIEW", False)):
            connection.setconfig(getattr(sqlite3, f"SQLITE_DBCONFIG_{name}"), value)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    if not writing:
        connection.execute("PRAGMA query_only = ON")


def _explained(path: Path, error: sqlite3.Error, seconds: float) -> UserError:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_INTERRUPT":
        return damaged(path, "it asks for more work than a file of its size can be")
    if name.startswith("SQLITE_BUSY"):
        return UserError(
            f"{path} is locked by another process: waited {seconds:g} s; try again later"
        )
    if name.startswith(_DAMAGED) or "decode to UTF-8" in str(error):
        return damaged(path, error)
    return UserError(f"cannot use {path}: {one_line(error)}")
