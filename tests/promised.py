"""What of a folder is the same after kills as without them: the table of docs/files.md, in code."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

_FROM_CLOCKS = {"hours", "datetime_start", "datetime_complete", "worker_id", "digest"}


def contents(folder: Path) -> dict[str, object]:
    """Return everything in a folder that is promised to be the same, by the names of its files."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith(".") for part in parts) and path.suffix != ".part"
        is_left_out = path.parent.name == "tensorboard" or path.name == "failures.json"
        if path.is_file() and not is_hidden and not is_left_out:
            found["/".join(parts)] = _promised(path)
    return found


def _promised(path: Path) -> object:
    if path.name == "games.sqlite":
        return _rows(path)
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [{k: v for k, v in line.items() if not k.startswith("wall_")} for line in lines]
    if path.name == "state.json":
        state = json.loads(path.read_text())
        length = state["files"].pop("metrics_bytes")  # clocks are of different lengths
        assert length == path.with_name("metrics.jsonl").stat().st_size
        return state
    if path.name == "journal.jsonl":
        return [_without_clocks(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name == "tuning.md":
        return _without_hours(path.read_text())
    return path.read_bytes()


def _rows(path: Path) -> list[list[tuple[Any, ...]]]:
    """Return all rows; of a tournament without the order in which its blocks were over."""
    order = "" if (path.parent / "tournament.toml").exists() else "sequence, "
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
            for columns, table in (("*", "games"), (f"{order}iteration, stage, digest", "stages"))
        ]


def _without_clocks(entry: dict[str, Any]) -> dict[str, Any]:
    noted = {k: v for k, v in entry.get("user_attr", {}).items() if k not in _FROM_CLOCKS}
    kept = {k: v for k, v in entry.items() if k not in _FROM_CLOCKS}
    return {**kept, "user_attr": noted} if "user_attr" in entry else kept


def _without_hours(text: str) -> list[list[str]]:
    rows = [line.split("|") for line in text.splitlines()]
    (place,) = {row.index(" hours ") for row in rows if " hours " in row}
    return [row[:place] + row[place + 1 :] for row in rows]
