"""Reproducible contents of folders, as listed in the table of docs/files.md.

Tests and the campaigns in tools compare folders of interrupted and uninterrupted work.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

_FROM_CLOCKS = {"hours", "datetime_start", "datetime_complete", "worker_id", "digest"}
_HOURS = re.compile(rb"[0-9.e+-]+ hours of training")  # the last line of a report

_EXCLUDED = "failures.json", "ledger.parquet"  # the ledger contains times
_REMOVING = "tournament.toml", "league.toml", "study.toml"


def contents(folder: Path) -> dict[str, object]:
    """Return the reproducible contents of a folder: {relative file name: content}."""
    promised: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith(".") for part in parts) and not _is_killed_part(path)
        is_excluded = path.parent.name == "tensorboard" or path.name in _EXCLUDED
        if path.is_file() and not is_hidden and not is_excluded:
            promised["/".join(parts)] = _content(path)
    return promised


def _is_killed_part(path: Path) -> bool:
    """Return True for the partial file of a killed writer that is removed on resuming."""
    in_run = any((parent / "config.toml").is_file() for parent in path.parents)
    return path.suffix == ".part" and (
        in_run or any(path.with_name(each).is_file() for each in _REMOVING)
    )


def differences(actual: dict[str, object], expected: dict[str, object]) -> list[str]:
    """Return the names of extra, missing and different files."""
    extra = [f"{name} (extra)" for name in actual.keys() - expected.keys()]
    missing = [f"{name} (missing)" for name in expected.keys() - actual.keys()]
    common = actual.keys() & expected.keys()
    return sorted(
        [
            *extra,
            *missing,
            *(f"{name} (differs)" for name in common if actual[name] != expected[name]),
        ]
    )


def _content(path: Path) -> object:
    if path.parent.name == "report":
        return _HOURS.sub(b"hours of training", path.read_bytes())
    return _READERS.get(path.name, Path.read_bytes)(path)


def _rows(path: Path) -> list[list[tuple[Any, ...]]]:
    """Return all rows, ignoring the order in which a tournament's blocks finished."""
    order = "" if (path.parent / "tournament.toml").exists() else "sequence, "
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
            for columns, table in (("*", "games"), (f"{order}iteration, stage, digest", "stages"))
        ]


def _metrics(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("wall_")} for line in lines]


def _state(path: Path) -> Any:
    state = json.loads(path.read_text())
    length = state["files"].pop("metrics_bytes")  # times are printed with varying numbers of digits
    assert length == path.with_name("metrics.jsonl").stat().st_size
    return state


def _events(path: Path) -> list[dict[str, Any]]:
    return [_without_clocks(json.loads(line)) for line in path.read_text().splitlines()]


def _ratings(path: Path) -> dict[str, Any]:
    return {**json.loads(path.read_text()), "folder": ""}


def _without_clocks(entry: dict[str, Any]) -> dict[str, Any]:
    attributes = {k: v for k, v in entry.get("user_attr", {}).items() if k not in _FROM_CLOCKS}
    entries = {k: v for k, v in entry.items() if k not in _FROM_CLOCKS}
    return {**entries, "user_attr": attributes} if "user_attr" in entry else entries


def _without_hours(path: Path) -> list[list[str]]:
    rows = [line.split("|") for line in path.read_text().splitlines()]
    (column,) = {row.index(" hours ") for row in rows if " hours " in row}
    return [row[:column] + row[column + 1 :] for row in rows]


_READERS: dict[str, Callable[[Path], object]] = {
    "games.sqlite": _rows,
    "metrics.jsonl": _metrics,
    "state.json": _state,
    "journal.jsonl": _events,
    "tuning.md": _without_hours,
    "ratings.json": _ratings,
}
"""Readers of files whose bytes may differ."""
