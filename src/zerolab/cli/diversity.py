"""`zerolab diversity`: how many different positions self-play has seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro
from rich.table import Table

from zerolab.cli.output import print_json, say, table_console
from zerolab.cli.parse import call
from zerolab.core.errors import UserError


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
    from zerolab.core.figures import check_ending, save_figure
    from zerolab.evaluation.diversity import run_diversity
    from zerolab.evaluation.diversity_figure import draw_diversity

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
    table = Table(box=None)
    headings = ["games", "positions", "distinct", f"in {games:,} games", "per game", "per hour"]
    for heading in ("run", *headings):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for each in found:
        hour = "" if each.per_hour is None else f"{each.per_hour:,.0f}"
        numbers = each.games, each.positions, each.distinct, each.within(games)
        table.add_row(each.name, *(f"{n:,}" for n in numbers), f"{each.per_game:.1f}", hour)
    table_console().print(table)
    if figure is not None:
        say(figure)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and count."""
    call(diversity, "diversity", arguments)
