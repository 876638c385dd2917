"""What a run has recorded so far, read from its metrics.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from zerolab.core.config import explained
from zerolab.core.errors import UserError, quoted
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import GateRecord, Record, SupervisedRecord


def read_records(run: RunFolder) -> list[Record]:
    """Return the records of a run's finished stages; raise UserError if they are damaged."""
    return [_record(run, line) for line in run.metrics()]


def best_after(records: Iterable[Record], iteration: int) -> int:
    """Return which network was the best one after an iteration; 0 is the untrained one."""
    accepted = (
        record.iteration
        for record in records
        if isinstance(record, SupervisedRecord)
        or (isinstance(record, GateRecord) and record.accepted)
    )
    return max((each for each in accepted if each <= iteration), default=0)


def _record(run: RunFolder, line: dict[str, Any]) -> Record:
    path, stage = run.path / "metrics.jsonl", line.get("stage")
    if not isinstance(stage, str) or stage not in Record.types:
        known = ", ".join(Record.types)
        raise UserError(f"{path}: unknown stage {quoted(stage)}: expected one of {known}")
    kind = Record.types[stage]
    try:
        return kind.model_validate(line)
    except ValidationError as error:
        raise explained(kind, error, str(path)) from None
