"""Guarded reading of damaged or untrusted files, including SQLite files.

A malicious SQLite file can contain views that never finish, triggers that run on every write, and a
billion references to the same page. Its journal can be a named pipe, or can make SQLite remove one
of the user's files. Therefore file types and sizes are checked first, only the expected tables are
accepted, and the size of a file limits the work of its queries.

Database files are opened only through SQLite, since closing any other descriptor of the same file
would release locks that other threads of this process hold.
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
from zerolab.core.files import check_not_symlink, check_regular_file, read_file

# All errors that the decoders of numpy, zipfile, safetensors, json and tomllib raised in tests that
# changed single bytes of files.
DECODING_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    AttributeError,  # raised by safetensors for types that numpy lacks
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    SafetensorError,
)


def damaged_file_error(path: Path, reason: object) -> UserError:
    """Return the error for a file whose content differs from what zerolab wrote."""
    return UserError(f"{path} is damaged ({one_line(reason)}); restore it from a backup")


@contextmanager
def user_errors_on_read(path: Path) -> Iterator[None]:
    """Raise UserError for any error in reading or decoding a file."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it from a backup") from None
    except OSError as error:
        if error.filename is None and not isinstance(error, PermissionError):  # raised by a decoder
            raise damaged_file_error(path, error) from error
        raise UserError(f"cannot read {quoted(path)}: {error.strerror or error}") from error
    except DECODING_ERRORS as error:
        raise damaged_file_error(path, error) from error


def require_regular_file(path: Path, max_bytes: int = 1 << 36) -> None:
    """Raise UserError unless `path` is a regular file of at most `max_bytes`.

    Reading from a named pipe or a device might never end.
    """
    with user_errors_on_read(path):
        path.stat()
    check_regular_file(path, max_bytes)


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file; raise UserError like `require_regular_file`."""
    require_regular_file(path, max_bytes)
    return read_file(path, max_bytes)


@contextmanager
def user_errors_on_write(path: Path) -> Iterator[None]:
    """Raise UserError if the disk is full or the file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def check_schema_version(path: Path, version: Any, supported: int) -> None:
    """Raise UserError unless the schema version of a file is supported."""
    if not isinstance(version, int):
        raise UserError(f"{path} was not written by zerolab: it has no schema version")
    if version > supported:
        raise UserError(
            f"{path} has schema version {version}, newer than the supported version {supported}:"
            " update zerolab"
        )
    if version < supported:
        raise UserError(
            f"{path} has schema version {version}, older than the supported version {supported}:"
            " use the version of zerolab that wrote it"
        )


def hex_digest(*parts: bytes) -> str:
    """Return a digest of all parts as 32 hexadecimal digits."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


_MAX_BYTES = 1 << 36
_MAX_ROW_BYTES = 1 << 18  # a game takes a few hundred bytes
_ROWS_PER_FETCH = 64
_READ_TIMEOUT = 5.0
_WRITE_TIMEOUT = 15.0
"""Maximum time to wait for another process to release the file, in seconds."""

# Queries on games take at most one SQLite instruction per byte of the file.
_FREE_OPERATIONS = 2_000_000
_OPERATIONS_PER_BYTE = 10
_OPERATIONS_PER_STEP = 10_000
_FREE_BYTES = 1 << 20
_BYTES_PER_BYTE = 4

_SUPER_JOURNAL_MARK = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""Last bytes of a journal that belongs to several databases and names another file."""
_STATISTICS = (
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
)
"""Tables that ANALYZE creates for the SQLite planner; some programs run it automatically."""
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_TOOBIG")


class Database(sqlite3.Connection):
    """A connection that limits the work of its statements.

    A statement that exceeds the limit raises sqlite3.OperationalError.
    """

    _operations = _bytes = 0

    def increase_limits(self, operations: int, bytes_read: int = 0) -> None:
        """Increase the limits on SQLite instructions and on bytes read by `fetch_rows`."""
        self._operations += operations
        self._bytes += bytes_read

    def fetch_rows(self, query: str, arguments: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        rows: list[tuple[Any, ...]] = []
        cursor = self.execute(query, arguments)
        while fetched := cursor.fetchmany(_ROWS_PER_FETCH):
            rows += fetched
            self._bytes -= sum(
                len(cell) for row in fetched for cell in row if isinstance(cell, str | bytes)
            )
            if self._bytes < 0:
                raise _TooMuchWorkError
        return rows

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        # count(*) is a single instruction for any number of pages, which evades the limit.
        ((total,),) = self.fetch_rows(f"SELECT total(1) FROM {table}")
        return int(total)

    def _consume_step(self) -> bool:
        """Count one step of instructions; return True if the limit is exceeded."""
        self._operations -= _OPERATIONS_PER_STEP
        return self._operations < 0


class _TooMuchWorkError(sqlite3.DatabaseError):
    sqlite_errorname = "SQLITE_INTERRUPT"


@contextmanager
def open_database(path: Path, writable: bool) -> Iterator[Database]:
    """Open a database for reading or, if `writable`, also for writing, creating it if necessary.

    Incomplete changes of a killed process are rolled back. Raises UserError for every SQLite error,
    and if another process has locked the file.
    """
    if writable:
        check_not_symlink(path)
    has_journal = _check_files(path)
    # Rolling back incomplete changes requires write access.
    mode = "rwc" if writable else "rw" if has_journal else "ro"
    seconds = _WRITE_TIMEOUT if writable else _READ_TIMEOUT
    try:
        _check_journal_mode(path)
        with closing(_connect(path, mode, timeout=seconds)) as connection:
            _harden(connection, writable)
            size = path.stat().st_size
            connection.increase_limits(
                _FREE_OPERATIONS + _OPERATIONS_PER_BYTE * size, _FREE_BYTES + _BYTES_PER_BYTE * size
            )
            yield connection
    except UnicodeDecodeError as error:
        raise damaged_file_error(path, error) from error
    except sqlite3.Error as error:
        raise _user_error(path, error, seconds) from error


def check_database_objects(
    path: Path, objects: Iterable[tuple[str, str, str]], create_statements: Iterable[str]
) -> None:
    """Raise UserError for objects, such as views, that no statement in `create_statements` creates.

    The statistics tables of SQLite are accepted. `objects` are the types, names and statements in
    sqlite_master.
    """
    statements = {_single_spaced(text) for text in (*create_statements, *_STATISTICS)}
    for kind, name, text in objects:
        is_automatic = kind == "index" and text is None
        if not is_automatic and not (kind == "table" and _single_spaced(str(text)) in statements):
            raise UserError(
                f"{path} contains the {one_line(kind)} {quoted(name)}:"
                " expected only the tables that zerolab writes"
            )


def _single_spaced(statement: str) -> str:
    return " ".join(statement.split())


def _check_files(path: Path) -> bool:
    """Raise UserError for files that SQLite should not open; return True if there is a journal."""
    if path.exists():
        check_regular_file(path, _MAX_BYTES)
    target = os.path.realpath(path)  # SQLite follows links
    for suffix in ("-wal", "-shm"):
        other = Path(target + suffix)
        if os.path.lexists(other):
            raise UserError(
                f"{quoted(other)} was not written by zerolab: restore it and {path.name} from a"
                " backup, or remove it"
            )
    journal = Path(target + "-journal")
    if not os.path.lexists(journal):
        return False
    try:
        check_regular_file(journal, _MAX_BYTES)
        with open(journal, "rb") as file:
            file.seek(-min(journal.stat().st_size, len(_SUPER_JOURNAL_MARK)), os.SEEK_END)
            last_bytes = file.read()
    except (OSError, UserError):
        if not os.path.lexists(journal):  # the writer has finished
            return False
        raise
    if last_bytes == _SUPER_JOURNAL_MARK:
        raise UserError(f"{quoted(journal)} was not written by zerolab: it names another file")
    return True


def _check_journal_mode(path: Path) -> None:
    """Raise UserError for a database in WAL mode, in which even reading creates other files.

    Without locks, SQLite rejects such a file after reading its header, so concurrent changes are
    harmless.
    """
    if not path.exists():
        return
    with closing(_connect(path, "ro&nolock=1")) as connection:
        try:
            connection.execute("PRAGMA application_id")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname == "SQLITE_CANTOPEN":
                raise UserError(
                    f"{path} is in SQLite's WAL mode, which zerolab does not use: run PRAGMA"
                    " journal_mode = DELETE to make it readable"
                ) from None


def _connect(path: Path, mode: str, **options: Any) -> Database:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, isolation_level=None, factory=Database, **options)


def _harden(connection: Database, writable: bool) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
    connection.set_progress_handler(connection._consume_step, _OPERATIONS_PER_STEP)
    if hasattr(connection, "setconfig"):  # since Python 3.12
        for name, value in (("DEFENSIVE", True), ("ENABLE_TRIGGER", False), ("ENABLE_VIEW", False)):
            connection.setconfig(getattr(sqlite3, f"SQLITE_DBCONFIG_{name}"), value)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    if not writable:
        connection.execute("PRAGMA query_only = ON")


def _user_error(path: Path, error: sqlite3.Error, seconds: float) -> UserError:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_INTERRUPT":
        return damaged_file_error(path, "reading it takes more work than its size can explain")
    if name.startswith("SQLITE_BUSY"):
        return UserError(
            f"{path} is locked by another process: waited {seconds:g} s; try again later"
        )
    if name.startswith(_DAMAGED) or "decode to UTF-8" in str(error):
        return damaged_file_error(path, error)
    return UserError(f"cannot use {path}: {one_line(error)}")
