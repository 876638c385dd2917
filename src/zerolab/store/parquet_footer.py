"""Sizes declared in the footer of a Parquet file, read before its columns.

pyarrow has the same numbers, but its access to the metadata of a column aborts the process if the
statistics of the column are damaged. The footer is a struct in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_TAIL = 8  # length of the footer, int32, and a magic number
_MAX_DEPTH = 16  # real footers have structs in structs up to about 6 levels

# Numbers of fields in parquet.thrift
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_METADATA = 3  # of ColumnChunk
_VALUE_COUNT, _UNCOMPRESSED_BYTES = 5, 6  # of ColumnMetaData

_TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE, _BINARY = range(1, 9)
_LIST, _SET, _MAP, _STRUCT = range(9, 13)


class DeclaredSizes(NamedTuple):
    """Sizes of all columns together, as declared by the file."""

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
            yield column[_METADATA]


class _CompactReader:
    """Reader of values in Thrift's compact protocol; structs become dictionaries by field number.

    Raises IndexError, struct.error or ValueError on damage.
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
