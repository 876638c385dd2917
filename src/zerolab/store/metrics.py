"""metrics.jsonl: one line for every finished stage, the source of all curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError


def read_metrics(path: Path, length: int | None = None) -> list[dict[str, Any]]:
    """Return the lines within the first `length` bytes, all by default, as dictionaries.

    Raises UserError naming the line where the file is damaged.
    """
    if not path.exists():
        return []
    lines = path.read_bytes()[:length].splitlines()
    metrics = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise UserError(f"{path} is damaged at line {number}; restore it from a backup")
        metrics.append(entry)
    return metrics


def format_metrics(metrics: list[dict[str, Any]]) -> bytes:
    """Return the lines to append."""
    return "".join(json.dumps(entry) + "\n" for entry in metrics).encode()
