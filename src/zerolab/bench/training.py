"""A whole run of `zerolab train connect_four:6x7 --preset mini`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from zerolab.bench.measure import Measurement, timed
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve
from zerolab.training.history import read_records
from zerolab.training.trainer import Trainer


def measure_training(rounds: int) -> Iterator[Measurement]:
    """Measure one run: the share of each stage, and the time beside that of its self-play."""
    settings = resolve("connect_four:6x7", "mini")
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings.model_dump())
        with run.locked():
            total = 1.0 / timed(lambda: _train(Trainer(run, settings)))
        seconds: dict[str, float] = {}
        for record in read_records(run):
            seconds[record.stage] = seconds.get(record.stage, 0.0) + record.wall_seconds
    shares = {stage: spent / total for stage, spent in seconds.items()}
    name, limit_of = "train/connect_four:6x7/mini", "seconds of its self-play alone"
    yield Measurement(name, "seconds", total, seconds["selfplay"], limit_of, shares)


def _train(trainer: Trainer) -> float:
    trainer.train()
    return 1.0
