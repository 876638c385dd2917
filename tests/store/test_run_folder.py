"""Run folders: locks, full disks, missing permissions and pruning."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from promised import contents
from store.toy import CONFIG, everything, examples, games, in_child, train
from zerolab.core.errors import UserError
from zerolab.store.folder import RunProgress, read_run_state
from zerolab.store.run_folder import RunFolder, is_run

HOLDER = """
import sys, time
from pathlib import Path
from zerolab.store.run_folder import RunFolder
with RunFolder.open(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path):
    return train(tmp_path / "run", iterations=1)


def test_second_process_is_refused_until_first_is_killed(run):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(run.path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"locked\n"
        before = everything(run.path)
        assert run.is_locked
        with pytest.raises(UserError, match=f"{run.path} is in use"), run.locked():
            pass
        assert RunFolder.open(run.path).metrics() == run.metrics()  # reading needs no lock
        assert everything(run.path) == before
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert not run.is_locked
    with run.locked():
        assert run.is_locked


def test_lock_is_released_after_error(run):
    with pytest.raises(KeyboardInterrupt), run.locked():
        raise KeyboardInterrupt
    assert not run.is_locked


def test_reading_writes_nothing(run):
    (run.path / ".lock").unlink()
    before = everything(run.path)
    opened = RunFolder.open(run.path)
    assert not opened.is_locked
    assert len(opened.metrics()) == 3
    assert opened.games.game_count() == 12
    opened.load_weights(1)
    opened.load_examples(1)
    assert everything(run.path) == before


def test_concurrently_extended_run_is_not_overwritten(run):
    late = RunFolder.open(run.path)
    with run.locked():
        run.save_settings(CONFIG | {"iterations": 9})
    with pytest.raises(UserError, match="changed by another process"), late.locked():
        pass
    assert RunFolder.open(run.path).config["iterations"] == 9


def test_locking_reloads_progress(run):
    late = RunFolder.open(run.path)
    train(run.path, iterations=2)
    with late.locked():
        assert late.progress.iteration == 3


def test_new_run_has_initial_progress(tmp_path):
    run = RunFolder.create(tmp_path / "deep" / "run", CONFIG)
    assert run.progress == RunFolder.open(run.path).progress == RunProgress()
    assert run.metrics() == []


def test_folder_name_cannot_begin_options(tmp_path):
    for name in ("run?c=2", "runs?c=2/new"):
        with pytest.raises(UserError, match=r"run.*\?c=2.*: expected a name without \?"):
            RunFolder.create(tmp_path / name, CONFIG)
    assert everything(tmp_path) == {} and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["thesis.txt", "checkpoints", "metrics.jsonl"])
def test_folder_with_other_content_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("years of work")
    assert not is_run(tmp_path)
    with pytest.raises(UserError, match="is not a run and not empty"):
        RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(UserError, match="is not a run"):
        RunFolder.open(tmp_path)
    assert everything(tmp_path) == {str(tmp_path / name): b"years of work"}


def test_foreign_config_is_reported(tmp_path):
    (tmp_path / "config.toml").write_text("[server]\nport = 80\n")
    with pytest.raises(UserError, match="was not written by zerolab"):
        RunFolder.open(tmp_path)


def test_existing_run_is_not_created_again(run):
    before = everything(run.path)
    with pytest.raises(UserError, match="already contains a run"):
        RunFolder.create(run.path, CONFIG)
    assert everything(run.path) == before


def _error_with_file_limit(size: int, work) -> str:
    """Call `work` in a process that cannot write files larger than `size` bytes."""

    def limit_and_work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    return in_child(limit_and_work)


def _write_metrics(run: RunFolder) -> None:
    run.commit(run.progress, [{"iteration": 2, "stage": "selfplay", "note": "x" * 20_000}])


FULL = {
    "0002.safetensors": lambda run: run.save_network(2, {"a": np.zeros(9999)}, {}),
    "0002.optimizer.safetensors": lambda run: run.save_network(2, {}, {"a": np.zeros(9999)}),
    "0001.npz": lambda run: run.save_examples(1, examples(1, 5000)),
    "games.sqlite": lambda run: run.games.write_stage(1, "gate", games(1, 5000)),
    "metrics.jsonl": _write_metrics,
    "config.toml": lambda run: run.save_settings(CONFIG | {"note": "x" * 20_000}),
}


@pytest.mark.parametrize("name", FULL)
def test_full_disk_is_reported_and_run_can_resume(run, tmp_path, name):
    before = contents(run.path)
    size = 10_000 if name != "games.sqlite" else (run.path / name).stat().st_size

    def work() -> None:
        with run.locked():
            FULL[name](run)

    message = _error_with_file_limit(size, work)
    assert name in message
    assert message.startswith("cannot ")
    assert len(message.splitlines()) == 1
    assert not list(run.path.rglob(".*.part"))
    with RunFolder.open(run.path).locked():
        pass
    assert contents(run.path) == before
    train(run.path)
    train(tmp_path / "undisturbed", iterations=1)
    train(tmp_path / "undisturbed")
    assert contents(run.path) == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("victim", ["metrics.jsonl", "state.json"])
def test_failed_commit_can_be_repeated(run, monkeypatch, victim):
    progress = run.progress
    flush, errors = os.fsync, [errno.ENOSPC]

    def fail_once(descriptor: int) -> None:
        if errors and victim in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errors.pop(), "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    line = {"iteration": 2, "stage": "selfplay", "wall_seconds": 1.0}
    other = {"iteration": 2, "stage": "selfplay", "note": "shorter"}
    with run.locked():
        with pytest.raises(UserError, match="No space left on device"):
            run.commit(run.progress, [line])
        assert run.progress == RunFolder.open(run.path).progress == progress
        run.commit(run.progress, [other])
    assert RunFolder.open(run.path).metrics()[3:] == [other]
    committed = read_run_state(run.path / "state.json").files
    assert (run.path / "metrics.jsonl").stat().st_size == committed.metrics_bytes


def _unprivileged_error(work) -> str:
    def drop_rights_and_work() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)
        work()

    return in_child(drop_rights_and_work)


def test_folders_without_permission_are_reported():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = train(folder / "run", iterations=1)
        folder.chmod(0o755)
        for path in [*folder.rglob("*"), folder]:
            path.chmod(0o555 if path.is_dir() else 0o444)

        def lock() -> None:
            with RunFolder.open(run.path).locked():
                pass

        try:
            message = _unprivileged_error(lambda: RunFolder.create(folder / "new", CONFIG))
            assert message == f"cannot create the folder {folder / 'new'}: Permission denied"
            assert _unprivileged_error(lock) == f"cannot write {run.path}: Permission denied"
            assert _unprivileged_error(lambda: RunFolder.open(run.path).metrics()) == ""
            assert (
                _unprivileged_error(lambda: RunFolder.open(run.path).games.stage_games(1, "gate"))
                == ""
            )
            (run.path / "state.json").chmod(0)
            message = _unprivileged_error(lambda: RunFolder.open(run.path))
            assert message == f"cannot read {run.path / 'state.json'}: Permission denied"
            run.path.chmod(0)
            assert "Permission denied" in _unprivileged_error(lambda: is_run(run.path))
        finally:
            for path in [folder, run.path, run.path / "checkpoints", run.path / "examples"]:
                path.chmod(0o755)


def test_pruning_keeps_files_needed_to_resume(run):
    needed = ["0000.safetensors", "0001.optimizer.safetensors", "0001.safetensors"]
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == needed
    train(run.path, iterations=3)  # 2 is rejected, 3 accepted
    assert run.network_iterations() == [0, 1, 3]
    assert RunFolder.open(run.path).load_optimizer_state(3).keys() == {"bias", "filter"}


def test_iterations_can_have_more_than_four_digits(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    for iteration in (9_999, 10_000, 12_345):
        run.save_network(iteration, {"a": np.full(1, iteration)}, {})
    assert run.network_iterations() == [9_999, 10_000, 12_345]
    assert run.load_weights(12_345)["a"] == 12_345
