"""Sizes in the footer of a Parquet file, compared with those of pyarrow."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab.store.parquet import declared_sizes

ROWS = 1000
TABLE = pa.table({
    "number": range(ROWS),
    "flag": [row % 3 == 0 for row in range(ROWS)],
    "text": ["same" * 100] * ROWS,
    "list": [list(range(row % 40)) for row in range(ROWS)],
})  # fmt: skip


def written(path, **options):
    pq.write_table(TABLE, path, **options)
    return path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [{}, {"row_group_size": 7}, {"compression": "none", "use_dictionary": False}],
    ids=["default", "many groups", "plain"],
)
def test_sizes_equal_those_of_pyarrow(tmp_path, options):
    sizes = declared_sizes(written(tmp_path / "table.parquet", **options))
    metadata = pq.read_metadata(tmp_path / "table.parquet")
    columns = [
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups) for column in range(metadata.num_columns)
    ]  # fmt: skip
    assert sizes.value_count == sum(each.num_values for each in columns)
    assert sizes.value_count > 10 * ROWS
    assert sizes.uncompressed_bytes == sum(each.total_uncompressed_size for each in columns)


@given(st.binary(max_size=300))
def test_random_footers_give_sizes_or_a_value_error(footer):
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with suppress(ValueError):
        assert min(declared_sizes(content)) >= 0


def test_truncated_footers_are_refused(tmp_path):
    content = written(tmp_path / "table.parquet")
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    for end in range(0, length, 7):
        with pytest.raises(ValueError, match="footer"):
            declared_sizes(footer[:end] + end.to_bytes(4, "little") + b"PAR1")
