"""`zerolab runs`, `plot`, `diversity` and `tensorboard`: views of training runs."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from zerolab.cli.output import print_json, say, table_console
from zerolab.core.errors import UserError
from zerolab.report.figures import check_ending, save_figure
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.terminal import print_table
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder
from zerolab.training.curves import XAxis, draw_curves
from zerolab.training.reporting import export_events


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
    summaries = [summarise_run(path) for path in find_runs(places)]
    if json:
        print(json_format.dumps([_as_dict(each) for each in summaries]))
        return
    if not summaries:
        print("no runs here; start one with: zerolab train")
        return
    print_table(table_console(), _table(summaries))


def _as_dict(summary: RunSummary) -> dict[str, Any]:
    return {**summary._asdict(), "scores": dict(summary.scores)}


def _table(summaries: Sequence[RunSummary]) -> Table:
    """Return the table of runs, without columns that would be empty."""
    opponents = list(dict.fromkeys(name for each in summaries for name in each.scores))
    columns: dict[Column, list[Cell]] = {
        Column("run"): [each.path for each in summaries],
        Column("game"): [each.game for each in summaries],
        Column("preset"): [each.preset for each in summaries],
        Column("iteration"): [
            f"{each.iteration}/{each.iterations} {each.stage}" for each in summaries
        ],
        Column("status"): [each.status for each in summaries],
        Column("accuracy", ".1%"): [each.accuracy for each in summaries],
        **{
            Column(f"against {name}", ".1%"): [each.scores.get(name) for each in summaries]
            for name in opponents
        },
        Column("started from"): [each.source for each in summaries],
    }
    shown = {
        column: cells
        for column, cells in columns.items()
        if any(each not in (None, "") for each in cells)
    }
    return Table("runs", "", list(shown), list(zip(*shown.values(), strict=True)))


def plot(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    x: XAxis = "iterations",
    output: Path | None = None,
) -> None:
    """Draw the losses, training Elo, game lengths, times and accuracy of runs, a colour per run.

    Examples:
      zerolab plot runs/demo
      zerolab plot runs/warm runs/plain --x hours --output curves.svg

    Args:
        runs: Folders of runs.
        x: What to draw over: iterations, games of self-play, or hours of training.
        output: The file to write; its ending names the format. By default curves.png, in the
            folder of the run if there is one alone.
    """
    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    target = output or (runs[0] / "curves.png" if len(runs) == 1 else Path("curves.png"))
    check_ending(target)
    save_figure(draw_curves([RunFolder.open(path) for path in runs], x), target)
    say(target)


def diversity(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Count the distinct positions in which the self-play of runs has made moves.

    In all, per game, per hour of self-play, and among the first games of each run, as many as the
    shortest run has. The figure and the JSON also have them by ply and by number of games.

    Examples:
      zerolab diversity runs/demo
      zerolab diversity runs/plain runs/retry runs/tree --figure diversity.png

    Args:
        runs: Folders of runs.
        figure: Draw distinct positions against games and by ply into this file, such as
            diversity.png.
        json: Print JSON instead of a table.
    """
    from zerolab.evaluation.diversity import draw_diversity, run_diversity
    from zerolab.report.figures import check_ending, save_figure

    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    if figure is not None:
        check_ending(figure)
    found = [run_diversity(path) for path in runs]
    if figure is not None:
        save_figure(draw_diversity(found), figure)
    if json:
        print_json([each.as_dict() for each in found])
        return
    games = min(each.games for each in found)
    columns: list[str | Column] = [
        "run", *(Column(title, ",") for title in ("games", "positions", "distinct")),
        Column(f"in {games:,} games", ","), Column("per game", ".1f"), Column("per hour", ",.0f"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each.name, each.games, each.positions, each.distinct, each.within(games),
            each.per_game, each.per_hour,
        ]
        for each in found
    ]  # fmt: skip
    print_table(table_console(), Table("diversity", "", columns, rows))
    if figure is not None:
        say(figure)


def tensorboard(runs: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Write the metrics of runs as TensorBoard events, into the folder tensorboard of each.

    Training does the same after every stage; this is for runs whose events were deleted.

    Example: zerolab tensorboard runs/demo && tensorboard --logdir runs

    Args:
        runs: Folders of runs.
    """
    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    for path in runs:
        say(export_events(RunFolder.open(path)))
    say(f"look at them with: tensorboard --logdir {runs[0].parent}")
