"""Damaged, truncated, newer and foreign files, which are reported and not overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import save_file

from store.toy import CONFIG, everything, examples, games, train, weights
from zerolab.core.errors import UserError
from zerolab.store import arrays
from zerolab.store import examples as examples_module
from zerolab.store import folder as folder_module
from zerolab.store import games as games_module
from zerolab.store.checks import user_errors_on_read
from zerolab.store.listing import summarise_run
from zerolab.store.run_folder import RunFolder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, to be copied before changes."""
    return train(tmp_path_factory.mktemp("runs") / "finished").path


@pytest.fixture
def folder(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def _settled(run: RunFolder) -> Any:
    lines = [{k: v for k, v in line.items() if not k.startswith("wall_")} for line in run.metrics()]
    return lines, run.config, run.progress


def _read_run(folder: Path) -> Any:
    return _settled(RunFolder.open(folder))


def _read_games(folder: Path) -> Any:
    store = RunFolder.open(folder).games
    store.rewind(4)
    stages = store.stages()
    return stages, [store.stage_games(*stage) for stage in stages]


class Kind(NamedTuple):
    """A kind of file, its reader and the density of tested damage."""

    name: str
    read: Callable[[Path], Any]
    stride: int = 1
    """Number of bytes per randomly damaged byte."""
    guarded: bool = False
    """True if every single byte matters."""


KINDS = [
    Kind("config.toml", _read_run, guarded=True),
    Kind("state.json", _read_run),  # layout
    Kind("metrics.jsonl", _read_run),  # wall-clock fields
    Kind("checkpoints/0001.safetensors", lambda f: RunFolder.open(f).load_weights(1), guarded=True),
    Kind(
        "checkpoints/0001.optimizer.safetensors",
        lambda f: RunFolder.open(f).load_optimizer_state(1),
        guarded=True,
    ),
    Kind("examples/0002.npz", lambda f: RunFolder.open(f).load_examples(2), 19),  # dates
    Kind("examples/0001.npz", lambda f: {"": RunFolder.open(f).load_target_features(1)}, 19),
    Kind("games.sqlite", _read_games, 89),  # unused space
]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and all(isinstance(value, np.ndarray) for value in one.values()):
        return one.keys() == other.keys() and all(map(np.array_equal, one.values(), other.values()))
    if isinstance(one, examples_module.Examples):
        pairs = zip(one.columns().values(), other.columns().values(), strict=True)
        return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
    return bool(one == other)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_changed_byte_is_reported_or_irrelevant(folder, kind):
    path = folder / kind.name
    expected, intact = kind.read(folder), path.read_bytes()
    random, size = np.random.default_rng(0), len(intact)
    begins = np.arange(0, size, kind.stride)
    offsets = random.integers(begins, np.minimum(begins + kind.stride, size)).tolist()
    masks = random.integers(1, 256, size, np.uint8)
    refused = 0
    for offset in offsets:
        changed = bytearray(intact)
        changed[offset] ^= int(masks[offset])
        path.write_bytes(changed)
        try:
            assert _equal(kind.read(folder), expected), f"byte {offset} was changed unnoticed"
        except UserError as error:
            refused += 1
            assert str(folder) in str(error)
            assert len(str(error).splitlines()) == 1
            assert path.read_bytes() == changed
    assert refused == len(offsets) if kind.guarded else refused > 0


def test_changed_iteration_of_stage_is_reported(folder):
    """No digest covers the stage's iteration, but the file's index also contains it."""
    path = folder / "games.sqlite"
    changed, count = re.subn(rb"\x02(gate[0-9a-f]{32})", rb"Z\1", path.read_bytes())
    assert count == 1
    path.write_bytes(changed)
    with pytest.raises(UserError, match=r"games\.sqlite is damaged"):
        _read_games(folder)


def test_invalid_seek_is_reported_as_damage(tmp_path):
    expected = r"file\.npz is damaged \(.*Invalid argument"
    with pytest.raises(UserError, match=expected), user_errors_on_read(tmp_path / "file.npz"):
        raise OSError(22, "Invalid argument")


@pytest.mark.parametrize("share", [0, 0.3, 0.99])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_truncated_file_is_reported_and_kept(folder, kind, share):
    path = folder / kind.name
    path.write_bytes(path.read_bytes()[: int(len(path.read_bytes()) * share)])
    before = everything(folder)
    with pytest.raises(UserError, match=str(path)) as caught:
        kind.read(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert everything(folder) == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_file_with_noise_is_reported_and_kept(folder, kind):
    (folder / kind.name).write_bytes(np.random.default_rng(0).bytes(5000))
    before = everything(folder)
    with pytest.raises(UserError, match=kind.name):
        kind.read(folder)
    assert everything(folder) == before


@pytest.mark.parametrize("name", ["state.json", "metrics.jsonl", "games.sqlite", "config.toml"])
def test_run_with_missing_file_is_not_resumed(folder, name):
    (folder / name).unlink()
    before = everything(folder)
    with pytest.raises(UserError, match=f"{name}"):
        train(folder, iterations=3)
    assert everything(folder) == before


@pytest.mark.parametrize("name", ["metrics.jsonl", "games.sqlite"])
@pytest.mark.parametrize("share", [0, 0.5])
def test_run_with_truncated_records_is_not_resumed(folder, name, share):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * share)])
    before = everything(folder)
    with pytest.raises(UserError, match=f"{name} is damaged"):
        train(folder, iterations=3)
    assert everything(folder) == before


def test_damaged_line_of_metrics_is_named(folder):
    content = (folder / "metrics.jsonl").read_bytes()
    second = content.index(b"\n") + 1
    for changed in (b"}", b"["):
        (folder / "metrics.jsonl").write_bytes(content[:second] + changed + content[second + 1 :])
        with pytest.raises(UserError, match=r"metrics.jsonl is damaged at line 2"):
            RunFolder.open(folder).metrics()


def test_truncated_metrics_report_sizes(folder):
    length = (folder / "metrics.jsonl").stat().st_size
    (folder / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes()[:70])
    with pytest.raises(UserError, match=f"70 bytes, expected {length}"):
        RunFolder.open(folder).metrics()


def test_edited_metrics_are_reported(folder):
    metrics = folder / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"loss_policy": 0.5', '"loss_policy": 0.4'))
    with pytest.raises(UserError, match="its digest does not match"):
        RunFolder.open(folder).metrics()


def test_newer_files_are_reported(folder, monkeypatch):
    run = RunFolder.open(folder)
    for module in (arrays, examples_module, folder_module):
        monkeypatch.setattr(module, "SCHEMA", 99)
    run.save_network(2, weights(2), weights(3))
    run.save_examples(2, examples(2))
    monkeypatch.undo()
    loads = {run.load_weights: 1, run.load_optimizer_state: 1, run.load_examples: 2}
    for load, known in loads.items():
        with pytest.raises(UserError, match=rf"version 99, newer than .* {known}:"):
            load(2)


def test_examples_of_older_version_are_refused(folder, monkeypatch):
    run = RunFolder.open(folder)
    with monkeypatch.context() as patch:
        patch.setattr(examples_module, "SCHEMA", 1)
        run.save_examples(2, examples(2))
    with pytest.raises(UserError, match=r"schema version 1, older than .* 2:") as caught:
        run.load_examples(2)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("version", "expected"), [(99, "99, newer"), (1, "1, older")])
@pytest.mark.parametrize("write", ["state", "config", "metrics"])
def test_run_of_other_version_is_refused(folder, monkeypatch, write, version, expected):
    run = RunFolder.open(folder)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "SCHEMA", version)
        if write == "state":
            folder_module.write_run_state(
                folder / "state.json", folder_module.RunState(progress=run.progress)
            )
        elif write == "config":
            run.save_settings(CONFIG)
    if write == "metrics":
        content = (folder / "metrics.jsonl").read_text()
        version -= version == 1  # metrics have version 1
        (folder / "metrics.jsonl").write_text(
            content.replace('"schema": 1', f'"schema": {version}')
        )
        expected = f"{version}, "
    with pytest.raises(UserError, match=f"schema version {expected}"):
        RunFolder.open(folder).metrics()


@pytest.mark.parametrize("kind", KINDS[:6], ids=lambda kind: kind.name)
def test_named_pipes_are_refused_immediately(folder, kind):
    """Opening a named pipe would block until a writer opens it."""
    (folder / kind.name).unlink()
    os.mkfifo(folder / kind.name)
    with pytest.raises(UserError, match=f"{kind.name}: it is a named pipe; expected a file"):
        kind.read(folder)


@pytest.mark.parametrize("name", ["config.toml", "state.json"])
def test_huge_files_are_not_read(folder, name):
    with open(folder / name, "wb") as file:
        file.truncate(8 << 30)  # a sparse file
    with pytest.raises(UserError, match=f"{name}: it is 8,589,934,592 bytes; expected at most"):
        RunFolder.open(folder)


def test_newer_and_foreign_games_are_reported(folder):
    store = RunFolder.open(folder).games
    operations = [
        lambda: store.stage_games(1, "gate"),
        store.game_count,
        store.stages,
        lambda: store.rewind(0),
        lambda: store.write_stage(9, "gate", games(9)),
    ]
    for pragma, expected in (
        ("user_version = 99", "schema version 99, newer"),
        ("user_version = 2", "schema version 2, older"),
        ("application_id = 7", "was not written by zerolab"),
    ):
        with closing(sqlite3.connect(store.path)) as connection:
            connection.execute(f"PRAGMA {pragma}")
        before = everything(folder)
        for operation in operations:
            with pytest.raises(UserError, match=expected):
                operation()
        assert everything(folder) == before
    assert games_module.SCHEMA == 3


def test_foreign_arrays_and_examples_are_reported(folder):
    run = RunFolder.open(folder)
    save_file({"bias": np.zeros(3)}, run.weights_path(1))
    np.savez(folder / "examples" / "0001.npz", states=np.zeros(3))
    for load in (run.load_weights, run.load_examples):
        with pytest.raises(UserError, match="was not written by zerolab"):
            load(1)


def test_pickled_objects_are_not_loaded(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    path = folder / "examples" / "0001.npz"
    np.savez(path, **{"zerolab.json": np.zeros(1)}, states=np.array([Trap()], dtype=object))
    with pytest.raises(UserError):
        RunFolder.open(folder).load_examples(1)
    np.save(path.open("wb"), np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="is damaged"):
        RunFolder.open(folder).load_examples(1)
    assert not (tmp_path / "sprung").exists()


def test_files_of_other_iteration_kind_or_game_are_reported(folder, tmp_path):
    run = RunFolder.open(folder)
    shutil.copy(run.weights_path(0), run.weights_path(1))
    with pytest.raises(UserError, match=r"othello:4x4, iteration 0: expected .* iteration 1"):
        run.load_weights(1)
    shutil.copy(folder / "checkpoints" / "0001.optimizer.safetensors", run.weights_path(1))
    with pytest.raises(UserError, match='"optimizer state": expected "weights"'):
        run.load_weights(1)
    other = RunFolder.create(tmp_path / "other", CONFIG | {"game": "gobang:3x3:3"})
    shutil.copy(folder / "examples" / "0001.npz", other.path / "examples")
    with pytest.raises(UserError, match="othello:4x4"):
        other.load_examples(1)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("states", np.zeros((20, 3), np.uint64), "states has 3 columns, expected 2"),
        ("policies", np.zeros((20, 16), np.float16), "policies has 16 columns, expected 17"),
        ("actions", np.full(20, 500, np.int16), "actions are not from 0 to 16"),
        ("outcomes", np.full(20, 100, np.int8), "outcomes are not -1, 0 or 1"),
    ],
)
def test_examples_that_do_not_fit_the_game_are_refused(folder, column, value, reason):
    run = RunFolder.open(folder)
    run.save_examples(1, replace(examples(1), **{column: value}))
    with pytest.raises(UserError, match=f"0001.npz is damaged .{reason}"):
        run.load_examples(1)


def test_missing_network_names_available_ones(folder):
    with pytest.raises(UserError, match=r"has no network 2: expected one of 0, 1"):
        RunFolder.open(folder).load_weights(2)


@pytest.mark.parametrize(
    "name",
    [
        ".lock", "metrics.jsonl", "games.sqlite", "checkpoints", "examples", "unfinished",
        "positions", "tensorboard",
    ],
)  # fmt: skip
def test_run_does_not_write_through_links(tmp_path, name):
    """A state without stages removes files, which must not follow links to the user's files."""
    run, other = train(tmp_path / "run"), train(tmp_path / "other")
    precious, link = other.path / name, run.path / name
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    folder_module.write_run_state(run.path / "state.json", folder_module.RunState())
    before = everything(other.path)
    with pytest.raises(UserError, match=f"{name}: it is a link"):
        train(run.path, iterations=1)
    assert summarise_run(run.path).status == "stopped"
    assert everything(other.path) == before


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"zerolab": "[" * 5_000_000}, "its header is 5,[0-9,]* bytes long"),
        ({"zerolab": "[" * 100_000}, "recursion"),
        ({"zerolab": json.dumps({"schema": 1, "kind": "weights"})}, "float8"),
    ],
    ids=["large", "nested", "type"],
)
def test_malformed_headers_of_weights_are_reported(folder, header, expected):
    entry = {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}
    text = json.dumps({"__metadata__": header, "a": entry}).encode()
    run = RunFolder.open(folder)
    run.weights_path(1).write_bytes(struct.pack("<Q", len(text)) + text + b"1")
    with pytest.raises(UserError, match=f"0001.safetensors is damaged .*{expected}"):
        run.load_weights(1)


def test_games_of_examples_are_whole():
    whole = examples(1)
    assert whole.move_sequences() == [whole.actions.tolist()]
    two = replace(whole, plies=np.r_[0:12, 0:8].astype(np.int16))
    assert two.move_sequences() == [whole.actions[:12].tolist(), whole.actions[12:].tolist()]
    for plies in (np.arange(1, 21), np.r_[0:12, 1:9], np.r_[0:12, 13:21], np.full(20, -5)):
        with pytest.raises(ValueError, match="moves of a game are missing"):
            replace(whole, plies=plies.astype(np.int16)).move_sequences()
