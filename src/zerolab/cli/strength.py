"""`zerolab bench strength`: how strong training makes a player per hour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import Console, print_json, say, table_console
from zerolab.cli.parse import Assignments, call
from zerolab.cli.process import resumable
from zerolab.cli.progress import PlainReporter, TerminalReporter
from zerolab.cli.progress_bar import progress_bar


def strength(
    variants: tyro.conf.Positional[tuple[str, ...]] = (),
    *,
    game: str = "connect_four:6x7",
    folder: Path = Path("strength"),
    hours: float = 0.5,
    seeds: int = 2,
    every: float = 0.1,
    positions: int = 1200,
    simulations: int = 343,
    test_search: Assignments = ("root=puct", "selection.c=0.5"),
    set: Assignments = (),
    json: bool = False,
) -> None:
    """Train variants of a preset for equal times and measure them on solved positions.

    A table and a figure are written to the folder, beside the curves that [Clausen2021] publishes.
    To resume a stopped command, repeat it; variants, seeds and hours may grow.

    Variants:
      {strength_variants}

    Examples:
      zerolab bench strength
      zerolab bench strength plain discount --hours 0.25 --seeds 4 --folder strength/discount

    Args:
        variants: What to compare; plain and strong by default.
        game: What to learn.
        folder: Where everything is kept.
        hours: Wall clock of self-play and learning per run.
        seeds: Runs per variant.
        every: Hours between two measurements of a run.
        positions: Solved positions to measure on, which are made first.
        simulations: Simulations per move at the measurement.
        test_search: What its search differs in from that of training; may be repeated.
        set: A setting to change in all variants, such as network.blocks=6; may be repeated.
        json: Print the points as JSON instead of a table.
    """
    from zerolab.bench.strength import report
    from zerolab.bench.strength.benchmark import Watcher, run
    from zerolab.bench.strength.settings import StrengthSettings
    from zerolab.core.config import validate
    from zerolab.studies.report.terminal import terminal_table

    given = {
        "game": game, "hours": hours, "seeds": seeds, "every": every, "positions": positions,
        "simulations": simulations, "changes": set, "test_search": test_search,
    }  # fmt: skip
    settings = validate(StrengthSettings, given | ({"variants": variants} if variants else {}))
    console = Console(stderr=True)
    kind = TerminalReporter if console.is_terminal else PlainReporter
    watcher = Watcher(console.print, lambda: kind(console, None), progress_bar)
    with resumable("finished stages are saved", "the same command"):
        found = run(folder, settings, watcher)
    if json:
        print_json(report.as_dict(found))
    else:
        table_console().print(terminal_table(report.table(found, settings)))
        say("", f"written to {folder}: strength.md, strength.png, strength.svg")


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    call(strength, "bench strength", arguments)
