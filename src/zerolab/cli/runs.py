"""`zerolab runs`: what has been trained."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from rich.table import Table

from zerolab.cli.output import table_console
from zerolab.cli.parse import call
from zerolab.core.errors import printable
from zerolab.store.listing import RunSummary, find_runs, summarise


def runs(folders: tyro.conf.Positional[tuple[Path, ...]] = (), *, json: bool = False) -> None:
    """List runs: game, preset, iteration, status, how strong they are, and what they started from.

    Strength is shown where it was measured: accuracy on solved positions, and points per game
    against the opponents of the final evaluation, unless the run was continued since. Runs of one
    game compare by scores against the same opponents and by accuracy on the same positions. They
    do not compare by training Elo, which JSON has as well: it rates a network by its predecessor.

    Example: zerolab runs runs --json

    Args:
        folders: Runs, or folders of runs; the folder runs by default.
        json: Print a JSON list instead of a table.
    """
    default = Path("runs")
    places = folders or ((default,) if default.is_dir() else ())
    summaries = [summarise(path) for path in find_runs(places)]
    if json:
        print(json_format.dumps([_as_dict(each) for each in summaries]))
        return
    if not summaries:
        print("no runs here; start one with: zerolab train")
        return
    table_console().print(_table(summaries))


def _as_dict(summary: RunSummary) -> dict[str, Any]:
    return {**summary._asdict(), "scores": dict(summary.scores)}


def _table(summaries: Sequence[RunSummary]) -> Table:
    """Return the table of runs, without columns for what none of them has."""
    opponents = list(dict.fromkeys(name for each in summaries for name in each.scores))
    columns = {
        "run": [each.path for each in summaries],
        "game": [each.game for each in summaries],
        "preset": [each.preset for each in summaries],
        "iteration": [f"{each.iteration}/{each.iterations} {each.stage}" for each in summaries],
        "status": [each.status for each in summaries],
        "accuracy": [_percent(each.accuracy) for each in summaries],
        **{
            f"against {name}": [_percent(each.scores.get(name)) for each in summaries]
            for name in opponents
        },
        "started from": [each.source for each in summaries],
    }
    optional = ("accuracy", "started from")
    shown = {name: cells for name, cells in columns.items() if name not in optional or any(cells)}
    table = Table(*shown, box=None)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(printable, row))
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and list the runs."""
    call(runs, "runs", arguments)
