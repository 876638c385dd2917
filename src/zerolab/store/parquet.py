"""Parquet files with a header in their metadata, written atomically and checked before reading.

The sizes that a file declares in its footer are read and checked before its columns are read.
pyarrow could read these sizes, but aborts the process if the statistics of a column are damaged.
The footer is a struct in Thrift's compact protocol.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import atomic_replace, check_valid_path
from zerolab.store.checks import (
    check_schema_version,
    damaged_file_error,
    read_bytes,
    user_errors_on_read,
)

_METADATA = b"zerolab"
_MAGIC = b"PAR1"  # first and last bytes of every Parquet file
_MAX_BYTES = 1 << 30
_FREE_VALUES = 1_000_000
_VALUES_PER_BYTE = 50
"""Maximum number of values per byte of a file, beyond the first `_FREE_VALUES`. Constant columns
take up almost no space in a file but their full size in memory. Real files have at most three
values per byte."""


def write_table(path: Path, table: pa.Table, header: Mapping[str, Any]) -> None:
    """Write a table atomically, with a header that includes its ``kind`` and ``schema`` version."""
    metadata = {_METADATA: json.dumps(dict(header), sort_keys=True).encode()}
    with atomic_replace(path) as temporary:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            temporary,
            compression="zstd",
            write_page_checksum=True,
        )


def read_table(
    path: Path,
    columns: pa.Schema,
    kind: str,
    schema_version: int,
    *,
    written_by: str,
    rows_at_once: int = 1 << 16,
    max_bytes: int = _MAX_BYTES,
) -> tuple[dict[str, Any], pa.Table]:
    """Return the header and the columns of a file, checking the header before reading the columns.

    `written_by` names the command that writes such files. Files with long strings should be read
    with a small `rows_at_once`, which bounds the memory used by strings that are stored once and
    repeated many times. `max_bytes` limits the size of the file and the memory of its columns.
    Raises UserError if the file is missing, damaged, too large, or of a different kind or version.
    """
    check_valid_path(path)
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise UserError(f"{quoted(path)} {problem}: expected a {kind} file written by {written_by}")
    content = pa.py_buffer(read_bytes(path, max_bytes))
    if _MAGIC not in (bytes(content[: len(_MAGIC)]), bytes(content[-len(_MAGIC) :])):
        raise UserError(
            f"{quoted(path)} is not a Parquet file: expected a {kind} file written by {written_by}"
        )
    with user_errors_on_read(path):
        try:
            with pq.ParquetFile(content, page_checksum_verification=True) as file:
                header = _checked_header(path, file, kind, schema_version, written_by)
                if not file.schema_arrow.equals(columns):
                    raise damaged_file_error(path, f"its columns are not those of a {kind} file")
                sizes = declared_sizes(memoryview(content))
                if sizes.value_count > _FREE_VALUES + _VALUES_PER_BYTE * content.size:
                    raise damaged_file_error(path, f"it contains {sizes.value_count:,} values")
                if sizes.uncompressed_bytes > max_bytes:
                    raise damaged_file_error(path, _too_large(max_bytes))
                table = _read_columns(path, file, rows_at_once, max_bytes)
        except (pa.ArrowException, OSError) as error:  # not a disk error: the content is in memory
            raise damaged_file_error(path, error) from error
    if any(table[name].null_count for name in table.column_names):
        raise damaged_file_error(path, "a value is missing")
    return header, table


def _checked_header(
    path: Path, file: Any, kind: str, schema_version: int, written_by: str
) -> dict[str, Any]:
    metadata = file.schema_arrow.metadata or {}
    if _METADATA not in metadata:
        raise UserError(f"{quoted(path)} was not written by {written_by}")
    header = dict(json.loads(metadata[_METADATA]))
    if isinstance(header.get("kind"), str) and header["kind"] != kind:
        raise UserError(
            f"{quoted(path)} contains {quoted(header['kind'])}: expected {quoted(kind)} written by"
            f" {written_by}"
        )
    if header.get("kind") != kind:
        raise damaged_file_error(path, f"its metadata is not that of a {kind} file")
    check_schema_version(path, header.get("schema"), schema_version)
    return header


def _read_columns(path: Path, file: Any, rows_at_once: int, max_bytes: int) -> pa.Table:
    batches, size = [], 0
    # With several threads, the process aborts if one finds damage while others are reading.
    for batch in file.iter_batches(rows_at_once, use_threads=False):
        size += batch.nbytes
        if size > max_bytes:
            raise damaged_file_error(path, _too_large(max_bytes))
        batches.append(batch)
    return pa.Table.from_batches(batches, file.schema_arrow)


def _too_large(max_bytes: int) -> str:
    return f"it takes more than {max_bytes >> 20} MiB of memory"


_TAIL = 8  # length of the footer, int32, and a magic number
_MAX_DEPTH = 16  # in real footers, structs are nested about 6 levels deep

# Field IDs in parquet.thrift
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_COLUMN_METADATA = 3  # of ColumnChunk
_VALUE_COUNT, _UNCOMPRESSED_BYTES = 5, 6  # of ColumnMetaData

_TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE, _BINARY = range(1, 9)
_LIST, _SET, _MAP, _STRUCT = range(9, 13)


class DeclaredSizes(NamedTuple):
    """Total sizes of all columns, as declared by the file."""

    value_count: int
    """Number of values, including those in lists."""
    uncompressed_bytes: int
    """Size before compression, with repeated strings stored once."""


def declared_sizes(content: bytes | memoryview) -> DeclaredSizes:
    """Return the sizes declared by a Parquet file; raise ValueError if its footer is damaged."""
    length = int.from_bytes(content[-_TAIL : -_TAIL + 4], "little")
    footer = _CompactReader(bytes(content[-_TAIL - length : -_TAIL]))
    try:
        columns = list(_column_metadata(footer.read_struct()))
        counts = [int(column[_VALUE_COUNT]) for column in columns]
        sizes = [int(column[_UNCOMPRESSED_BYTES]) for column in columns]
    except (KeyError, TypeError, IndexError, AttributeError, struct.error) as error:
        raise ValueError("its footer is damaged") from error
    if min([*counts, *sizes], default=0) < 0:
        raise ValueError("its footer has a negative size")
    return DeclaredSizes(sum(counts), sum(sizes))


def _column_metadata(file: dict[int, Any]) -> Iterator[dict[int, Any]]:
    for row_group in file[_ROW_GROUPS]:
        for column in row_group[_COLUMNS]:
            yield column[_COLUMN_METADATA]


class _CompactReader:
    """Reader of values in Thrift's compact protocol; structs become dictionaries by field number.

    Raises IndexError, struct.error or ValueError for damaged data.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._depth = 0
        self._readers: dict[int, Callable[[], Any]] = {
            **dict.fromkeys((_TRUE, _FALSE, _BYTE), self._byte),  # in a list, booleans take a byte
            **dict.fromkeys((_INT16, _INT32, _INT64), self._signed),
            _DOUBLE: lambda: struct.unpack("<d", self._take(8))[0],
            _BINARY: lambda: self._take(self._unsigned()),
            **dict.fromkeys((_LIST, _SET), self._list),
            _MAP: self._map,
            _STRUCT: self.read_struct,
        }

    def read_struct(self) -> dict[int, Any]:
        """Read the fields of a struct."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("its footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else self._signed()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind not in self._readers:
            raise ValueError("its footer has a field of an unknown type")
        return self._readers[kind]()

    def _list(self) -> list[Any]:
        header = self._byte()
        size = self._unsigned() if header >> 4 == 15 else header >> 4
        return [self._value(header & 15) for _ in range(size)]

    def _map(self) -> list[tuple[Any, Any]]:
        size = self._unsigned()
        kinds = self._byte() if size else 0
        return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise IndexError("the footer ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("its footer has a number that is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
