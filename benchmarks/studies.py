"""How much of the workers' time goes into the runs of a study, and how much is lost around them.

Usage: python benchmarks/studies.py FOLDER [RUNS] [WORKERS] [local|ray]

Trains RUNS (16) runs of about twenty seconds each with the engine of studies, WORKERS (one per
core) at a time, in the empty FOLDER, and divides the sum of the runs' own times by the wall clock
times the workers. Kernels are compiled before. The last argument says where: in processes, which
is the default, or on a Ray of this machine, whose start is counted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

from zerolab.core.processes import available_cores
from zerolab.papers.scales import CHANGES
from zerolab.report.document import Document
from zerolab.studies.design import Design, planned_run
from zerolab.studies.ray_workers import RayWorkers
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study
from zerolab.studies.work import StudyWork
from zerolab.studies.workers import LocalWorkers, Workers


class Even(Study):
    """Some runs that differ in their seed."""

    name = "even"

    def __init__(self, first: int, runs: int) -> None:
        self._seeds = range(first, first + runs)

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        changes = CHANGES["mini"]
        return Design(
            [planned_run("even", "othello:6x6", "wang2020a", {}, changes, i) for i in self._seeds]
        )

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        raise NotImplementedError


def make_workers(where: str, folder: Path, count: int) -> Workers:
    """Return workers on this machine."""
    if where == "local":
        return LocalWorkers(count)
    return RayWorkers("local", folder, count)


def train(root: Path, first: int, runs: int, workers: Workers) -> tuple[float, float]:
    """Return the wall clock of a study and the sum of its runs' own times, in seconds."""
    study_work = StudyWork.of(Even(first, runs), "mini", root)
    began = perf_counter()
    failures = study_work.work(workers, lambda view: None)
    seconds = perf_counter() - began
    if failures:
        sys.exit(f"runs failed: {failures}")
    return seconds, sum(run.total_seconds for run in study_work.results())


def main(folder: str, runs: str = "16", workers: str = "", where: str = "local") -> None:
    """Measure and print."""
    if where not in ("local", "ray"):
        sys.exit(__doc__)
    count = int(workers) if workers else available_cores()
    train(Path(folder) / "before", 0, 1, LocalWorkers(1))
    wall, own = train(
        Path(folder) / "measured", 1, int(runs), make_workers(where, Path(folder), count)
    )
    print(f"{runs} runs, {count} workers ({where}): {wall:.1f} s, own times {own:.1f} s")
    print(f"own times / (wall clock x workers): {own / (wall * count):.3f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
