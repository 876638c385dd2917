"""Dataset generation: content, determinism, resumption and budgets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from evaluation.exhaustive import Exhaustive, exhaustive
from forks import wait_for
from zerolab.core.errors import UserError
from zerolab.evaluation import dataset as dataset_module
from zerolab.evaluation.collecting import DatasetSettings, collect_positions
from zerolab.evaluation.dataset import collect_in_memory, make_dataset, stored_share
from zerolab.evaluation.positions import read_positions
from zerolab.oracles.oracle import ILLEGAL_VALUE, Oracle
from zerolab.rules import compiled_rules, encoding
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.folder import lock_folder

GAME = parse_game("gobang:3x3:3")
SETTINGS = DatasetSettings(seed=3)
COUNT = 120


def make(path, settings=SETTINGS, count=COUNT, **others):
    return make_dataset(GAME, count, settings, path, make_oracle=exhaustive, **others)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "made.parquet"
    manifest = make(path)
    return path, manifest, read_positions(path)[0]


def test_moves_lead_to_states_with_exact_values(dataset):
    _, _, positions = dataset
    oracle = exhaustive(GAME)
    assert len(positions) == COUNT
    for row in range(len(positions)):
        position = Position.start(GAME)
        for move in positions.move_sequence(row):
            position = position.play(move)
        assert (position.state == positions.states[row]).all()
        assert position.outcome is None
        assert np.flatnonzero(positions.legal[row]).tolist() == position.legal_actions
        assert (oracle.values_at(position) == positions.action_values[row]).all()


def test_positions_are_non_trivial_and_unique(dataset):
    _, _, positions = dataset
    assert (
        ((positions.action_values != positions.position_values[:, None]) & positions.legal)
        .any(axis=1)
        .all()
    )
    images = [
        {
            compiled_rules.transform(GAME, state, s).tobytes()
            for s in range(encoding.symmetry_count(GAME))
        }
        for state in positions.states
    ]
    for row, state in enumerate(positions.states):
        assert not any(state.tobytes() in other for other in images[:row])


def test_manifest_agrees_with_the_positions(dataset):
    path, manifest, positions = dataset
    assert json.loads(Path(f"{path}.json").read_text()) == manifest
    best = positions.position_values
    assert manifest["positions"] == manifest["requested"] == COUNT
    assert manifest["won"] == sum(value > 0 for value in best)
    assert manifest["won"] + manifest["drawn"] + manifest["lost"] == COUNT
    assert sum(manifest["by_ply"].values()) == COUNT
    is_best = [
        [value == row.max() for value in row if value != ILLEGAL_VALUE]
        for row in positions.action_values
    ]
    assert manifest["correct_moves"] == pytest.approx(np.mean([sum(mask) for mask in is_best]))
    assert manifest["random_strong"] == pytest.approx(np.mean([np.mean(mask) for mask in is_best]))
    assert (manifest["seed"], manifest["perfect"], manifest["game"]) == (3, 0.5, "gobang:3x3:3")


def test_result_does_not_depend_on_the_number_of_processes(dataset, tmp_path):
    path, manifest, _ = dataset
    second_path = tmp_path / "made.parquet"
    assert make(second_path, processes=2) == manifest
    assert second_path.read_bytes() == path.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made.parquet", "made.parquet.json"]


def test_killed_command_is_resumed(dataset, tmp_path):
    path, _, _ = dataset
    resumed = tmp_path / "made.parquet"
    parts = tmp_path / "made.parquet.parts"
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from evaluation.test_dataset import make\n"
        "from pathlib import Path\n"
        "import time\n"
        "if __name__ == '__main__':\n"
        f"    make(Path({str(resumed)!r}), processes=2, report=lambda _: time.sleep(60))\n"
    )
    (tmp_path / "slow.py").write_text(script)
    process = subprocess.Popen([sys.executable, str(tmp_path / "slow.py")])
    try:
        first = parts / "0000000.parquet"
        wait_for(lambda: process.poll() is not None or first.exists())
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    written = first.stat().st_mtime_ns
    assert not resumed.exists()
    times = []
    make(resumed, report=lambda _: times.append(first.stat().st_mtime_ns))
    assert files(resumed) == files(path)
    assert set(times) == {written}  # the finished part is reused


def files(path):
    """Return the bytes of a dataset and of its manifest."""
    return path.read_bytes(), Path(f"{path}.json").read_bytes()


def test_missing_manifest_is_written_again(dataset, tmp_path):
    resumed = tmp_path / "made.parquet"
    resumed.write_bytes(dataset[0].read_bytes())
    make(resumed)
    assert files(resumed) == files(dataset[0])


def test_existing_dataset_is_kept_and_other_settings_are_refused(dataset):
    path, manifest, _ = dataset
    assert make(path) == manifest
    with pytest.raises(UserError, match=r"perfect = 0.5, not 0.25"):
        make(path, SETTINGS.model_copy(update={"perfect": 0.25}))
    with pytest.raises(UserError, match="requested = 120, not 7"):
        make(path, count=7)


def test_file_that_another_process_has_just_finished_is_used(dataset, tmp_path, monkeypatch):
    """The other process writes the file after this one has seen that there is none."""
    finished, manifest, _ = dataset
    path = tmp_path / "made.parquet"
    kind = dataset_module._DATASET_FOLDER_KIND

    @contextmanager
    def locked_late(self, folder):
        shutil.copy(finished, path)
        with lock_folder(tmp_path):
            yield

    monkeypatch.setattr(type(kind), "locked", locked_late)
    monkeypatch.setattr(dataset_module, "_collect", None)
    assert make(path) == manifest


def test_parts_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "made.parquet"
    with pytest.raises(KeyboardInterrupt):
        make(path, report=interrupt)
    with pytest.raises(
        UserError, match=r"seed = 4 differs from 3 in .*\.parts: a dataset keeps its settings"
    ):
        make(path, DatasetSettings(seed=4))
    assert make(path, count=40)["positions"] == 40  # the requested number of positions can change


def test_stored_share_grows_with_the_parts(tmp_path):
    path = tmp_path / "made.parquet"
    assert stored_share(path, COUNT) == 0.0
    with pytest.raises(KeyboardInterrupt):
        make(path, report=interrupt)  # after the first part
    (part,) = Path(f"{path}.parts").glob("*.parquet")
    count = len(read_positions(part)[0])
    assert stored_share(path, 4 * count) == 0.25
    (part.parent / "0000001.parquet").write_bytes(part.read_bytes())
    assert stored_share(path, 4 * count) == 0.5
    assert stored_share(path, count) == 1.0
    for each in part.parent.glob("*.parquet"):
        each.write_bytes(b"damaged")
    assert stored_share(path, COUNT) == 0.0


def interrupt(_):
    raise KeyboardInterrupt


def test_one_position_per_game(tmp_path):
    manifest = make(tmp_path / "made.parquet", DatasetSettings(one_per_game=True), 40)
    positions, _ = read_positions(tmp_path / "made.parquet")
    assert len(set(positions.game_numbers.tolist())) == len(positions) == 40
    assert manifest["games"] > 40
    assert len(manifest["by_ply"]) > 3


def test_position_of_a_game_is_drawn_uniformly():
    oracle, numbers = CountingOracle(), range(600)
    all_positions = collect_positions(GAME, oracle, DatasetSettings(perfect=0.0), numbers).positions
    solved_all, oracle.solved = oracle.solved, 0
    settings = DatasetSettings(
        perfect=0.0, one_per_game=True
    )  # equal games, because play is random
    sampled = collect_positions(GAME, oracle, settings, numbers).positions
    assert oracle.solved < 0.4 * solved_all
    assert sampled.game_numbers.tolist() == np.unique(all_positions.game_numbers).tolist()
    quantiles = []
    for game, ply in zip(sampled.game_numbers, sampled.plies, strict=True):
        plies = all_positions.plies[all_positions.game_numbers == game].tolist()
        quantiles.append((plies.index(ply) + 0.5) / len(plies))
    error = np.sqrt(1 / 12 / len(quantiles))
    assert abs(np.mean(quantiles) - 0.5) < 4 * error


def test_position_of_a_game_does_not_depend_on_later_plies():
    oracle, settings = CountingOracle(), DatasetSettings(perfect=0.6, one_per_game=True)
    shorter = DatasetSettings(perfect=0.6, one_per_game=True, last_ply=4)
    whole = collect_positions(GAME, oracle, settings, range(200)).positions
    cut = collect_positions(GAME, oracle, shorter, range(200)).positions
    lines = {int(cut.game_numbers[row]): cut.move_sequence(row) for row in range(len(cut))}
    early = [row for row in range(len(whole)) if whole.plies[row] <= 4]
    assert len(early) > 50
    assert all(lines[int(whole.game_numbers[row])] == whole.move_sequence(row) for row in early)


class CountingOracle(Oracle):
    """Exhaustive oracle that counts solved positions."""

    def __init__(self):
        self.solved = 0
        self._oracle = exhaustive(GAME)

    def action_values(self, states):
        self.solved += len(states)
        return self._oracle.action_values(states)


def test_perfect_setting_controls_the_share_of_best_moves():
    oracle = exhaustive(GAME)

    def best_share(perfect):
        part = collect_positions(
            GAME, oracle, DatasetSettings(perfect=perfect), range(60)
        ).positions
        played = best = 0
        for row in range(len(part)):
            position = Position.start(GAME)
            for move in part.move_sequence(row):
                values = oracle.values_at(position)
                played += 1
                best += values[move] == values.max()
                position = position.play(move)
        return best / played

    assert best_share(1.0) == 1.0
    assert best_share(0.0) < best_share(0.5) < 0.99


def test_games_are_independent_of_their_batch():
    oracle = exhaustive(GAME)
    together = collect_positions(GAME, oracle, SETTINGS, range(10)).positions
    alone = collect_positions(GAME, oracle, SETTINGS, range(7, 8)).positions
    rows = np.flatnonzero(together.game_numbers == 7)
    assert len(rows)
    assert [together.move_sequence(row) for row in rows] == [
        alone.move_sequence(row) for row in range(len(alone))
    ]


def test_positions_are_within_the_configured_plies():
    oracle = exhaustive(GAME)
    positions = collect_in_memory(
        GAME, 30, DatasetSettings(first_ply=3, last_ply=4), oracle
    ).positions
    assert set(positions.plies.tolist()) == {3, 4}
    with pytest.raises(ValueError, match="plies 5:4"):
        DatasetSettings(first_ply=5, last_ply=4)


def test_unsolved_positions_are_skipped_and_counted():
    oracle = Exhaustive(GAME, max_moves=6)
    part = collect_positions(GAME, oracle, SETTINGS, range(32))
    assert part.counts.unsolved == 3 * 32  # three plies in each of 32 games
    assert part.positions.plies.min() == 3
    with pytest.raises(UserError, match="--plies 4:"):
        collect_in_memory(GAME, 5, SETTINGS, oracle)
    assert len(collect_in_memory(GAME, 5, DatasetSettings(first_ply=3), oracle).positions) == 5


def test_budget_does_not_depend_on_the_number_of_processes(tmp_path):
    settings = DatasetSettings(first_ply=2, nodes=5)
    with pytest.raises(UserError, match="--plies 5:"):
        make(tmp_path / "made.parquet", settings, 20)
    settings = DatasetSettings(first_ply=3, nodes=5)
    manifest = make(tmp_path / "made.parquet", settings, 20)
    assert manifest["nodes"] == 5
    assert make(tmp_path / "again.parquet", settings, 20, processes=2) == manifest


def test_generation_stops_without_new_positions(tmp_path):
    manifest = make(tmp_path / "made.parquet", DatasetSettings(first_ply=1, last_ply=2), 1000)
    # After one ply, up to symmetry: a corner, an edge or the centre.
    assert manifest["by_ply"]["1"] == 3
    assert manifest["positions"] == sum(manifest["by_ply"].values()) < 20
    assert manifest["requested"] == 1000
