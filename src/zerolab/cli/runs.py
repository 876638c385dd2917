"""`zerolab runs`, `plot`, `diversity` and `tensorboard`: views of training runs."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import print_json, say, table_console
from zerolab.core.errors import UserError
from zerolab.report.figures import check_ending, save_figure
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.terminal import print_table
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder
from zerolab.training.curves import draw_curves
from zerolab.training.panels import XAxis
from zerolab.training.reporting import export_events


def runs(folders: tyro.conf.Positional[tuple[Path, ...]] = (), *, json: bool = False) -> None:
    """List runs with their game, preset, iteration, status, strength, and starting network.

    Strength is shown if it was measured: accuracy on solved positions, and points per game against
    the opponents of the final evaluation if the run has not been continued since. Compare runs of
    the same game by scores against the same opponents or accuracy on the same positions. Training
    Elo, which is only in the JSON, is relative to a run's earlier networks and not comparable.

    Example: zerolab runs runs --json

    Args:
        folders: Runs or folders that contain runs; by default, the folder runs.
        json: Print a JSON list instead of a table.
    """
    default = Path("runs")
    searched = folders or ((default,) if default.is_dir() else ())
    summaries = [summarise_run(path) for path in find_runs(searched)]
    if json:
        entries = [{**each._asdict(), "scores": dict(each.scores)} for each in summaries]
        print(json_format.dumps(entries))
        return
    if not summaries:
        print("no runs found; start one with: zerolab train")
        return
    print_table(table_console(), _table(summaries))


def _table(summaries: Sequence[RunSummary]) -> Table:
    """Return the table of runs without empty columns."""
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
    filled = {
        column: cells
        for column, cells in columns.items()
        if any(each not in (None, "") for each in cells)
    }
    return Table("runs", "", list(filled), list(zip(*filled.values(), strict=True)))


def plot(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    x: XAxis = "iterations",
    output: Path | None = None,
) -> None:
    """Plot losses, training Elo, game lengths, times and accuracy of runs.

    Examples:
      zerolab plot runs/demo
      zerolab plot runs/warm runs/plain --x hours --output curves.svg

    Args:
        runs: Run folders.
        x: Horizontal axis: iterations, self-play games, or training hours.
        output: File to write, whose extension selects the format. The default is curves.png, in
            the run folder if there is only one run.
    """
    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
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
    """Count distinct positions in which moves were made in self-play.

    The table shows the total number, the numbers per game and per hour of self-play, and the
    number in the first N games, where N is the number of games in the shortest run. The figure and
    JSON also include distinct positions by ply and by number of games.

    Examples:
      zerolab diversity runs/demo
      zerolab diversity runs/plain runs/retry runs/tree --figure diversity.png

    Args:
        runs: Run folders.
        figure: File for a plot of distinct positions by games and by ply, such as diversity.png.
        json: Print JSON instead of a table.
    """
    from zerolab.evaluation.diversity import draw_diversity, run_diversity
    from zerolab.report.figures import check_ending, save_figure

    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    if figure is not None:
        check_ending(figure)
    diversities = [run_diversity(path) for path in runs]
    if figure is not None:
        save_figure(draw_diversity(diversities), figure)
    if json:
        print_json([each.as_dict() for each in diversities])
        return
    games = min(each.games for each in diversities)
    columns: list[str | Column] = [
        "run", *(Column(title, ",") for title in ("games", "positions", "distinct")),
        Column(f"in {games:,} games", ","), Column("per game", ".1f"), Column("per hour", ",.0f"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each.name, each.games, each.positions, each.distinct, each.within(games),
            each.per_game, each.per_hour,
        ]
        for each in diversities
    ]  # fmt: skip
    print_table(table_console(), Table("diversity", "", columns, rows))
    if figure is not None:
        say(figure)


def tensorboard(runs: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Write the metrics of runs as TensorBoard events to each run's tensorboard folder.

    Training does this after every stage. Use this command to restore deleted events.

    Example: zerolab tensorboard runs/demo && tensorboard --logdir runs

    Args:
        runs: Run folders.
    """
    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    for path in runs:
        say(export_events(RunFolder.open(path)))
    say(f"view them with: tensorboard --logdir {runs[0].parent}")
