"""Killed and resumed runs, which end with the same bytes as undisturbed ones."""

from __future__ import annotations

import multiprocessing
import random
import shutil
from concurrent.futures import ProcessPoolExecutor

import pytest

from promised import contents
from store.toy import games, killed_at, killed_while_recording, snapshots, train
from zerolab.store.games import GameStore
from zerolab.store.run_folder import RunFolder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    train(folder)
    return contents(folder)


@pytest.fixture(scope="module")
def forker():
    """A process with few imports, which forks ten times faster than the test process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_equal_runs_are_equal(tmp_path, undisturbed):
    train(tmp_path / "run")
    assert contents(tmp_path / "run") == undisturbed
    assert sorted(undisturbed) == [
        "checkpoints/0000.safetensors",
        "checkpoints/0001.optimizer.safetensors",
        "checkpoints/0001.safetensors",
        "config.toml",
        "examples/0001.npz",
        "examples/0002.npz",
        "games.sqlite",
        "metrics.jsonl",
        "state.json",
    ]


def test_run_killed_before_any_file_operation_resumes(tmp_path, undisturbed, forker):
    assert forker.submit(snapshots, tmp_path / "run", tmp_path / "copies").result() > 50
    assert contents(tmp_path / "run") == undisturbed
    resumed = []
    for copy in sorted((tmp_path / "copies").iterdir(), key=lambda path: int(path.name)):
        files = {path.relative_to(copy): _content(path) for path in copy.rglob("*")}
        if files not in resumed:
            resumed.append(files)
            train(copy)
            assert contents(copy) == undisturbed, f"killed at operation {copy.name}"
        shutil.rmtree(copy)
    assert len(resumed) > 30


def _content(path):
    return path.read_bytes() if path.is_file() else None


def test_run_killed_repeatedly_resumes(tmp_path, undisturbed, forker):
    kills = 0
    while forker.submit(killed_at, 7 + kills, tmp_path / "run").result():
        kills += 1
    assert contents(tmp_path / "run") == undisturbed
    assert kills >= 2


def test_games_survive_kill_while_recording(tmp_path, forker):
    """The kills occur inside SQLite, between Python's file operations."""
    path = tmp_path / "games.sqlite"
    store = GameStore(path)
    draws = random.Random(0)
    stages: list[tuple[int, str]] = []
    for _ in range(12):
        forker.submit(killed_while_recording, path, draws.uniform(0, 0.02)).result()
        stages = store.stages()
        store.rewind(len(stages))
        assert stages == [(number, "selfplay") for number in range(len(stages))]
        assert all(
            store.stage_games(number, stage) == games(number, 40) for number, stage in stages
        )
    assert len(stages) >= 12
    store.write_stage(len(stages), "selfplay", [])
    assert [path.name for path in tmp_path.iterdir()] == ["games.sqlite"]


def test_uncommitted_files_are_removed(tmp_path, undisturbed):
    folder = tmp_path / "run"
    run = train(folder)
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b'{"iteration": 3, "sta')
    run.save_examples(3, run.load_examples(2))
    run.save_network(3, {}, {})
    run.games.write_stage(3, "selfplay", games(3))
    (folder / "checkpoints" / ".0003.safetensors.0a1b2c3d.part").write_bytes(b"half")
    assert RunFolder.open(folder).metrics() == run.metrics()
    with RunFolder.open(folder).locked():
        pass
    assert contents(folder) == undisturbed


def test_user_files_are_left_alone(tmp_path):
    train(tmp_path / "run", iterations=1)
    names = ["notes.txt", "checkpoints/notes.txt", "checkpoints/.hidden", "examples/notes.txt"]
    for name in names:
        (tmp_path / "run" / name).write_text("mine")
    train(tmp_path / "run")
    assert all((tmp_path / "run" / name).read_text() == "mine" for name in names)
