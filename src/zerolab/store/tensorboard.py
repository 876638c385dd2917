"""TensorBoard's event files, derived from metrics.jsonl."""

from __future__ import annotations

import shutil
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from zerolab.store.run_folder import RunFolder


def export_events(run: RunFolder) -> Path:
    """Write every number of a run's metrics as a scalar, anew; return the folder.

    Scalars are named STAGE/NAME and their step is the iteration. The wall time of an event is the
    training time up to it, in seconds.
    """
    folder = run.path / "tensorboard"
    shutil.rmtree(folder, ignore_errors=True)
    writer = EventFileWriter(str(folder))
    elapsed = 0.0
    for line in run.metrics():
        elapsed += line["wall_seconds"]
        stage = f"{line['stage']}/{line['opponent']}" if "opponent" in line else line["stage"]
        scalars = [
            Summary.Value(tag=f"{stage}/{name}", simple_value=float(value))
            for name, value in line.items()
            if isinstance(value, int | float) and name != "iteration"
        ]
        writer.add_event(
            Event(wall_time=elapsed, step=line["iteration"], summary=Summary(value=scalars))
        )
    writer.close()
    return folder
