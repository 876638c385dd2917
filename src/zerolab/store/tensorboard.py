"""TensorBoard's event file, derived from metrics.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from zerolab.core.files import make_folder, replacing
from zerolab.store.run_folder import RunFolder

_NAME = "events.out.tfevents.0000000000.zerolab"  # TensorBoard looks for "tfevents"


def export_events(run: RunFolder) -> Path:
    """Write every number of a run's metrics as a scalar, anew; return the folder.

    Scalars are named STAGE/NAME and their step is the iteration. The wall time of an event is the
    training time up to it, in seconds. While a run goes on, its file only grows, so that a
    TensorBoard that watches it keeps its place. Raises UserError where it cannot be written.
    """
    content = BytesIO()
    records = RecordWriter(content)
    records.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
    for event in _events(run.metrics()):
        records.write(event.SerializeToString())
    folder = run.path / "tensorboard"
    make_folder(folder)
    with replacing(folder / _NAME) as temporary:
        temporary.write_bytes(content.getvalue())
    return folder


def _events(metrics: list[dict[str, Any]]) -> Iterator[Event]:
    elapsed = 0.0
    for line in metrics:
        elapsed += line["wall_seconds"]
        scalars = [
            Summary.Value(tag=f"{_stage(line)}/{name}", simple_value=float(value))
            for name, value in line.items()
            if isinstance(value, int | float) and name != "iteration"
        ]
        yield Event(wall_time=elapsed, step=line["iteration"], summary=Summary(value=scalars))


def _stage(line: Mapping[str, Any]) -> str:
    return f"{line['stage']}/{line['opponent']}" if "opponent" in line else str(line["stage"])
