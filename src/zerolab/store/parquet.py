"""Parquet files of zerolab: a header in the metadata, checks before reading, atomic writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import atomic_replace, check_path
from zerolab.store.checks import (
    check_schema_version,
    damaged_file_error,
    read_bytes,
    user_errors_on_read,
)
from zerolab.store.parquet_footer import declared_sizes

_METADATA = b"zerolab"
_MAGIC = b"PAR1"  # first and last bytes of every Parquet file
_MAX_BYTES = 1 << 30
_FREE_VALUES = 1_000_000
_VALUES_PER_BYTE = 50
"""Maximum number of values per byte of a file, beyond the first `_FREE_VALUES`. Constant columns
take almost no space in a file, but they do in memory. Real files have at most three values per
byte."""


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
    with small `rows_at_once`, which bounds the memory for strings that are stored once and repeated
    many times. `max_bytes` limits the file and its columns in memory. Raises UserError if the file
    is missing, damaged, too large, of another kind, or newer.
    """
    check_path(path)
    if not path.is_file():
        raise UserError(f"{quoted(path)} is not a file: expected {kind} written by {written_by}")
    content = pa.py_buffer(read_bytes(path, max_bytes))
    if _MAGIC not in (bytes(content[: len(_MAGIC)]), bytes(content[-len(_MAGIC) :])):
        raise UserError(
            f"{quoted(path)} is not a Parquet file: expected {kind} written by {written_by}"
        )
    with user_errors_on_read(path):
        try:
            with pq.ParquetFile(content, page_checksum_verification=True) as file:
                header = _checked_header(path, file, kind, schema_version, written_by)
                if not file.schema_arrow.equals(columns):
                    raise damaged_file_error(path, f"its columns are not those of {kind}")
                sizes = declared_sizes(memoryview(content))
                if sizes.value_count > _FREE_VALUES + _VALUES_PER_BYTE * content.size:
                    raise damaged_file_error(path, f"it has {sizes.value_count:,} values")
                if sizes.uncompressed_bytes > max_bytes:
                    raise damaged_file_error(path, _too_large(max_bytes))
                table = _read_columns(path, file, rows_at_once, max_bytes)
        except (pa.ArrowException, OSError) as error:  # not from the disk: content is in memory
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
    if header.get("kind") != kind:
        raise damaged_file_error(path, f"its metadata is not that of {kind}")
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
