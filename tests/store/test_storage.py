"""Copies of runs in storage: local folders, S3 (moto), interruptions and errors."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from io import BytesIO
from types import SimpleNamespace

import pytest
from pyarrow import fs

from forks import wait_for
from promised import contents, differences
from training.tiny_training import train
from zerolab.cli.main import main
from zerolab.cli.output import Console
from zerolab.cli.train import _StorageCopier
from zerolab.core.errors import UserError
from zerolab.store import storage
from zerolab.store.folder import is_locked
from zerolab.store.run_folder import RUN_FOLDER_KIND, RunFolder
from zerolab.store.storage import RunStorage
from zerolab.training.configure import resolve_settings

SETTINGS = ["iterations=2", "selfplay.episodes=4", "final_evaluation.games=2"]


def command(folder, uri, *options):
    assignments = [f"--set={each}" for each in SETTINGS]
    return [
        "train", "--run", str(folder), "--preset", "smoke", *assignments, "--storage", uri, *options
    ]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a finished run."""
    settings = resolve_settings(None, "smoke", SETTINGS)
    return train(tmp_path_factory.mktemp("runs") / "run", settings).path


@pytest.fixture(params=["path", "file", "s3"])
def uri(request, tmp_path):
    if request.param == "path":
        return str(tmp_path / "storage")
    if request.param == "file":
        return f"file://{tmp_path}/storage"
    return request.getfixturevalue("bucket")


@pytest.fixture(scope="module")
def bucket():
    """Return the URI of a bucket of a local S3 server."""
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        options = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
        address = f"s3://key:secret@runs?{options}&allow_bucket_creation=true"
        fs.FileSystem.from_uri(address)[0].create_dir("runs")
        yield f"s3://key:secret@runs/mine?{options}"
    finally:
        server.kill()
        server.wait()


def test_stored_run_equals_the_run(run, uri, tmp_path):
    RunStorage(uri, run).push()
    other = tmp_path / "other" / "run"
    other.parent.mkdir()
    assert RunStorage(uri, other).fetch()
    assert contents(other) == contents(run)
    assert not RunStorage(uri, other).fetch()
    RunFolder.open(other).load_weights(RunFolder.open(other).progress.best)


def test_progress_of_a_fetch_ends_at_its_size(run, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_mebibytes", lambda size: size)
    uri, bars, updates = str(tmp_path / "storage"), [], []

    @contextmanager
    def progress_bar(*description):
        bars.append(description)
        yield lambda done, note: updates.append(done)

    RunStorage(uri, run).push()
    stored = [each for each in (tmp_path / "storage").rglob("*") if each.is_file()]
    size = sum(each.stat().st_size for each in stored if each.name != "digests.json")
    for _ in range(2):  # the second time there is nothing to fetch
        RunStorage(uri, tmp_path / "other" / run.name).fetch(progress_bar)
    assert bars == [("fetching a run", size, "MiB")]
    assert updates == sorted(updates)
    assert updates[-1] == size


def test_fetch_refuses_a_folder_with_hidden_files(run, tmp_path):
    uri, other = str(tmp_path / "storage"), tmp_path / run.name
    RunStorage(uri, run).push()
    other.mkdir()
    (other / ".lock").touch()
    with pytest.raises(UserError, match=r'has a hidden file, "[.]lock"'):
        RunStorage(uri, other).fetch()


def test_linked_folder_keeps_its_name(run, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(run)
    RunStorage(str(tmp_path / "storage"), link).push()
    assert [each.name for each in (tmp_path / "storage").iterdir()] == ["link"]


def test_only_changed_files_are_copied(run, tmp_path, monkeypatch):
    folder, uri = tmp_path / "run", str(tmp_path / "storage")
    shutil.copytree(run, folder)
    written = []
    write = RunStorage._write
    monkeypatch.setattr(
        RunStorage, "_write", lambda self, path, content: (
            written.append(path.removeprefix(f"{uri}/run/")), write(self, path, content)
        )
    )  # fmt: skip
    RunStorage(uri, folder).push()
    assert written[-2:] == ["state.json", "digests.json"]  # the commit point comes last
    written.clear()
    stored = RunStorage(uri, folder)
    stored.push()
    assert written == ["digests.json"]
    (folder / "environment.json").write_text("{}")
    (folder / "checkpoints" / "0000.safetensors").unlink()
    stored.push()
    assert written == ["digests.json", "environment.json", "digests.json"]
    assert not (tmp_path / "storage" / "run" / "checkpoints" / "0000.safetensors").exists()


def test_interrupted_upload_leaves_the_former_file(uri, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "games.bin").write_bytes(b"former")
    stored = storage.FolderStorage(uri, folder)
    stored.upload(["games.bin"], remove_others=False)

    class Interrupted(BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise KeyboardInterrupt
            return super().read(size)

    with pytest.raises(KeyboardInterrupt):
        stored._write(stored._path("games.bin"), Interrupted(bytes(3 * storage._BLOCK)))
    (folder / "games.bin").unlink()
    fetched = storage.FolderStorage(uri, folder)
    assert list(fetched.stored_file_names) == ["games.bin"]
    fetched.download([], ["games.bin"])
    assert (folder / "games.bin").read_bytes() == b"former"


def test_file_that_comes_back_unchanged_is_copied_again(tmp_path):
    folder, kept = tmp_path / "folder", tmp_path / "kept"
    folder.mkdir()
    (folder / "a").touch()
    (folder / "b").touch()
    stored = storage.FolderStorage(str(tmp_path / "storage"), folder)
    stored.upload(["a", "b"], remove_others=True)
    (folder / "b").rename(kept)
    stored.upload(["a"], remove_others=True)
    kept.rename(folder / "b")
    stored.upload(["a", "b"], remove_others=True)
    assert {each.name for each in (tmp_path / "storage" / "folder").iterdir()} >= {"a", "b"}


def test_files_outside_the_copy_are_left_alone(run, tmp_path):
    uri, precious = str(tmp_path / "storage"), tmp_path / "precious"
    RunStorage(uri, run).push()
    precious.write_text("kept")
    names = ["../../precious", str(precious), "a/../../../precious", "..\\..\\precious", "C:x"]
    assert not any(map(storage._is_plain, names))
    assert storage._is_plain("examples/0001.npz")
    (tmp_path / "storage" / "run" / "digests.json").write_text(json.dumps(dict.fromkeys(names, "")))
    RunStorage(uri, run).push()
    assert precious.read_text() == "kept"
    foreign = tmp_path / "storage" / "other"
    foreign.mkdir()
    (foreign / "notes.txt").touch()
    with pytest.raises(UserError, match=r"other in .* is not empty and is not a copy of a run"):
        RunStorage(uri, tmp_path / "other")
    assert (foreign / "notes.txt").exists()


@pytest.mark.parametrize("part", ["", "run", "run/examples"])
def test_run_is_not_copied_onto_itself(tmp_path, part):
    with pytest.raises(UserError, match="expected separate folders"):
        RunStorage(str(tmp_path / part), tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_copy_of_another_run_is_not_replaced(run, tmp_path):
    uri, folder = str(tmp_path / "storage"), tmp_path / "run"
    RunStorage(uri, run).push()
    shutil.copytree(run, folder)
    assert not RunStorage(uri, folder).fetch()
    config = folder / "config.toml"
    settings = {**RUN_FOLDER_KIND.read_settings(folder), "seed": 7, "iterations": 9}
    config.unlink()
    RUN_FOLDER_KIND.write_settings(folder, settings)
    with pytest.raises(UserError, match=r"^seed = 0 differs from 7 .* the copy of another run"):
        RunStorage(uri, folder).fetch()


def test_leftovers_of_interrupted_copy_are_removed(run, tmp_path):
    uri, stored = str(tmp_path / "storage"), tmp_path / "storage" / "run"
    RunStorage(uri, run).push()
    (stored / "examples" / "0009.npz").touch()  # copied, but its digest was not
    RunStorage(uri, run).push()
    assert not (stored / "examples" / "0009.npz").exists()
    assert differences(contents(stored), contents(run)) == ["digests.json (extra)"]


def test_supervised_run_is_copied_after_every_iteration(run, monkeypatch):
    """The first stage of supervised iterations is not self-play."""
    opened, pushes = RunFolder.open(run), []
    folder = SimpleNamespace(progress=opened.progress.model_copy(update={"iteration": 1}))
    monkeypatch.setattr(RunStorage, "push", lambda self: pushes.append(folder.progress))
    store = RunStorage(str(run.parent / "storage"), run)
    copies = _StorageCopier(store, folder, Console(quiet=True))
    stages = [(1, "supervised"), (2, "learn"), (2, "supervised"), (3, "final_evaluation")]
    for iteration, stage in stages:
        folder.progress = folder.progress.model_copy(
            update={"iteration": iteration, "stage": stage}
        )
        copies.on_record(None)
    assert [each.stage for each in pushes] == ["learn", "final_evaluation"]


def test_last_copy_is_made_while_the_run_is_locked(tmp_path, monkeypatch):
    push, locked = RunStorage.push, []
    monkeypatch.setattr(
        RunStorage, "push", lambda self: (locked.append(is_locked(self._folder)), push(self))
    )
    assert main(command(tmp_path / "run", str(tmp_path / "storage"))) == 0
    assert locked == [True] * 3


def test_secrets_are_not_shown(tmp_path):
    uri = "s3://key:top/secret@bucket/runs?unknown=1"
    with pytest.raises(UserError) as error:
        RunStorage(uri, tmp_path / "run")
    assert "secret" not in str(error.value)
    assert "s3://bucket/runs" in str(error.value)


def test_folder_with_other_content_is_refused_before_the_copy_is_fetched(
    run, tmp_path, monkeypatch
):
    uri, folder = str(tmp_path / "storage"), tmp_path / "run"
    RunStorage(uri, run).push()
    folder.mkdir()
    (folder / "notes.txt").touch()
    monkeypatch.setattr(RunStorage, "_download", lambda *_: pytest.fail("downloaded"))
    with pytest.raises(UserError, match="is not a run and not empty"):
        RunStorage(uri, folder).fetch()


def test_lost_learner_resumes_elsewhere_from_an_interrupted_copy(run, tmp_path, monkeypatch):
    uri, push, pushes = str(tmp_path / "storage"), RunStorage.push, []

    def interrupted(self):
        pushes.append(self)
        if len(pushes) == 2:  # the files of iteration 2 are copied, but not its state
            with monkeypatch.context() as patch:
                write = RunStorage._write

                def fail(self, path, content):
                    if path.endswith("state.json"):
                        raise KeyboardInterrupt
                    write(self, path, content)

                patch.setattr(RunStorage, "_write", fail)
                push(self)
        push(self)

    with monkeypatch.context() as patch:
        patch.setattr(RunStorage, "push", interrupted)
        assert main(command(tmp_path / "here" / "run", uri)) == 130
    there = tmp_path / "there" / "run"
    there.parent.mkdir()
    assert main(command(there, uri)) == 0
    assert contents(there) == contents(run)
    shutil.rmtree(there)
    assert RunStorage(uri, there).fetch()
    assert contents(there) == contents(run)


def test_older_local_run_is_refused(run, tmp_path, capfd):
    uri, folder = str(tmp_path / "storage"), tmp_path / "run"
    RunStorage(uri, run).push()
    train(folder, resolve_settings(None, "smoke", [*SETTINGS, "iterations=1"]))
    assert main(["train", "--run", str(folder), "--storage", uri]) == 2
    assert "is at iteration 2, but its copy" in capfd.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="uses /dev/null")
@pytest.mark.parametrize("uri", ["/dev/null/storage", "s4://bucket/runs", "file://"])
def test_unusable_storage_leaves_no_run(tmp_path, capfd, uri):
    assert main(command(tmp_path / "run", uri)) == 2
    error = capfd.readouterr().err
    assert "the storage" in error
    assert "s3://BUCKET/PATH" in error
    assert not (tmp_path / "run").exists()


def test_damaged_state_is_an_error(run, tmp_path):
    uri = str(tmp_path / "storage")
    RunStorage(uri, run).push()
    (tmp_path / "storage" / "run" / "state.json").write_text("{}")
    with pytest.raises(UserError, match=storage.STATE_FILE_NAME):
        RunStorage(uri, tmp_path / "run").fetch()
