"""Kill parts of a run on a Ray cluster at random moments; compare it with an undisturbed run.

Usage: python tools/ray_kills.py FOLDER [KILLS] [SEED]

The cluster has two nodes of one core on this machine. The script kills an actor, a node, the head
of the cluster or the learner, KILLS (50) times in all. It replaces lost nodes and clusters, and
resumes a learner that was killed or lost its cluster, sometimes without a cluster. It trains runs
in FOLDER until all kills are done, and fails if the promised contents of a run differ from those
of an undisturbed run. It requires Linux.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # contains the module `promised`

from promised import contents, differences

_SETTINGS = [
    "iterations=12", "selfplay.episodes=12", "selfplay.chunks=6", "search.simulations=40",
    "gate.games=8", "final_evaluation.games=4", "selfplay.lag=1",
]  # fmt: skip
_PAUSE = 5.0
"""Longest time between two kills in seconds."""
_ACTOR = "ray::PlayingActor"
_LOST_CLUSTER = "the Ray cluster was lost"
"""Part of the error of a run whose cluster has lost its head."""
_MAX_LOST_RUNS = 5
"""Maximum number of times that all attempts to play the same games are killed."""
_FATAL_CHUNK = "actors in a row"
"""Part of the error of a run that lost several actors with the same games."""


class Nodes:
    """Local Ray cluster with two single-CPU nodes and a head node without CPUs."""

    def __init__(self) -> None:
        os.environ["RAY_raylet_start_wait_time_s"] = "300"  # noqa: SIM112  Ray's spelling
        self.start()

    def start(self) -> None:
        """Start the head and two nodes; the address changes."""
        from ray import cluster_utils  # noqa: PLC0415  Ray is optional

        self._cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.address = self._cluster.address
        for _ in range(2):
            self._cluster.add_node(num_cpus=1)

    def kill_head(self) -> None:
        """Kill the process that coordinates the cluster, which ends the cluster."""
        self._cluster.head_node.kill_gcs_server()

    def kill_one(self) -> None:
        """Kill a node and add a new one."""
        node = random.choice(sorted(self._cluster.worker_nodes, key=lambda each: each.unique_id))
        self._cluster.remove_node(node, allow_graceful=False)
        self._cluster.add_node(num_cpus=1)

    def actors(self) -> list[psutil.Process]:
        """Return the processes of this cluster's actors."""
        found = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it may have ended
                if (process.cmdline() or [""])[0].startswith(_ACTOR):
                    found.append(process)
        return found

    def shut_down(self) -> None:
        self._cluster.shutdown()


def command(folder: Path, address: str | None) -> list[str]:
    """Return the command that trains or resumes a run."""
    options = [f"--set={each}" for each in _SETTINGS] + (["--ray", address] if address else [])
    train = [sys.executable, "-m", "zerolab", "train", "--preset", "smoke", "--run", str(folder)]
    return train + options


def kill(nodes: Nodes, learner: subprocess.Popen[bytes], log: Path) -> str:
    """Kill a part of the cluster or the learner; return its kind, or "" if none is at work."""
    actors, lines = nodes.actors(), log.read_text().splitlines()
    if not actors or "waiting for actors" in lines[-1] or "joining" in lines[-1]:
        return ""
    kind = random.choices(["actor", "node", "head", "learner"], [0.75, 0.1, 0.05, 0.1])[0]
    if kind == "learner":
        learner.kill()
    elif kind == "head":
        nodes.kill_head()
        learner.wait()
    elif kind == "node":
        nodes.kill_one()
    else:
        with suppress(psutil.Error):
            random.choice(actors).kill()
    return kind


def disturbed_run(folder: Path, nodes: Nodes, kills: int) -> Counter[str]:
    """Train a run while parts of it are killed; return the kills by kind."""
    killed: Counter[str] = Counter()
    while killed["gave up"] <= _MAX_LOST_RUNS:
        before = killed["learner"]
        address = nodes.address if killed["learner"] % 3 != 2 or kills == 0 else None
        path = folder.with_suffix(".log")
        with open(path, "ab") as log:
            learner = subprocess.Popen(command(folder, address), stdout=log, stderr=log)
        while learner.poll() is None:
            time.sleep(random.uniform(0.0, _PAUSE))
            is_running = killed.total() - killed["gave up"] < kills and learner.poll() is None
            if is_running and (kind := kill(nodes, learner, path)):
                killed[kind] += 1
        if learner.returncode == 0:
            return killed
        last_line = path.read_text().splitlines()[-1]
        if _FATAL_CHUNK in last_line:  # the same games were hit each time
            killed["gave up"] += 1
        elif _LOST_CLUSTER in last_line and learner.returncode == 2:
            nodes.shut_down()
            nodes.start()
        elif learner.returncode != -signal.SIGKILL or killed["learner"] == before:
            sys.exit(f"the learner failed with code {learner.returncode}: see {path}")
    sys.exit(f"the run gave up {_MAX_LOST_RUNS + 1} times: see {path}")


def main(folder: str, kills: str = "50", seed: str = "0") -> None:
    """Train an undisturbed run, and disturbed ones until all kills are done."""
    random.seed(int(seed))
    root, total, runs = Path(folder), Counter[str](), 0
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(command(root / "undisturbed", None), check=True, stdout=subprocess.DEVNULL)
    expected = contents(root / "undisturbed")
    nodes = Nodes()
    try:
        while (left := int(kills) - total.total() + total["gave up"]) > 0:
            runs += 1
            begin = time.monotonic()
            total += disturbed_run(root / f"run-{runs}", nodes, left)
            different = differences(contents(root / f"run-{runs}"), expected)
            print(f"run {runs}: {time.monotonic() - begin:.0f} s, kills so far {dict(total)}",
                  flush=True)  # fmt: skip
            if different:
                sys.exit(f"run {runs} differs: {', '.join(different)}")
    finally:
        nodes.shut_down()
    print(f"{kills} kills in {runs} runs: {dict(total)}; all contents are equal")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
