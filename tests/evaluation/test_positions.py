"""Position files: round trips and validation of untrusted content."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.exhaustive import exhaustive
from zerolab.core.errors import UserError
from zerolab.evaluation.collecting import DatasetSettings, collect_positions
from zerolab.evaluation.positions import (
    MAX_BYTES,
    join_positions,
    max_position_count,
    read_positions,
    write_positions,
)
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules.catalogue import parse_game
from zerolab.store import parquet

GAME = parse_game("gobang:3x3:3")
POSITIONS = collect_positions(GAME, exhaustive(GAME), DatasetSettings(), range(8)).positions


def are_equal(first, second):
    names = ("game_numbers", "moves", "offsets", "states", "action_values")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


def test_highly_compressed_columns_are_refused(tmp_path, monkeypatch):
    """Equal values need almost no space in the file, but much in memory."""
    monkeypatch.setattr(parquet, "_FREE_VALUES", 1000)
    first = POSITIONS.take(np.zeros(40_000, np.int64))
    write_positions(tmp_path / "bomb.parquet", first, {})
    with pytest.raises(UserError, match=r"bomb\.parquet is damaged \(it contains 520,000 values"):
        read_positions(tmp_path / "bomb.parquet")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "positions.parquet"
    write_positions(file, POSITIONS, {"seed": 1})
    return file


def test_written_positions_are_read_back(path):
    positions, metadata = read_positions(path, GAME)
    assert are_equal(positions, POSITIONS)
    assert metadata == {"seed": 1}
    table = pq.read_table(path)
    assert (
        table["values"][0].as_py().count(None)
        == (POSITIONS.action_values[0] == ILLEGAL_VALUE).sum()
    )
    assert table["ply"].to_pylist() == POSITIONS.plies.tolist()


def test_every_permitted_number_of_positions_can_be_read(path, monkeypatch):
    """The limit of memory allows for moves of the longest games."""
    bytes_per_position = MAX_BYTES / max_position_count(GAME)
    longest = POSITIONS.take(np.repeat(POSITIONS.plies.argmax(), 500))
    write_positions(path, longest, {})
    monkeypatch.setattr("zerolab.evaluation.positions.MAX_BYTES", int(500 * bytes_per_position))
    assert len(read_positions(path)[0]) == 500
    monkeypatch.setattr("zerolab.evaluation.positions.MAX_BYTES", int(250 * bytes_per_position))
    with pytest.raises(UserError, match="of memory"):
        read_positions(path)


def test_empty_files_are_read_back(tmp_path):
    empty_positions = POSITIONS.take(np.empty(0, np.int64))
    write_positions(tmp_path / "none.parquet", empty_positions, {})
    assert are_equal(read_positions(tmp_path / "none.parquet")[0], empty_positions)


def test_join_is_the_inverse_of_take():
    rows = np.arange(len(POSITIONS))
    assert are_equal(
        join_positions([POSITIONS.take(rows[:5]), POSITIONS.take(rows[5:])]), POSITIONS
    )


def test_negative_rows_count_from_the_end():
    count = len(POSITIONS)
    assert POSITIONS.move_sequence(-1) == POSITIONS.move_sequence(count - 1) != ()
    taken, last = POSITIONS.take(np.array([-1, 0])), POSITIONS.take(np.array([count - 1, 0]))
    assert are_equal(taken, last)
    assert taken.move_sequence(0) == POSITIONS.move_sequence(count - 1)


def test_masks_select_positions():
    mask = POSITIONS.plies % 2 == 0
    assert are_equal(POSITIONS.take(mask), POSITIONS.take(np.flatnonzero(mask)))


@pytest.mark.parametrize("row", [len(POSITIONS), -len(POSITIONS) - 1, 0.5, "x", None])
def test_missing_rows_are_refused(row):
    with pytest.raises(UserError, match=r"row = .*: expected a whole number of at least -"):
        POSITIONS.move_sequence(row)
    for rows in (np.array([row]), row, np.ones(len(POSITIONS) + 1, np.bool_), [[0]]):
        with pytest.raises(
            UserError, match=r"rows = .*: expected a mask of length 40, or whole numbers"
        ):
            POSITIONS.take(rows)


def test_positions_of_another_game_are_refused(path):
    with pytest.raises(UserError, match="has positions for gobang:3x3:3, not for othello:6x6"):
        read_positions(path, parse_game("othello:6x6"))


def error_message(path):
    with pytest.raises(UserError) as caught:
        read_positions(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert str(path) in message
    return message


def test_foreign_files_are_refused(tmp_path):
    other = tmp_path / "other.parquet"
    assert "does not exist" in error_message(other)
    assert "is not a file" in error_message(tmp_path)
    other.write_text("nonsense")
    assert "is not a Parquet file" in error_message(other)
    pq.write_table(pa.table({"a": [1]}), other)
    assert "was not written by zerolab dataset" in error_message(other)


def rewritten(path, changes=None, **columns):
    """Rewrite the file with changed metadata or columns."""
    table = pq.read_table(path)
    stored = json.loads(table.schema.metadata[b"zerolab"])
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        table = table.set_column(index, field, pa.array(values, field.type))
    metadata = {b"zerolab": json.dumps({**stored, **(changes or {})})}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schema": 2}, "schema version 2, newer"),
        ({"schema": "x"}, "has no schema version"),
        ({"kind": "games"}, "metadata"),
        ({"game": 5}, "metadata"),
        ({"about": None}, "metadata"),
        ({"digest": "0" * 32}, "digest"),
    ],
)
def test_invalid_metadata_is_refused(path, changes, expected):
    assert expected in error_message(rewritten(path, changes))


def test_unknown_game_is_refused(path):
    rewritten(path, {"game": "goban:3x3"})
    with pytest.raises(UserError, match='did you mean "gobang"'):
        read_positions(path)


def changed_columns(change):
    """Return the columns `moves` and `values` after applying `change` to them."""
    moves = [POSITIONS.move_sequence(row) for row in range(len(POSITIONS))]
    values = [
        [None if v == ILLEGAL_VALUE else v for v in row] for row in POSITIONS.action_values.tolist()
    ]
    change(moves, values)
    return {"moves": moves, "values": values}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda moves, values: moves.__setitem__(0, [0, 0]), "moves of position 0 are not legal"),
        (lambda moves, values: moves.__setitem__(1, [9]), "moves of position 1 are not legal"),
        (lambda moves, values: moves.__setitem__(2, [-1]), "moves of position 2 are not legal"),
        (lambda moves, values: moves.__setitem__(0, [None]), "moves of position 0 are not legal"),
        (lambda moves, values: moves.__setitem__(0, [0, 3, 1, 4, 2]), "position 0 are not legal"),
        (lambda moves, values: moves.__setitem__(0, [0, 3, 1, 4, 2, 5]), "0 are not legal"),
        (lambda moves, values: values[0].pop(), "too few or too many values"),
        (lambda moves, values: values.__setitem__(0, [None] * 9), "legal moves"),
        (lambda moves, values: values.__setitem__(0, [0] * 9), "legal moves"),
        (lambda moves, values: values.__setitem__(0, lowered(values[0])), "not that of the best"),
    ],
)
def test_impossible_content_is_refused(path, change, expected):
    assert expected in error_message(rewritten(path, **changed_columns(change)))


def lowered(values):
    return [None if value is None else value - 1 for value in values]


def test_inconsistent_plies_are_refused(path):
    assert "plies" in error_message(rewritten(path, ply=[0] * len(POSITIONS)))


def test_damaged_statistics_do_not_abort_the_process(path):
    """Access to the metadata of a column through pyarrow aborts on some of these files."""
    content = path.read_bytes()
    for index in range(len(content) // 3, len(content)):
        damaged = bytearray(content)
        damaged[index] ^= 1 << 4
        path.write_bytes(damaged)
        with suppress(UserError):
            read_positions(path)


@settings(max_examples=150)
@given(fraction=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_damaged_bytes_are_detected_or_harmless(tmp_path_factory, fraction, bit, cut):
    path = tmp_path_factory.mktemp("damage") / "positions.parquet"
    write_positions(path, POSITIONS, {"seed": 1})
    content = bytearray(path.read_bytes())
    index = int(fraction * len(content))
    content[index] ^= 1 << bit
    path.write_bytes(content[:index] if cut else content)
    try:
        positions, metadata = read_positions(path)
    except UserError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert are_equal(positions, POSITIONS)
        assert metadata == {"seed": 1}
