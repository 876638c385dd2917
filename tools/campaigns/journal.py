"""Resumable record of attempts in JSON Lines, with a summary table."""

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
"""Table columns by kind of fault. All other kinds share one column."""


class Journal:
    """Journal of the attempts in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self._lines: dict[tuple[str, int, int], dict[str, Any]] = {}
        content = self.path.read_bytes() if self.path.exists() else b""
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):  # killed while writing the last line
            os.truncate(self.path, len(complete))
        for line in complete.splitlines():
            self._remember(json.loads(line))

    def _remember(self, entry: dict[str, Any]) -> None:
        self._lines[entry["campaign"], entry["seed"], entry["number"]] = entry

    def has(self, campaign: str, seed: int, number: int) -> bool:
        """Return whether an attempt has been made."""
        return (campaign, seed, number) in self._lines

    def add(self, entry: dict[str, Any]) -> None:
        """Append an attempt."""
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")
        self._remember(entry)

    def attempts(self, campaign: str, seed: int) -> list[dict[str, Any]]:
        """Return the attempts of a campaign in numerical order."""
        return [self._lines[key] for key in sorted(self._lines) if key[:2] == (campaign, seed)]

    def show(self, campaigns: list[str], seed: int) -> None:
        """Print a table of campaigns and the attempts that found faults."""
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
            heading = f"{each['campaign']} --seed {seed} --only {each['number']}: {each['what']}"
            for line in (heading, *(f"    {fault}" for fault in each["faults"])):
                console.print(line.encode("unicode_escape").decode()[:1000])


def kinds(entry: dict[str, Any]) -> set[str]:
    """Return the kinds of faults found by an attempt."""
    return {fault.partition(":")[0] for fault in entry["faults"]}
