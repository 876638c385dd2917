"""Does memory grow over a run? Peak and current size of a process that trains 100 iterations.

Usage: python benchmarks/memory.py [ITERATIONS]
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.records import Record
from zerolab.training.reporting import NullReporter
from zerolab.training.trainer import Trainer


class MemoryReporter(NullReporter):
    """Notes the size of the process after every iteration, in MiB."""

    def __init__(self) -> None:
        self.sizes: list[float] = []

    def stage_finished(self, record: Record) -> None:
        """See `Reporter.stage_finished`."""
        if record.stage == "gate":
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.sizes.append(pages * resource.getpagesize() / 2**20)


def main() -> None:
    """Train the smoke preset for long and print a JSON object."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    settings = resolve_settings(
        "connect_four:6x7", "smoke", [f"iterations={iterations}", "learn.window=20"]
    )
    reporter = MemoryReporter()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings.model_dump())
        with run.locked():
            Trainer(run, settings, reporter).train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    at = {
        n: round(reporter.sizes[n - 1], 1) for n in (1, 10, 20, 50, iterations) if n <= iterations
    }
    print(json.dumps({"unit": "MiB", "after_iteration": at, "peak": round(peak, 1)}, indent=1))


if __name__ == "__main__":
    main()
