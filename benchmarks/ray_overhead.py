"""Overhead of Ray: its start, a task, a slice of a tournament.

    python benchmarks/ray_overhead.py

Prints medians as JSON.
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

from zerolab.studies.design import planned_run
from zerolab.studies.ray_workers import RayWorkers
from zerolab.studies.tasks import Entrant, SliceTask, Task, TrainTask

_TASKS = 100
_SLICES = 20


class Empty:
    """Do nothing."""

    title = "nothing"

    def run(self) -> None:
        pass


def main() -> None:
    """Measure and print."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begin = time.perf_counter()
        with RayWorkers("local", folder, 2) as workers:
            found["start_seconds"] = elapsed(begin)
            begin = time.perf_counter()
            perform(workers, Empty())
            found["first_task_seconds"] = elapsed(begin)
            found["task_seconds"] = median(lambda: perform(workers, Empty()), _TASKS)
            run = folder / "run"
            settings = planned_run("a", "gobang:3x3:3", "smoke", {}, {}).settings
            perform(workers, TrainTask("run", "key", str(run), settings))
            entrants = [Entrant("a", str(run)), Entrant("random")]
            played = SliceTask("slice", "t", "gobang:3x3:3", entrants, [], 0, 0)
            found["slice_seconds"] = median(lambda: perform(workers, played), _SLICES)
            begin = time.perf_counter()
        found["stop_seconds"] = elapsed(begin)
    found["load"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1))


def elapsed(begin: float) -> float:
    """Return the seconds since `begin`."""
    return round(time.perf_counter() - begin, 4)


def median(work: Callable[[], object], times: int) -> float:
    """Return the median duration of some work, in seconds."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(elapsed(begin))
    return statistics.median(seconds)


def perform(workers: RayWorkers, task: Task) -> Any:
    """Perform one task and return its result."""
    workers.submit(task)
    while True:
        for outcome in workers.finished(1.0):
            if outcome.failure:
                raise RuntimeError("\n".join(outcome.failure))
            return outcome.result


if __name__ == "__main__":
    main()
