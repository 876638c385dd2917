"""metrics.jsonl: one JSON object per line and per record of a finished stage, the source of curves.

Every line names the version of this format as ``schema``. Fields whose names begin with ``wall_``
were read off a clock; all others are equal in every run with the same settings. What the fields
mean is the trainer's to say: `training.records`, and docs/metrics.md made from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError
from zerolab.store.checks import check_schema, damaged, digest, read_bytes

SCHEMA = 1
WALL_CLOCK = "wall_"

_LARGEST = 1 << 27


def read_metrics(path: Path, length: int | None = None) -> list[dict[str, Any]]:
    """Return the lines within the first `length` bytes, all by default, as dictionaries.

    Raises UserError if the file is shorter than that, of another version, or damaged, naming the
    line.
    """
    content = read_bytes(path, _LARGEST) if path.exists() else b""
    if length is not None and len(content) < length:
        raise damaged(path, f"{len(content)} bytes, expected {length}")
    return [_parse(path, *line) for line in enumerate(content[:length].splitlines(), start=1)]


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise UserError(f"{path} is damaged at line {number}; restore it from a backup")
    check_schema(path, entry.pop("schema", None), SCHEMA)
    return entry


def format_metrics(metrics: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the lines to append."""
    lines = [json.dumps({"schema": SCHEMA, **entry}) + "\n" for entry in metrics]
    return "".join(lines).encode()


def extend_digest(former: str, metrics: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of all lines, wall-clock fields aside, from that of the lines before."""
    for entry in metrics:
        settled = {name: x for name, x in entry.items() if not name.startswith(WALL_CLOCK)}
        former = digest(former.encode(), json.dumps(settled, sort_keys=True).encode())
    return former
