"""What a node does with tasks, without a cluster: its machine and the study's are this one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from zerolab.core.code_digests import code_digest
from zerolab.core.errors import UserError
from zerolab.networks import node_facts
from zerolab.play.pairings import Pairing
from zerolab.store.folder import exclusive
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import planned_run
from zerolab.studies.engine import node, travel
from zerolab.studies.engine.node import Job, LostError, perform_on_node, shares_folder
from zerolab.studies.engine.travel import FolderCopy, Keeper
from zerolab.studies.tasks import Entrant, SliceTask, TrainTask

GAME = "gobang:3x3:3"
RUN = planned_run("a", GAME, "smoke", {}, {})


class Source(Keeper):
    """Counts what nodes read, and can be lost."""

    def __init__(self):
        super().__init__()
        self.read_names = []
        self.commits = 0
        self.last_commit = 1000

    def read(self, token, wanted):
        self.read_names += [name for name, _ in wanted]
        return super().read(token, wanted)

    def commit(self, *arguments):
        if self.commits == self.last_commit:
            raise LostError
        self.commits += 1
        super().commit(*arguments)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "_own_folder", lambda name: made(tmp_path / name))
    monkeypatch.setattr(node, "_shares", {})
    monkeypatch.setattr(travel, "_TIMES_SENDING", 0.0)
    return Source()


def made(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def train(source, folder, code=None):
    source.lend("token", str(folder), is_for_training=True)
    task = TrainTask("a run", RUN.key, str(folder), RUN.settings.model_dump(mode="json"))
    job = Job(task, code or code_digest(), "no probe", {str(folder): "token"})
    try:
        return perform_on_node(job, source)
    finally:
        source.revoke(["token"])


def contents(folder):
    """All files but those with wall times."""
    timed = "metrics.jsonl", "tensorboard", "state.json"  # which has the length of the metrics
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in timed
        and not path.name.startswith(".")
    }  # fmt: skip


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / RUN.key
    TrainTask("a run", RUN.key, str(folder), RUN.settings.model_dump(mode="json")).run()
    return folder


def test_a_run_that_is_lost_goes_on_from_what_came_back(tmp_path, source, local):
    folder = tmp_path / RUN.key
    source.last_commit = 3
    assert train(source, folder) is None
    before = RunFolder.open(folder).metrics()
    assert len(before) == 3
    source.last_commit = 1000
    assert train(source, folder).failure is None
    assert RunFolder.open(folder).metrics()[:3] == before
    assert contents(folder) == contents(local)
    assert RunFolder.open(folder)._files.metrics_digest == (
        RunFolder.open(local)._files.metrics_digest
    )


def test_every_iteration_comes_back(tmp_path, source, monkeypatch):
    monkeypatch.setattr(travel, "_TIMES_SENDING", 1e9)
    folder = tmp_path / RUN.key
    source.last_commit = 2  # the first stage, then an iteration
    assert train(source, folder) is None
    assert RunFolder.open(folder).progress.iteration == 2


def slice_job(source, run):
    """Return the job of a slice between two networks of a run, which is lent."""
    source.lend("token", str(run), is_for_training=False)
    games = [Pairing(number, "a", "b", 0) for number in range(2)]
    entrants = [Entrant("a", str(run)), Entrant("b", str(run), after=0)]
    task = SliceTask("a slice", "t", GAME, entrants, games, 0, 0)
    return Job(task, code_digest(), "no probe", {str(run): "token"})


def test_players_travel_once(tmp_path, source, local):
    job = slice_job(source, local)
    first = perform_on_node(job, source)
    assert first.failure is None
    assert first.result == job.task.run()
    assert first.task is job.task
    networks = {name for name in source.read_names if name.startswith("checkpoints")}
    assert "checkpoints/0000.safetensors" in networks
    source.read_names.clear()
    assert perform_on_node(job, source).result == first.result
    assert networks.isdisjoint(source.read_names)

    for path in (tmp_path / "zerolab-players").rglob("*.safetensors"):  # by whomever
        path.write_bytes(b"")
    assert perform_on_node(job, source).result == first.result
    assert networks <= set(source.read_names)


def test_players_that_another_process_has_put_there_first_stay(
    tmp_path, source, local, monkeypatch
):
    class Slower(FolderCopy):
        """Looks for the first time before the other process is done."""

        looked = False

        def is_at(self, folder):
            before, self.looked = self.looked, True
            return before and super().is_at(folder)

    def players():
        return {path: path.stat().st_ino for path in (tmp_path / "zerolab-players").iterdir()}

    job = slice_job(source, local)
    first = perform_on_node(job, source)
    theirs = players()
    monkeypatch.setattr(node, "FolderCopy", Slower)
    assert perform_on_node(job, source).result == first.result
    assert players() == theirs


def test_players_that_were_used_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "_CACHE_FOLDERS", 2)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    node.os.utime(tmp_path / "0", (2e9, 2e9))
    node.os.utime(tmp_path / "2", (2e9, 2e9))
    node._trim(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2"]


def test_a_process_that_shares_a_core_takes_the_first_that_becomes_free(
    tmp_path, source, monkeypatch
):
    allowed = {4, 5}

    def pin(process, cores):
        allowed.clear()
        allowed.update(cores)

    monkeypatch.setattr(node, "_held", [])
    monkeypatch.setattr(node, "_cores", [])
    monkeypatch.setattr(node.os, "sched_getaffinity", lambda process: set(allowed))
    monkeypatch.setattr(node.os, "sched_setaffinity", pin)
    monkeypatch.setattr(node.os, "getpid", lambda: 4)
    folder = made(tmp_path / "zerolab-cores-here")
    others = [FileLock(folder / str(core)) for core in (4, 5)]
    for lock in others:
        lock.acquire()
    node.take_core("here")
    assert allowed == {4}
    others[1].release()
    node.take_core("here")
    assert allowed == {5}
    others[0].release()
    node.take_core("here")
    assert allowed == {5}


def test_the_first_node_that_differs_is_named():
    here = node_facts.node_facts()
    assert set(here.installed) == {"zerolab", "python", "torch", "numpy", "numba", "code"}
    assert here.hardware["precision"] in ("float32", "bfloat16")
    other = here._replace(installed={**here.installed, "torch": "0.1", "numba": "0.1"})
    told = f"node b has torch 0.1 instead of {here.installed['torch']} as on this machine"
    with pytest.raises(UserError, match=re.escape(told)):
        node_facts.require_equal([("a", here), ("b", other), ("c", other)], here)


def test_nodes_need_equal_hardware_but_not_that_of_the_study():
    here = node_facts.node_facts()
    one, other = (here._replace(hardware={"GPU": kind}) for kind in ("A100", "H100"))
    node_facts.require_equal([("a", one), ("b", one)], here)
    with pytest.raises(UserError, match="node c has GPU H100 instead of A100 as the first node"):
        node_facts.require_equal([("a", one), ("b", one), ("c", other)], here)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows numbers no users")
def test_users_need_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(node.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(node.os, "getuid", lambda: 123456)
    assert node._own_folder("cores") == tmp_path / "cores-123456"
    assert (tmp_path / "cores-123456").is_dir()


def test_errors_name_the_folder_of_the_study(tmp_path, source, local):
    folder = tmp_path / RUN.key
    shutil.copytree(local, folder)
    (folder / "examples" / "0002.npz").unlink()
    state = folder / "state.json"
    state.write_text(state.read_text().replace('"finished": true', '"finished": false'))
    outcome = train(source, folder)
    assert str(state) in outcome.failure[0]
    assert "damaged" in outcome.failure[0]


def test_other_code_is_refused(tmp_path, source):
    outcome = train(source, tmp_path / RUN.key, code="other")
    assert "another version of zerolab" in outcome.failure[0]
    assert not (tmp_path / RUN.key).exists()


def test_a_folder_is_shared_where_probe_lock_and_answers_are_seen(tmp_path, source, monkeypatch):
    probe = made(tmp_path / "probe")
    with exclusive(probe):
        assert shares_folder(str(probe), source)
    other = made(tmp_path / "a copy without its lock")
    assert not shares_folder(str(other), source)
    assert not shares_folder(str(tmp_path / "elsewhere"), source)
    unseen = made(tmp_path / "unseen")
    monkeypatch.setattr(source, "sees", lambda path: False)
    with exclusive(unseen):
        assert not shares_folder(str(unseen), source)
    assert sorted(path.name for path in probe.iterdir()) == [".lock"]
