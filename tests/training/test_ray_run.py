"""Runs whose games are played by Ray actors: equal bytes, lost actors, resuming and errors."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from evaluation.exhaustive import exhaustive
from forks import wait_for
from promised import contents, differences
from training.test_league_run import LEAGUE
from training.tiny_training import KilledError, Killing, train
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.core.ray_cluster import ray
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.play import ray_actors, ray_executor
from zerolab.play.pairings import Pairing
from zerolab.play.ray_actors import ActorResources, ActorStartFailures, ActorState, Chunk, LostChunk
from zerolab.play.ray_executor import RayExecutor
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.reporting import NullReporter

GAME = parse_game("gobang:3x3:3")
ACTORS = 3
EPISODIC = [
    "iterations=2", "selfplay.episodes=6", "selfplay.chunks=4", "final_evaluation.games=4",
    "accuracy.every=1", "selfplay.start=archive",
]  # fmt: skip
CONTINUOUS = [
    "iterations=3", "selfplay.parallel_games=6", "selfplay.chunks=3", "selfplay.lag=1",
    'selfplay.mode={name = "continuous", plies = 8}', "gate=always", "final_evaluation.games=0",
    'selfplay.budget={name = "playout_cap", simulations = 5}', "search.simulations=20",
    "selfplay.start=archive",
]  # fmt: skip


@pytest.fixture(scope="module")
def executor():
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with RayExecutor("local", "gobang:3x3:3", ACTORS) as executor:
        yield executor


@pytest.fixture(scope="module")
def episodic(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "solved.parquet"
    solved = collect_in_memory(GAME, 20, DatasetSettings(), exhaustive(GAME))
    write_positions(path, solved.positions, {})
    return resolve_settings(None, "smoke", [*EPISODIC, f"accuracy.positions={path}"])


@pytest.fixture(scope="module")
def continuous():
    return resolve_settings(None, "smoke", CONTINUOUS)


@pytest.fixture(scope="module")
def local(tmp_path_factory, episodic, continuous):
    """Return the contents of both runs, trained without Ray."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"episodic": episodic, "continuous": continuous}
    return {name: contents(train(folder / name, each).path) for name, each in settings.items()}


def use_actors(executor, count):
    """Wait until the executor has `count` actors, after ending surplus ones."""
    executor._count = count
    with executor._lock:
        for actor in executor._actors[count:]:
            executor._lose(actor)
            ray.kill(actor.handle)
    wait_for(lambda: executor.actor_count == count == len(executor._actors), 300)


class _KillsActors(NullReporter):
    """Reporter that kills the next actor to get a chunk, before each kind of task."""

    def __init__(self, executor):
        self._executor = executor
        self.titles = []

    def stage_started(self, iteration, title, total, unit):
        name = title.split()[0]
        if name == "learn" or name in self.titles:
            return
        free: list[ActorState] = []
        wait_for(lambda: free.extend(self._executor._free_actors()) or free)
        (actor, *_) = free
        ray.kill(actor.handle)
        wait_for(lambda: _is_dead(actor))
        self.titles.append(name)


def _is_dead(actor):
    try:
        ray.get(actor.handle.progress.remote())
    except ray.exceptions.RayActorError:
        return True
    return False


def test_games_of_lost_actors_are_repeated(executor, local, episodic, tmp_path):
    use_actors(executor, ACTORS)
    reporter, before = _KillsActors(executor), executor._losses
    run = train(tmp_path / "run", episodic, reporter, executor=executor)
    assert differences(contents(run.path), local["episodic"]) == []
    assert set(reporter.titles) == {"self-play", "gate", "accuracy", "against"}
    assert executor._losses - before == len(reporter.titles)


@pytest.mark.parametrize("begins_on_cluster", [True, False])
def test_lagging_run_can_change_between_cluster_and_threads(
    executor, local, continuous, tmp_path, monkeypatch, begins_on_cluster
):
    assert executor.background_executor is None  # its actors use the cores of the learner
    monkeypatch.setattr(executor, "_cluster", replace(executor._cluster, address="head:6379"))
    assert executor.background_executor is not None
    executors = [executor, None] if begins_on_cluster else [None, executor]
    with pytest.raises(KilledError):
        train(tmp_path / "run", continuous, Killing(2, "learn"), executor=executors[0])
    run = train(tmp_path / "run", continuous, executor=executors[1])
    assert differences(contents(run.path), local["continuous"]) == []


def test_lag_changes_who_plays(local, continuous, tmp_path):
    settings = continuous.model_copy(
        update={"selfplay": continuous.selfplay.model_copy(update={"lag": 0})}
    )
    prompt = contents(train(tmp_path / "run", settings).path)
    assert prompt["examples/0001.npz"] == local["continuous"]["examples/0001.npz"]
    assert prompt["examples/0003.npz"] != local["continuous"]["examples/0003.npz"]


def test_league_is_equal(executor, tmp_path):
    settings = resolve_settings(None, "smoke", [*LEAGUE, "selfplay.chunks=2"])
    runs = [train(tmp_path / str(each), settings, executor=each) for each in (None, executor)]
    assert differences(*(contents(run.path) for run in runs)) == []


class _NoJob:
    def to_portable(self, make_portable):
        return self


def _die(job, batches, report):
    os._exit(1)


def _refuse(job, batches, report):
    raise UserError("a clear message")


def _fail(job, batches, report):
    raise ZeroDivisionError


BATCH = [Pairing(7, "a", "b", 7)]


def test_fatal_chunk_is_an_error(executor, monkeypatch):
    monkeypatch.setattr(ray_actors, "MAX_ATTEMPTS", 2)
    with pytest.raises(UserError, match=r"from number 7 killed 2 actors in a row.*can be resumed"):
        executor.run(_die, _NoJob(), [BATCH])


def test_errors_of_actors_are_passed_on(executor):
    with pytest.raises(UserError, match=r"^a clear message$"):
        executor.run(_refuse, _NoJob(), [BATCH])
    with pytest.raises(UserError, match=r"an actor has failed: .*ZeroDivisionError"):
        executor.run(_fail, _NoJob(), [BATCH])


def test_lost_head_ends_the_jobs(dispatcher, monkeypatch):
    """Calls to a cluster without a head hang, so the dispatching thread cannot notice."""
    hanging = threading.Event()
    dispatcher._actors.clear()
    monkeypatch.setattr(ray_executor, "_SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(ray_executor, "worker_nodes", hanging.wait)
    monkeypatch.setattr(ray_executor.ray, "put", lambda job: job)
    thread = threading.Thread(target=dispatcher._dispatch, daemon=True)
    thread.start()
    try:
        with pytest.raises(UserError, match=r"head has not answered .*; the run can be resumed"):
            dispatcher.run(_refuse, _NoJob(), [BATCH])
        assert thread.is_alive()
    finally:
        dispatcher._closed.set()
        monkeypatch.undo()
        hanging.set()


# Few actors come last, because starting an actor takes seconds and ending one does not.
@pytest.mark.parametrize("count", [ACTORS, 2, 1])
def test_bytes_do_not_depend_on_actors(executor, local, episodic, tmp_path, count):
    use_actors(executor, count)
    run = train(tmp_path / "run", episodic, executor=executor)
    assert differences(contents(run.path), local["episodic"]) == []
    assert executor.actor_count == count


def test_actor_with_other_game_file_is_not_used(executor, monkeypatch):
    use_actors(executor, 1)  # one with the same file
    software = {**executor._expected.software, "game file": "other"}
    monkeypatch.setattr(executor, "_expected", executor._expected._replace(software=software))
    messages = []
    monkeypatch.setattr(executor, "_message", messages.append)
    executor._count = 2
    wait_for(lambda: executor._refused and messages, 300)
    (message,) = [each for each in messages if "is not used" in each]
    assert "game file" in message
    assert "instead of other" in message
    assert executor.actor_count == 1


def test_failed_starts_are_counted_per_scan_and_delay_further_ones():
    failures = ActorStartFailures()
    assert failures.count_once_per_scan(0.0) == ""
    assert failures.resume_time == 0.0
    for _ in range(16):  # all actors of a machine that has vanished
        failures.latest_reason = "lost"
    assert failures.count_once_per_scan(100.0) == "lost"
    assert (failures.failed_scan_count, failures.resume_time) == (1, 104.0)
    assert failures.count_once_per_scan(102.0) == ""
    for count in range(2, 9):
        failures.latest_reason = "lost"
        failures.count_once_per_scan(100.0)
        assert failures.failed_scan_count == count
    assert failures.resume_time == 164.0  # at most 64 seconds
    failures.record_failure(
        ValueError("The actor died, ray::PlayingActor() (pid=7, ip=10.0.0.7)\nno memory")
    )
    assert failures.latest_reason == "node 10.0.0.7: no memory"


@pytest.fixture
def dispatcher():
    """Return an executor without a cluster, with two actors on two nodes and one core each."""
    fake = object.__new__(RayExecutor)
    fake._lock, fake.said = threading.RLock(), []
    fake._message = fake.said.append
    fake._shape, fake._count, fake._losses = ActorResources(1, has_gpu=False), 0, 0
    fake._actors = [ActorState(None, "one"), ActorState(None, "two")]
    fake._refused, fake._lost_chunks, fake._queue, fake._awaited = [], [], [], {}
    fake._chunks, fake._failures, fake._error = {}, ActorStartFailures(), None
    fake._game_name, fake._make_portable = "gobang:3x3:3", None
    fake._numbers, fake._closed = itertools.count(), threading.Event()
    fake._scanned, fake._stepped, fake._began = -math.inf, time.monotonic(), time.monotonic()
    fake._has_background, fake._bytes, fake._waited = False, 0, 0.0
    properties = SimpleNamespace(remote=lambda name: object())
    fake._remote = SimpleNamespace(remote=lambda shape: SimpleNamespace(properties=properties))
    return fake


def nodes(*names):
    return [{"NodeID": name, "Resources": {"CPU": 1.0}} for name in names]


def test_vanished_machines_do_not_count_against_a_chunk(dispatcher):
    chunk = Chunk(0, 1, None, None, BATCH)
    dispatcher._chunks[1] = chunk
    for _ in range(9):
        dispatcher._lost_chunks = [LostChunk(chunk, "gone", "lost")]
        dispatcher._note_nodes(nodes("one", "two"), 0.0)
        assert (chunk.actor_deaths, dispatcher._queue.pop()) == (0, chunk)
    for losses in range(1, 5):
        dispatcher._lost_chunks = [LostChunk(chunk, "one", "lost")]
        dispatcher._note_nodes(nodes("one", "two"), 0.0)
        assert chunk.actor_deaths == losses
        assert dispatcher._queue == [chunk][: losses < 4]
        dispatcher._queue.clear()
    with pytest.raises(UserError, match=r"killed 4 actors in a row \(lost\)"):
        chunk.future.result()


def test_actors_that_cannot_start_are_an_error_only_without_others(dispatcher):
    chunk = Chunk(0, 1, None, None, BATCH)
    dispatcher._chunks[1] = chunk
    for _ in range(5):
        dispatcher._failures.latest_reason = "no memory"
        dispatcher._note_nodes(nodes("one", "two"), 0.0)
    assert dispatcher.said == ["actors cannot start; trying again (no memory)"]
    assert not chunk.future.done()
    dispatcher._actors.clear()
    dispatcher._failures.latest_reason = "no memory"
    dispatcher._note_nodes(nodes("one"), 0.0)
    with pytest.raises(
        UserError, match=r"actors cannot start \(no memory\); the run can be resumed"
    ):
        chunk.future.result()


def test_refused_actors_of_vanished_machines_free_their_place(dispatcher):
    dispatcher._refused = [("three", None)]
    dispatcher._note_nodes(nodes("one", "two", "three"), 0.0)
    assert (len(dispatcher._actors), len(dispatcher._refused)) == (2, 1)
    dispatcher._note_nodes(nodes("one", "two", "four"), 0.0)
    assert (len(dispatcher._actors), dispatcher._refused) == (3, [])


def test_actors_need_cores_and_gpus():
    nodes = [{"Resources": {"CPU": 8.0, "GPU": 2.0}}, {"Resources": {"CPU": 1.0, "GPU": 2.0}}]
    assert ActorResources(1, has_gpu=True).actor_capacity(nodes) == 3
    assert ActorResources(4, has_gpu=True).actor_capacity(nodes) == 2
    assert ActorResources(4, has_gpu=False).actor_capacity(nodes) == 2
    with pytest.raises(UserError, match=r"actors = 5, each with 1 core and a GPU: .* room for 3"):
        ActorResources(1, has_gpu=True).require_capacity("head:6379", 5, nodes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ray", "127.0.0.1:1"], "no Ray cluster responded at 127.0.0.1:1"),
        (["--ray", "nowhere"], "expected local, or the HOST:PORT"),
        (["--actors", "2"], "need --ray"),
        (["--ray", "local", "--actors", "-1"], "expected 0 to"),
        (["--ray", "local", "--set=selfplay.mode.name=service", "--set=selfplay.mode.actors=2"],
         "already distributes"),
    ],
)  # fmt: skip
def test_wrong_options_leave_no_run(tmp_path, capfd, options, message):
    folder = tmp_path / "run"
    assert main(["train", "--preset", "smoke", "--run", str(folder), *options]) == 2
    assert message in capfd.readouterr().err
    assert not folder.exists()


@pytest.mark.skipif(os.name == "nt", reason="uses SIGINT")
def test_interrupted_command_resumes_without_the_cluster(episodic, local, tmp_path, capfd):
    folder, output = tmp_path / "run", tmp_path / "output"
    assignments = [*EPISODIC, f"accuracy.positions={episodic.accuracy.positions}"]
    command = ["train", "--preset", "smoke", *(f"--set={each}" for each in assignments)]
    command += ["--run", str(folder)]
    with open(output, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "zerolab", *command, "--ray", "local", "--actors", "2"],
            stdout=file, stderr=file,
        )  # fmt: skip
    try:
        wait_for(lambda: process.poll() is not None or (folder / "metrics.jsonl").exists(), 300)
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130, output.read_text()
    finally:
        process.kill()
    text = output.read_text()
    assert "joining the Ray cluster on this machine" in text
    assert f"zerolab train --run {folder} --ray local --actors 2" in text
    assert not RunFolder.open(folder).progress.finished
    assert main(["train", "--run", str(folder)]) == 0
    assert differences(contents(folder), local["episodic"]) == []


def test_missing_ray_is_reported(tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "zerolab.core.ray_cluster")
    command = ["train", "--preset", "smoke", "--run", str(tmp_path / "run"), "--ray", "local"]
    assert main(command) == 2
    assert 'the "cluster" extra' in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
