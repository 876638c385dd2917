"""Kill a study at random moments and compare its tables with those of an undisturbed one.

Usage: python tools/study_kills.py FOLDER [KILLS] [SEED] [local|ray] [STUDY] [SCALE]

Runs STUDY (default: warm-start) at SCALE (smoke) twice in the empty FOLDER, once undisturbed and
once with KILLS (10) kills of a worker or the study process at random moments. A killed study is
restarted. With ray, the workers are on two local Ray nodes, and a node is killed instead of a
worker. The script fails if any table in the two reports differs. It requires Linux.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from zerolab.report.html import save_document
from zerolab.studies.execution import StudyExecution
from zerolab.studies.ray_workers import RayWorkers
from zerolab.studies.study import Scale, registered_studies
from zerolab.studies.tasks import LocalWorkers

_SPAWN = multiprocessing.get_context("spawn")
_FAILED = 3


class Nodes:
    """Local Ray cluster with two single-CPU nodes and a head node without CPUs."""

    def __init__(self, stack: ExitStack) -> None:
        from ray import cluster_utils  # noqa: PLC0415  Ray is optional

        self._cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        stack.callback(self._cluster.shutdown)
        self.address = self._cluster.address
        for _ in range(2):
            self._cluster.add_node(num_cpus=1)

    def kill_one(self) -> str:
        """Kill a node and add a new one."""
        node = random.choice(sorted(self._cluster.worker_nodes, key=lambda each: each.unique_id))
        self._cluster.remove_node(node, allow_graceful=False)
        self._cluster.add_node(num_cpus=1)
        return "a node"


def planned(name: str, scale: Scale, root: Path) -> StudyExecution:
    """Return the execution of a study in the studies folder `root`."""
    return StudyExecution.plan(registered_studies()[name], scale, root)


def work(name: str, scale: Scale, root: Path, address: str | None) -> None:
    """Do the remaining work, in the process that may be killed."""
    workers = LocalWorkers(2) if address is None else RayWorkers(address, root, 2)
    if failures := planned(name, scale, root).perform_all(workers, lambda view: None):
        print(f"failed: {failures}", flush=True)
        sys.exit(_FAILED)


def kill_worker(study: int) -> str:
    """Kill one of a study's worker processes, if there are any.

    They are children of its fork server.
    """
    servers = [each for each in children_of(study) if b"forkserver" in command_of(each)]
    workers = [worker for server in servers for worker in children_of(server)]
    if not workers:
        return ""
    os.kill(random.choice(workers), signal.SIGKILL)
    return "a worker"


def children_of(process: int) -> list[int]:
    """Return the children of all threads of a process; none if it has ended."""
    with suppress(OSError):
        tasks = Path(f"/proc/{process}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    return []


def command_of(process: int) -> bytes:
    """Return the command line of a process, or b"" if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def disturb(process: Any, kills: int, seconds: float, nodes: Nodes | None) -> list[str]:
    """Kill processes until the study ends, is killed itself, or no kills are left."""
    killed: list[str] = []
    while len(killed) < kills:
        process.join(random.uniform(0.0, seconds))
        if not process.is_alive():
            break
        if random.random() < 0.5:
            process.kill()
            killed.append("the study")
            break
        victim = nodes.kill_one() if nodes else kill_worker(process.pid)
        killed += [victim] if victim else []
    return killed


def main(
    folder: str, kills: str = "10", seed: str = "0", where: str = "local",
    name: str = "warm-start", scale: Scale = "smoke",
) -> None:  # fmt: skip
    """Run the study undisturbed and with kills, and compare the tables."""
    random.seed(int(seed))
    undisturbed, killed = (Path(folder) / each for each in ("undisturbed", "killed"))
    with ExitStack() as stack:
        nodes = Nodes(stack) if where == "ray" else None
        begin = time.monotonic()
        work(name, scale, undisturbed, None)
        seconds = time.monotonic() - begin
        remaining, starts = int(kills), 0
        while True:
            address = nodes.address if nodes else None
            process = _SPAWN.Process(target=work, args=(name, scale, killed, address))
            process.start()
            starts += 1
            victims = disturb(process, remaining, seconds, nodes)
            remaining -= len(victims)
            process.join()
            view = planned(name, scale, killed).progress()
            print(f"killed: {victims or 'none'}; {view.finished_runs} of {view.planned_runs} runs,"
                  f" {view.finished_games} of {view.planned_games} games", flush=True)  # fmt: skip
            if process.exitcode == 0:
                break
    compare(name, scale, undisturbed, killed)
    kill_count = int(kills) - remaining
    print(f"{kill_count} kills, {starts} starts, undisturbed {seconds:.0f} s: same tables")


def compare(name: str, scale: Scale, undisturbed: Path, killed: Path) -> None:
    """Exit with an error if any table differs."""
    tables = []
    for root in (undisturbed, killed):
        save_document(planned(name, scale, root).report(), root / "report")
        tables.append({path.name: path.read_text() for path in (root / "report").glob("*.csv")})
    one, other = tables
    different = [each for each in one.keys() | other.keys() if one.get(each) != other.get(each)]
    if different or not one:
        sys.exit(f"different tables: {', '.join(sorted(different)) or 'no tables were written'}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])  # type: ignore[arg-type]
