"""Table of a run with one row per iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.store.run_folder import RunFolder
from zerolab.training.records import (
    AccuracyRecord,
    GateRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
)
from zerolab.training.reporting import read_records

_COLUMNS: tuple[tuple[str, str, type[Record], Callable[[Any], Cell]], ...] = (
    ("games", "", SelfPlayRecord, lambda record: record.games),
    ("plies per game", ".1f", SelfPlayRecord, lambda record: record.plies_per_game),
    ("policy loss", ".3f", LearnRecord, lambda record: record.loss.get("policy")),
    ("value loss", ".3f", LearnRecord, lambda record: record.loss.get("value")),
    ("gate", "", GateRecord, lambda record: "accepted" if record.accepted else "rejected"),
    ("training Elo", "+.0f", GateRecord, lambda record: record.elo),
    ("strong accuracy", ".1%", AccuracyRecord, lambda record: record.search_strong),
)
"""Title, number format, record and value of the columns after the iteration."""


def iteration_table(run: RunFolder) -> Table:
    """Return a table with one row per iteration, without columns that would be empty."""
    records = read_records(run)
    iterations = sorted({record.iteration for record in records})
    cells: dict[Column, list[Cell]] = {Column("iteration"): list(iterations)}
    for title, number_format, kind, value in _COLUMNS:
        found = {each.iteration: value(each) for each in records if isinstance(each, kind)}
        if any(each is not None for each in found.values()):
            cells[Column(title, number_format)] = [found.get(number) for number in iterations]
    seconds = [
        sum(each.wall_seconds for each in records if each.iteration == number)
        for number in iterations
    ]
    cells[Column("seconds", ".1f")] = list(seconds)
    return Table("iterations", "", list(cells), list(zip(*cells.values(), strict=True)))
