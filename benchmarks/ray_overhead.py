"""What Ray costs: its start, a task, a run whose folder travels, a slice of a tournament.

    python benchmarks/ray_overhead.py

Prints medians as JSON. Files travel although all is on one machine: the folder is hidden from the
tasks. So bytes go through Ray's object store and onto the disk, not through a network.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerolab.core.ray_cluster import ray
from zerolab.studies.design import planned_run
from zerolab.studies.engine.node import LostError
from zerolab.studies.engine.travel import FolderCopy
from zerolab.studies.ray_workers import RayWorkers, _Connection
from zerolab.studies.tasks import Entrant, OnCommit, SliceTask, Task, TrainTask

_TASKS = 100
_COMMITS = 20
_SLICES = 20
_SECONDS_TO_START = 10.0
_BYTES = 1 << 17, 1 << 20, 1 << 23
"""Bytes that a commit carries."""


class Empty:
    """Does nothing."""

    title = "nothing"

    def run(self, on_commit: OnCommit) -> float:
        """See `Task.run`."""
        return time.process_time()


def main() -> None:
    """Measure and print."""
    found: dict[str, Any] = {}
    begin = time.perf_counter()
    workers = RayWorkers("local", 2)
    RayWorkers._probe = lambda *_: "/nowhere"  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as temporary, workers:
        found["start_seconds"] = elapsed(begin)
        begin = time.perf_counter()
        do(workers, Empty())
        found["first_task_seconds"] = elapsed(begin)
        found["task_seconds"] = median(lambda: do(workers, Empty()), _TASKS)
        for runs in (1, 2):
            ray.get([ray.remote(wait).remote() for _ in range(runs)])  # as many processes are up
            found[f"commits_of_{runs}"] = {
                size: commits(workers, Path(temporary) / str(size), size, runs) for size in _BYTES
            }
        run = Path(temporary) / "run"
        settings = planned_run("a", "gobang:3x3:3", "smoke", {}, {}).settings
        task = TrainTask("run", "key", str(run), settings.model_dump(mode="json"))
        do(workers, task)
        players = [Entrant("a", str(run)), Entrant("random")]
        played = SliceTask("slice", "t", "gobang:3x3:3", players, [], 0, 0)
        begin = time.perf_counter()
        do(workers, played)
        found["first_slice_seconds"] = elapsed(begin)
        found["slice_seconds"] = median(lambda: do(workers, played), _SLICES)
        begin = time.perf_counter()
    found["stop_seconds"] = elapsed(begin)
    found["load"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1))


def elapsed(begin: float) -> float:
    """Return the seconds since then."""
    return round(time.perf_counter() - begin, 4)


def median(work: Callable[[], object], times: int) -> float:
    """Return the median of the seconds that something takes."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(elapsed(begin))
    return statistics.median(seconds)


def do(workers: RayWorkers, task: Task) -> Any:
    """Have one task done."""
    workers.submit(task)
    while True:
        for outcome in workers.finished(1.0):
            if outcome.failure:
                raise LostError("\n".join(outcome.failure))
            return outcome.result


def wait() -> str:
    """Keep a process busy until others have had to start; load what `committing` needs."""
    time.sleep(_SECONDS_TO_START)
    return FolderCopy.__name__ + _Connection.__name__


def committing(keeper: Any, token: str, size: int) -> list[tuple[float, float]]:
    """Send random bytes, a growing file and a state, again and again; return when each was sent."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, times = Path(temporary), []
        copy = FolderCopy(_Connection(keeper), token, folder)
        copy.begin()
        (folder / "config.toml").write_text("")
        for number in range(_COMMITS):
            (folder / "weights").write_bytes(os.urandom(size))
            with open(folder / "metrics.jsonl", "a") as file:
                file.write("x" * 500)
            (folder / "state.json").write_text(str(number))
            begin = time.monotonic()
            copy.send()
            times.append((begin, time.monotonic()))
        return times


def commits(workers: RayWorkers, folder: Path, size: int, runs: int) -> dict[str, float]:
    """Let some runs send at once; return the seconds of a commit, and commits per second."""
    sent = []
    for number in range(runs):
        token = f"{folder.name}-{runs}-{number}"
        ray.get(workers._keeper.lend.remote(token, str(folder / token), True))
        sent.append(ray.remote(committing).remote(workers._keeper, token, size))
    times = [each for done in ray.get(sent) for each in done]
    lasted = max(end for _, end in times) - min(begin for begin, _ in times)
    return {
        "seconds": round(statistics.median(end - begin for begin, end in times), 4),
        "per_second": round(len(times) / lasted, 2),
    }


if __name__ == "__main__":
    main()
