"""metrics.jsonl: one line for every finished stage, the source of all curves.

A line is a flat JSON object; fields whose names begin with ``wall_`` were read off a clock, all
others are the same in every run with the same settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError
from zerolab.store.checks import damaged, digest, reading

WALL_CLOCK = "wall_"


def read_metrics(path: Path, length: int | None = None) -> list[dict[str, Any]]:
    """Return the lines within the first `length` bytes, all by default, as dictionaries.

    Raises UserError if the file is shorter than that, or names the line where it is damaged.
    """
    content = b""
    if path.exists():
        with reading(path):
            content = path.read_bytes()
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
    return entry


def format_metrics(metrics: Sequence[dict[str, Any]]) -> bytes:
    """Return the lines to append."""
    return "".join(json.dumps(entry) + "\n" for entry in metrics).encode()


def extend_digest(former: str, metrics: Iterable[dict[str, Any]]) -> str:
    """Return the digest of all lines, wall-clock fields aside, from that of the lines before."""
    for entry in metrics:
        settled = {name: x for name, x in entry.items() if not name.startswith(WALL_CLOCK)}
        former = digest(former.encode(), json.dumps(settled, sort_keys=True).encode())
    return former
