"""What a folder holds, whatever the clock said: what is equal after kills and without."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

_CLOCK = re.compile(r"wall|hours|seconds|datetime|worker_id|digest|metrics_bytes|environment")
"""Fields that tell times or who did the work, or are made from such fields."""
_LEFT_OUT = (".lock", ".png", ".svg", ".md", ".html", ".zerolab")
"""Locks; pictures and pages, which are drawn from the rest; TensorBoard's copy of the metrics."""
_EVENTS = "journal.jsonl"  # of a tuning: what is noted twice has happened once
_ONE_FILE = {"environment.json", "report.json", "provenance.json"}


def contents(folder: Path) -> dict[str, Any]:
    """Return the content of each file by its name."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(_LEFT_OUT) and path.name not in _ONE_FILE
    }


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the names of files that are extra, missing or different."""
    extra = [f"{name} (extra)" for name in found.keys() - expected.keys()]
    missing = [f"{name} (missing)" for name in expected.keys() - found.keys()]
    both = found.keys() & expected.keys()
    return sorted(
        [*extra, *missing, *(f"{name} (differs)" for name in both if found[name] != expected[name])]
    )


def _content(path: Path) -> Any:
    return _READERS.get(path.suffix, _digest)(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _rows(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))
            for (name,) in tables.fetchall()
        }


def _lines(path: Path) -> list[Any]:
    lines = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name != _EVENTS:
        return lines
    return list(dict.fromkeys(json.dumps(line) for line in lines))


def _parquet(path: Path) -> str:
    from pyarrow import parquet  # noqa: PLC0415  takes long

    return str(parquet.read_table(path).to_pydict())


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if not _CLOCK.search(k)}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


_READERS: dict[str, Callable[[Path], Any]] = {
    ".sqlite": _rows,
    ".jsonl": _lines,
    ".json": lambda path: _timeless(json.loads(path.read_text())),
    ".toml": lambda path: tomllib.loads(path.read_text()),
    ".parquet": _parquet,
}
