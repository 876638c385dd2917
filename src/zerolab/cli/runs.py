"""`zerolab runs`: what has been trained."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

import tyro
from rich.table import Table

from zerolab.cli.output import table_console
from zerolab.cli.parse import call
from zerolab.store.listing import find_runs, summarise


def runs(folders: tyro.conf.Positional[tuple[Path, ...]] = (), *, json: bool = False) -> None:
    """List runs: game, preset, iteration, status, training Elo, and what they started from.

    Example: zerolab runs runs --json

    Args:
        folders: Runs, or folders of runs; the folder runs by default.
        json: Print a JSON list instead of a table.
    """
    default = Path("runs")
    places = folders or ((default,) if default.is_dir() else ())
    summaries = [summarise(path) for path in find_runs(places)]
    if json:
        print(json_format.dumps([summary._asdict() for summary in summaries]))
        return
    if not summaries:
        print("no runs here; start one with: zerolab train")
        return
    table = Table("run", "game", "preset", "iteration", "status", "Elo", box=None)
    if any(each.source for each in summaries):
        table.add_column("started from")
    for each in summaries:
        iteration = f"{each.iteration}/{each.iterations} {each.stage}"
        elo = f"{each.elo:+.0f}"
        table.add_row(
            each.path, each.game, each.preset, iteration, each.status, elo, each.source or None
        )
    table_console().print(table)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and list the runs."""
    call(runs, "runs", arguments)
