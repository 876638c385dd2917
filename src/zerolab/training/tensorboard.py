"""TensorBoard's event file, derived from metrics.jsonl, which grows while a run does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from zerolab.core.files import make_folder, replacing
from zerolab.store.checks import require_file, writing
from zerolab.store.run_folder import RunFolder
from zerolab.training.history import read_records
from zerolab.training.records import Record

_NAME = "events.out.tfevents.0000000000.zerolab"  # TensorBoard looks for "tfevents"


class EventFile:
    """The events of a run, in its folder tensorboard.

    Every number of a record is a scalar, named STAGE/NAME; its step is the iteration. The wall time
    of an event is the training time up to it, in seconds.
    """

    def __init__(self, run: RunFolder) -> None:
        self.folder = run.path / "tensorboard"
        self._run = run

    def update(self) -> None:
        """Bring the file up to the run's metrics; raise UserError where that is impossible.

        Events are appended, so that a TensorBoard that watches the file keeps its place. A file
        that is not the beginning of what it should be is replaced.
        """
        path = self.folder / _NAME
        make_folder(self.folder)
        content = _encoded(read_records(self._run))
        former = b""
        if path.exists():
            require_file(path)
            former = path.read_bytes()
        if path.exists() and content.startswith(former):
            with writing(path), open(path, "ab") as file:
                file.write(content[len(former) :])
        else:
            with replacing(path) as temporary:
                temporary.write_bytes(content)


def export_events(run: RunFolder) -> Path:
    """Bring the event file of a run up to date; return its folder."""
    events = EventFile(run)
    events.update()
    return events.folder


def _encoded(records: Iterable[Record]) -> bytes:
    """Return the whole file."""
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  (slow to import)
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

    content = BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
    for event in _events(records):
        writer.write(event)
    return content.getvalue()


def _events(records: Iterable[Record]) -> Iterator[bytes]:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415

    elapsed = 0.0
    for record in records:
        elapsed += record.wall_seconds
        scalars = [
            Summary.Value(tag=f"{record.tag}/{name}", simple_value=value)
            for name, value in record.numbers()
        ]
        event = Event(wall_time=elapsed, step=record.iteration, summary=Summary(value=scalars))
        yield event.SerializeToString()
