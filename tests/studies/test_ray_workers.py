"""Studies on Ray: lost nodes, killed studies and incompatible nodes.

Two nodes on this machine work in the study folder.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("ray")

from ray import cluster_utils

from forks import wait_for
from zerolab.core import ray_cluster
from zerolab.core.errors import UserError
from zerolab.core.processes import fork_server_context
from zerolab.core.ray_cluster import ray
from zerolab.store.folder import lock_folder
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.studies import ray_workers
from zerolab.studies.design import Design, PlannedTournament, plan_run
from zerolab.studies.execution import StudyExecution
from zerolab.studies.ray_workers import RayWorkers
from zerolab.studies.study import Study
from zerolab.studies.tasks import LocalWorkers, TrainTask

GAME = "gobang:3x3:3"
ITERATIONS = 6
SECONDS = 300
"""Time limit for every wait: Ray is slow to start and to end."""
_WORKING = b"ray::_perform", b"/raylet/raylet", b"/gcs_server"


class Pair(Study):
    """Two short runs and a tournament."""

    name = "pair"

    def seed_count(self, scale):
        return 2

    def design(self, scale, seeds):
        runs = [
            plan_run("a", GAME, "smoke", {}, {"iterations": ITERATIONS}, seed) for seed in range(2)
        ]
        run_by_player = {run.label: run for run in runs}
        return Design(
            runs, [PlannedTournament("a", GAME, run_by_player, games_per_pair=4, opening_plies=2)]
        )

    def verdicts(self, results):
        return []

    def report(self, results):
        raise NotImplementedError


def execution_in(root):
    return StudyExecution.plan(Pair(), "smoke", root)


def outcome(execution):
    """Return digests of all trained networks, and all games."""
    runs = [RunFolder.open(execution.folder.run_path(run)) for run in execution.design.runs]
    trained = [
        ([run.weights_digest(each) for each in run.network_iterations()], run._files.metrics_digest)
        for run in runs
    ]
    games = [run.games.stage_games(*stage) for run in runs for stage in run.games.stages()]
    tournament = execution.results().tournaments["a"].scores
    return trained, [[game._replace(first="", second="", agent_spans=()) for game in stage]
                     for stage in games], tournament  # fmt: skip


def require_token():
    """Let new clusters require the user's token, as after the first local cluster."""
    with suppress(ImportError, AttributeError):  # older versions of Ray have no tokens
        from ray._private.authentication import authentication_token_setup  # noqa: PLC0415

        authentication_token_setup.enable_token_auth_by_default()
        authentication_token_setup.ensure_token_if_auth_enabled()


@pytest.fixture(scope="module")
def cluster():
    """Cluster of a CPU-less head and two nodes whose loss is detected quickly."""
    require_token()
    config = {"worker_niceness": 0, "health_check_period_ms": 500}
    unused = {"no_monitor": True, "include_dashboard": False, "include_log_monitor": False}
    options = {"num_cpus": 0, "_system_config": config, **unused}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=options)
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def ray_processes():
    """Return the command lines of all Ray processes started by this process, by ID."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(parent)
                names[int(folder.name)] = (folder / "cmdline").read_bytes()
    descendants, has_grown = {os.getpid()}, True
    while has_grown:
        children = {each for each, parent in parents.items() if parent in descendants}
        has_grown, descendants = not children <= descendants, descendants | children
    return {
        each: names[each] for each in descendants if any(name in names[each] for name in _WORKING)
    }  # fmt: skip


def kill_a_node(execution, cluster, before):
    """Kill a node once all runs have made progress; append their metrics to `before`."""
    runs = [execution.folder.run_path(run) for run in execution.design.runs]

    def are_in_progress():
        return all(is_run(run) and RunFolder.open(run).progress.iteration > 2 for run in runs)

    wait_for(are_in_progress, SECONDS)
    before += [RunFolder.open(run).metrics() for run in runs]
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def test_study_that_loses_a_node_ends_like_a_local_one(tmp_path, cluster):
    here, there = execution_in(tmp_path / "here"), execution_in(tmp_path / "there")
    before: list[list[dict]] = []
    killer = threading.Thread(target=kill_a_node, args=[there, cluster, before])
    killer.start()
    assert (
        there.perform_all(RayWorkers(cluster.address, there.folder.root, 2), lambda view: None)
        == {}
    )
    killer.join()
    cluster.add_node(num_cpus=1)
    after = [RunFolder.open(there.folder.run_path(run)).metrics() for run in there.design.runs]
    for first, last in zip(before, after, strict=True):
        assert 6 <= len(first) < len(last)
        assert last[: len(first)] == first  # equal wall times show that nothing was repeated

    assert here.perform_all(LocalWorkers(2), lambda view: None) == {}
    assert outcome(there) == outcome(here)
    assert not list((tmp_path / "there").glob(".probe-*"))
    assert not is_locked_anywhere(there)


def is_locked_anywhere(execution):
    return any(
        RunFolder.open(execution.folder.run_path(run)).is_locked for run in execution.design.runs
    )


def _work(root, address):
    os.environ.pop("RAY_AUTH_MODE", None)  # as in a user's shell; the server may have set it
    execution_in(root).perform_all(RayWorkers(address, root, 1), lambda view: None)


def _new_processes(former, snapshots):
    """Return Ray's working processes that are not among the former ones; append them to a list."""
    snapshots.append({each: name for each, name in ray_processes().items() if each not in former})
    return snapshots[-1]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
@pytest.mark.parametrize("where", ["local", "cluster"])
def test_killed_study_leaves_no_process(tmp_path, where, request):
    address = "local"
    if where == "cluster":
        address = request.getfixturevalue("cluster").address
    former = ray_processes().keys()
    server = fork_server_context(ray_workers.__name__)
    process = server.Process(target=_work, args=(tmp_path, address))
    process.start()
    run = execution_in(tmp_path).folder.run_path(execution_in(tmp_path).design.runs[0])
    try:
        wait_for(lambda: not process.is_alive() or has_begun(run), SECONDS)
        assert process.is_alive()
        expected = 3 if where == "local" else 1
        snapshots = []  # between two tasks, a worker has another name
        wait_for(lambda: len(_new_processes(former, snapshots)) == expected, SECONDS)
        at_work = snapshots[-1]
        assert RunFolder.open(run).is_locked
    finally:
        process.kill()
        process.join()
    # Two idle Ray agents end a minute later, and a cluster keeps idle workers for later use.
    wait_for(lambda: not any(map(is_alive, at_work.items())), SECONDS)
    wait_for(lambda: not RunFolder.open(run).is_locked, SECONDS)
    RunFolder.open(run).metrics()


def has_begun(run):
    return is_run(run) and RunFolder.open(run).progress.iteration > 1


def is_alive(process):
    number, name = process
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes() == name  # empty for zombies
    except OSError:
        return False


def test_nodes_with_another_version_are_named(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "package_digest", lambda: "0123456789")
    expected = r"node [\d.]+ differs from this machine \(code \S+ instead of 01234567\)"
    with pytest.raises(UserError, match=expected), RayWorkers(cluster.address, tmp_path):
        pass


def test_nodes_that_do_not_share_the_folder_are_named(tmp_path, cluster, monkeypatch):
    class Elsewhere:
        def __enter__(self):
            return str(tmp_path / "elsewhere")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(ray_workers, "_locked_probe", lambda folder: Elsewhere())
    expected = rf"node [\d.]+ does not share {tmp_path}"
    with pytest.raises(UserError, match=expected), RayWorkers(cluster.address, tmp_path):
        pass


def test_cluster_with_too_few_cpus_is_refused(tmp_path, cluster):
    with pytest.raises(UserError, match=r"workers = 99: the Ray cluster at .* has .*2 CPUs"):
        RayWorkers(cluster.address, tmp_path, 99)


def test_folder_is_shared_if_the_lock_of_its_probe_is_visible(tmp_path):
    former = tmp_path / ".probe-of-a-killed-study"
    former.mkdir()
    with ray_workers._locked_probe(tmp_path) as probe:
        assert [str(each) for each in tmp_path.iterdir()] == [probe]
        assert ray_workers._shares(probe)
    assert not list(tmp_path.iterdir())
    copy = tmp_path / "a copy without its lock"
    copy.mkdir()
    assert not ray_workers._shares(str(copy))
    assert not ray_workers._shares(str(tmp_path / "nothing"))


def test_incompatible_nodes_refuse_tasks(tmp_path):
    run = plan_run("a", GAME, "smoke", {}, {})
    task = TrainTask("a run", run.key, str(tmp_path / run.key), run.settings)
    probe = tmp_path / "probe"
    probe.mkdir()
    with lock_folder(probe):
        other = ray_workers._Job(task, "other code", str(probe), is_repeated=False)
        assert "version of zerolab" in ray_workers._perform_job(other).error_lines[0]
    job = other._replace(code=ray_cluster.package_digest(), probe=str(tmp_path / "nothing"))
    assert f"does not share {tmp_path}" in ray_workers._perform_job(job).error_lines[0]
    assert not (tmp_path / run.key).exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no numeric user IDs")
def test_core_locks_need_no_user_name(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(ray_cluster.os, "getuid", lambda: 123456)
    assert ray_cluster._core_locks() == tmp_path / "zerolab-cores-123456"
    assert (tmp_path / "zerolab-cores-123456").is_dir()
