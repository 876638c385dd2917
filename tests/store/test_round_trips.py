"""Round trips of stored data, and equal bytes for equal contents."""

from __future__ import annotations

import json
import math
import string
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from store.toy import CONFIG, examples, games
from zerolab.core.errors import UserError
from zerolab.store.arrays import load_arrays, save_arrays
from zerolab.store.examples import Examples, load_examples, load_target_features, save_examples
from zerolab.store.folder import encode_metrics, extend_metrics_digest, read_metrics
from zerolab.store.games import GameRecord, GameStore, network_name
from zerolab.store.run_folder import RunFolder

_DTYPES = st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8", "?"])
_NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__")
_SHAPES = hnp.array_shapes(min_dims=0, min_side=0, max_side=4)
_WORDS = st.text(string.printable, max_size=6)
_NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.booleans()
_FIELDS = st.text(max_size=6).filter(lambda name: name != "schema")
_LINES = st.lists(st.dictionaries(_FIELDS, _NUMBERS | _WORDS, max_size=4), max_size=4)


@given(arrays=st.dictionaries(_NAMES, hnp.arrays(_DTYPES, _SHAPES), max_size=4))
@settings(max_examples=60)
def test_arrays_round_trip(arrays):
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder) / "one", Path(folder) / "other"
        save_arrays(one, "weights", arrays, game="othello:4x4", iteration=3)
        backwards = dict(reversed(arrays.items()))
        save_arrays(other, "weights", backwards, iteration=3, game="othello:4x4")
        assert one.read_bytes() == other.read_bytes()
        loaded, about = load_arrays(one, "weights")
    assert about == {"schema": 1, "kind": "weights", "game": "othello:4x4", "iteration": 3}
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()


def test_array_views_round_trip(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    views = {"turned": array.T, "every second": array[:, ::2]}
    save_arrays(tmp_path / "a", "weights", views)
    loaded, _ = load_arrays(tmp_path / "a", "weights")
    assert all(np.array_equal(loaded[name], views[name]) for name in views)


def arrays_of(dtype, shape):
    """Return a strategy for arrays with arbitrary bits, including NaN and infinity."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    buffers = st.binary(min_size=size, max_size=size).map(
        lambda bits: np.frombuffer(bits, np.uint8)
    )
    return buffers.map(
        lambda bits: (bits & 1 if dtype == "bool" else bits).view(dtype).reshape(shape)
    )


@given(count=st.integers(0, 6), words=st.integers(1, 4), actions=st.integers(1, 5), data=st.data())
@settings(max_examples=40)
def test_examples_and_features_round_trip(count, words, actions, data):
    widths = {"word": (words,), "action": (actions,), "position": ()}
    columns = {
        name: data.draw(arrays_of(np.dtype(form.dtype), (count, *widths[form.entry_per])))
        for name, form in Examples.column_forms().items()
    }
    written = Examples(**columns)
    features = data.draw(st.none() | arrays_of("f2", (count, 3)))
    with tempfile.TemporaryDirectory() as folder:
        save_examples(Path(folder) / "one", written, features, iteration=3)
        save_examples(Path(folder) / "other", written, features, iteration=3)
        assert (Path(folder) / "one").read_bytes() == (Path(folder) / "other").read_bytes()
        loaded, about = load_examples(Path(folder) / "one")
        if features is None:
            with pytest.raises(UserError, match="is damaged"):
                load_target_features(Path(folder) / "one")
        else:
            restored, _ = load_target_features(Path(folder) / "one")
            assert (restored.tobytes(), restored.shape) == (features.tobytes(), features.shape)
    assert about == {"schema": 2, "iteration": 3}
    for name, column in loaded.columns().items():
        original = getattr(written, name)
        assert (column.dtype, column.shape) == (original.dtype, original.shape)
        is_left_out = original.dtype.kind == "f" and np.isnan(original).all()
        assert np.isnan(column).all() if is_left_out else column.tobytes() == original.tobytes()


def test_column_without_values_is_left_out(tmp_path):
    written, path = examples(1), tmp_path / "a.npz"
    save_examples(path, written)
    with np.load(path) as file:
        assert "surprises" not in file
    assert np.isnan(load_examples(path)[0].surprises).all()
    written.surprises[3] = 0.5
    save_examples(path, written)
    np.testing.assert_array_equal(load_examples(path)[0].surprises, written.surprises)


def test_examples_can_be_read_with_numpy(tmp_path):
    save_examples(tmp_path / "a.npz", examples(1), game="othello:4x4")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert np.array_equal(archive["states"], examples(1).states)
        assert json.loads(archive["zerolab.json"])["game"] == "othello:4x4"


def test_examples_are_compressed_at_level_1(tmp_path):
    repeated = examples(1).take(np.zeros(500, np.int64))
    save_examples(tmp_path / "a.npz", repeated)
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        for entry in archive.infolist():
            content, compressor = archive.read(entry), zlib.compressobj(1, zlib.DEFLATED, -15)
            compressed = compressor.compress(content) + compressor.flush()
            assert entry.compress_size == len(compressed), entry.filename


_GAMES = st.lists(
    st.builds(
        GameRecord,
        number=st.integers(0, 10**6),
        first=_WORDS,
        second=_WORDS,
        actions=st.lists(st.integers(0, 64), max_size=8).map(tuple),
        result=st.sampled_from([-1, 0, 1]),
        agent_spans=st.lists(st.tuples(st.integers(0, 99), _WORDS), max_size=3).map(tuple),
        given_plies=st.integers(0, 8),
    ),
    unique_by=lambda game: game.number,
    max_size=6,
)


@given(
    first=_GAMES, again=_GAMES, other=_GAMES, name=st.sampled_from(["selfplay", "against Random"])
)
@settings(max_examples=30)
def test_games_round_trip_and_rewind(first, again, other, name):
    with tempfile.TemporaryDirectory() as folder:
        store = GameStore(Path(folder) / "games.sqlite")
        store.write_stage(1, name, first)
        store.write_stage(2, "gate", other)
        store.write_stage(1, name, again)
        assert store.stage_games(1, name) == sorted(again)
        assert store.stage_games(2, "gate") == sorted(other)
        assert store.stage_games(2, name) == []
        assert store.stages() == [(1, name), (2, "gate")]
        assert store.game_count() == len(again) + len(other)
        store.rewind(1)
        assert store.stages() == [(1, name)]
        assert store.game_count() == len(again)
        assert [path.name for path in Path(folder).iterdir()] == ["games.sqlite"]


def test_games_with_numpy_integers_round_trip(tmp_path):
    store = GameStore(tmp_path / "games.sqlite")
    numbers = np.arange(3)
    store.write_stage(1, "gate", [GameRecord(numbers[0], "a", "b", tuple(numbers), numbers[1])])
    assert store.stage_games(1, "gate") == [GameRecord(0, "a", "b", (0, 1, 2), 1)]


def test_movers_are_stored_relative_to_run(tmp_path):
    """Movers assign every move to a network; without them, the players alternate."""
    run = tmp_path / "run"
    run.mkdir()
    names = [network_name(run, number) for number in (3, 4)]
    game = GameRecord(7, names[1], names[1], (1, 2, 3, 4), 0, ((0, names[0]), (3, names[1])))
    GameStore(run / "games.sqlite", run).write_stage(1, "selfplay", [game])
    assert GameStore(run / "games.sqlite", run).stage_games(1, "selfplay") == [game]
    (inside,) = GameStore(run / "games.sqlite").stage_games(1, "selfplay")
    assert inside.agent_spans == ((0, "@3"), (3, "@4"))
    assert [inside.mover_at(ply) for ply in range(4)] == ["@3", "@3", "@3", "@4"]
    assert inside.last_mover == "@4"
    plain = GameRecord(0, "a", "b", (1, 2, 3), 0)
    assert [plain.mover_at(ply) for ply in range(3)] == ["a", "b", "a"]


def test_empty_store_leaves_no_file(tmp_path):
    store = GameStore(tmp_path / "games.sqlite")
    assert (store.stage_games(1, "gate"), store.stages(), store.game_count()) == ([], [], 0)
    store.rewind(0)
    assert not store.path.exists()


@given(lines=_LINES)
def test_metrics_round_trip(lines):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(encode_metrics(lines))
        read = read_metrics(path)
    assert read == lines
    assert extend_metrics_digest("", read) == extend_metrics_digest("", lines)


@given(lines=_LINES, more=_LINES, seconds=st.floats(0, 1e6))
def test_digest_of_metrics_is_incremental_and_ignores_wall_time(lines, more, seconds):
    whole = extend_metrics_digest("", lines + more)
    assert extend_metrics_digest(extend_metrics_digest("", lines), more) == whole
    timed = [{**line, "wall_seconds": seconds} for line in lines + more]
    other = [{**line, "wall_seconds": seconds + 1} for line in lines + more]
    assert extend_metrics_digest("", timed) == extend_metrics_digest("", other)
    assert extend_metrics_digest("", [*lines, *more, {"loss": 1}]) != whole


_KEYS = st.text(min_size=1, max_size=6)
_TABLES = st.recursive(
    st.dictionaries(_KEYS, _NUMBERS | st.text(max_size=6), max_size=3),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=5,
)


@given(config=_TABLES)
@settings(max_examples=40)
def test_settings_round_trip(config):
    with tempfile.TemporaryDirectory() as folder:
        RunFolder.create(Path(folder) / "one", config)
        RunFolder.create(Path(folder) / "other", config)
        assert RunFolder.open(Path(folder) / "one").config == config
        saved = [(Path(folder) / name / "config.toml").read_bytes() for name in ("one", "other")]
    assert saved[0] == saved[1]


def test_checkpoint_has_game_iteration_and_network(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.save_network(7, {"a": np.zeros(1)}, {})
    _, about = load_arrays(run.weights_path(7), "weights")
    assert about == {
        "schema": 1,
        "kind": "weights",
        "game": "othello:4x4",
        "iteration": 7,
        "network": {"name": "conv"},
    }
    assert run.network_iterations() == [7]


def test_games_are_sorted_by_number(tmp_path):
    store = GameStore(tmp_path / "games.sqlite")
    store.write_stage(1, "gate", reversed(games(1)))
    assert store.stage_games(1, "gate") == games(1)
