"""Records read from runs, reporters of progress, and TensorBoard events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from zerolab.core.config import settings_error
from zerolab.core.errors import MissingExtraError, UserError, quoted
from zerolab.core.files import atomic_replace, make_folder
from zerolab.store.checks import require_regular_file, user_errors_on_write
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import GateRecord, Record, SupervisedRecord


def read_records(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return [_record(line, str(run.path / "metrics.jsonl")) for line in run.metrics()]


def parse_records(lines: Iterable[Mapping[str, Any]], source: str = "") -> list[Record]:
    """Return records from lines of metrics.jsonl; raise UserError if they are damaged.

    `source` names the origin of the lines in error messages.
    """
    return [_record(line, source) for line in lines]


def best_network_after(records: Iterable[Record], iteration: int) -> int:
    """Return the iteration of the best network after `iteration`; 0 is the untrained network."""
    accepted = (
        record.iteration
        for record in records
        if isinstance(record, SupervisedRecord)
        or (isinstance(record, GateRecord) and record.accepted)
    )
    return max((number for number in accepted if number <= iteration), default=0)


def _record(line: Mapping[str, Any], source: str) -> Record:
    stage = line.get("stage")
    if not isinstance(stage, str) or stage not in Record.class_by_stage:
        stages = ", ".join(Record.class_by_stage)
        raise UserError(f"{source}: unknown stage {quoted(stage)}: expected one of {stages}")
    kind = Record.class_by_stage[stage]
    try:
        return kind.model_validate(dict(line))
    except ValidationError as error:
        raise settings_error(kind, error, source) from None


class Reporter(Protocol):
    """Display of a run's progress; the trainer calls it from its own thread."""

    def message(self, text: str) -> None:
        """Show a line that does not belong to a stage."""
        ...

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        """Report the start of a stage, or of a part of one, with `total` units of work."""
        ...

    def progress(self, done: int, note: str = "") -> None:
        """Report the number of finished units, with an optional note."""
        ...

    def stage_finished(self, record: Record) -> None:
        """Report the record of a finished stage after it is saved."""
        ...


class NullReporter:
    """Reporter that shows nothing."""

    def message(self, text: str) -> None:
        pass

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        pass

    def progress(self, done: int, note: str = "") -> None:
        pass

    def stage_finished(self, record: Record) -> None:
        pass


class RunClock:
    """Clock that estimates a run's remaining time from the iterations since the command began.

    `iterations` is None for a run without a fixed number of iterations.
    """

    def __init__(self, iterations: int | None) -> None:
        self._iterations = iterations
        self._began = time.monotonic()
        self._first: int | None = None
        self._current = 0

    def set_iteration(self, iteration: int) -> None:
        """Set the current iteration."""
        if self._first is None:
            self._first, self._began = iteration, time.monotonic()
        self._current = iteration

    @property
    def iteration_label(self) -> str:
        """Current iteration, with the total if known, such as ``3/60``."""
        total = "" if self._iterations is None else f"/{self._iterations}"
        return f"{self._current}{total}"

    def remaining_seconds(self) -> float | None:
        """Return the estimate, or None in the first iteration."""
        done = self._current - (self._first or 0)
        if self._iterations is None or done < 1 or self._current > self._iterations:
            return None
        elapsed = time.monotonic() - self._began
        return elapsed / (done + 0.5) * (self._iterations - self._current + 0.5)


_EVENT_FILE = "events.out.tfevents.0000000000.zerolab"  # TensorBoard looks for "tfevents"


class TensorBoardFile:
    """The file of a run's TensorBoard events, in the run's folder ``tensorboard``.

    Every number in a record is a scalar named STAGE/NAME; the iteration is the step. The wall time
    of an event is the cumulative training time in seconds.
    """

    def __init__(self, run: RunFolder) -> None:
        self.folder = run.path / "tensorboard"
        self._run = run

    def update(self) -> None:
        """Update the file from the run's metrics; raise UserError if this is not possible.

        New events are appended, so that a running TensorBoard can follow the file. A file that
        contradicts the metrics is replaced.
        """
        path = self.folder / _EVENT_FILE
        make_folder(self.folder)
        content = _encode_events(read_records(self._run))
        existing = b""
        if path.exists():
            require_regular_file(path)
            existing = path.read_bytes()
        if path.exists() and content.startswith(existing):
            with user_errors_on_write(path), open(path, "ab") as file:
                file.write(content[len(existing) :])
        else:
            with atomic_replace(path) as temporary:
                temporary.write_bytes(content)


def has_tensorboard() -> bool:
    """Return whether the package of the extra ``tensorboard`` is installed."""
    return find_spec("tensorboard") is not None


def export_tensorboard(run: RunFolder) -> Path:
    """Update the event file of a run; return the folder of the file."""
    file = TensorBoardFile(run)
    file.update()
    return file.folder


def _encode_events(records: Iterable[Record]) -> bytes:
    """Return the content of an event file; raise MissingExtraError without TensorBoard."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ModuleNotFoundError as error:
        raise MissingExtraError.of(
            "the event file of TensorBoard", "tensorboard", "tensorboard"
        ) from error

    content = BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
    for event in _events(records):
        writer.write(event)
    return content.getvalue()


def _events(records: Iterable[Record]) -> Iterator[bytes]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    elapsed = 0.0
    for record in records:
        elapsed += record.wall_seconds
        scalars = [
            Summary.Value(tag=f"{record.tag}/{name}", simple_value=value)
            for name, value in record.numbers()
        ]
        event = Event(wall_time=elapsed, step=record.iteration, summary=Summary(value=scalars))
        yield event.SerializeToString()
