"""Resumable record of attempts, one JSON line each, and the table that sums them up."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

COLUMNS = {
    "traceback": "tracebacks", "hang": "hangs", "memory": "over 1 GiB", "left": "processes left",
    "wrong": "wrong results",
}  # fmt: skip
"""Kinds of faults with a separate column; all others share one."""


class Journal:
    """The attempts of a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self._lines: dict[tuple[str, int, int], dict[str, Any]] = {}
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # killed while it wrote its last line
            os.truncate(self.path, len(whole))
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        self._lines[entry["campaign"], entry["seed"], entry["number"]] = entry

    def has(self, campaign: str, seed: int, number: int) -> bool:
        """Return whether an attempt has been made."""
        return (campaign, seed, number) in self._lines

    def add(self, entry: dict[str, Any]) -> None:
        """Append an attempt."""
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")
        self._take(entry)

    def attempts(self, campaign: str, seed: int) -> list[dict[str, Any]]:
        """Return the attempts of a campaign by their numbers."""
        return [self._lines[key] for key in sorted(self._lines) if key[:2] == (campaign, seed)]

    def show(self, campaigns: list[str], seed: int) -> None:
        """Print a table of campaigns, and the attempts that found a fault."""
        table = Table("campaign", "attempts", *COLUMNS.values(), "other", box=None)
        failed = []
        for campaign in campaigns:
            attempts = self.attempts(campaign, seed)
            counts = Counter(kind for each in attempts for kind in kinds(each))
            other = sum(count for kind, count in counts.items() if kind not in COLUMNS)
            row = [len(attempts), *(counts[kind] for kind in COLUMNS), other]
            table.add_row(campaign, *map(str, row))
            failed += [each for each in attempts if each["faults"]]
        console = Console(width=120, soft_wrap=True, markup=False, highlight=False)
        console.print(table)
        for each in failed:
            about = f"{each['campaign']} --seed {seed} --only {each['number']}: {each['what']}"
            for line in (about, *(f"    {fault}" for fault in each["faults"])):
                console.print(line.encode("unicode_escape").decode()[:1000])


def kinds(entry: dict[str, Any]) -> set[str]:
    """Return the kinds of faults that an attempt has found."""
    return {fault.partition(":")[0] for fault in entry["faults"]}
