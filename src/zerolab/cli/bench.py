"""`zerolab bench`: speed beside the machine's limit, and strength against the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from zerolab.bench.measurement import SUITES, Measurement, run_suite
from zerolab.cli.output import Console, print_json, say, table_console
from zerolab.cli.parse import Assignments
from zerolab.cli.process import resumable
from zerolab.cli.progress import PlainReporter, TerminalReporter, progress_bar
from zerolab.core.errors import UserError, nearest, quoted
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.terminal import print_table


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
        variants: Variants to compare; plain and strong by default.
        game: The game to learn.
        folder: The folder of runs and results.
        hours: Wall clock of self-play and learning per run.
        seeds: Runs per variant.
        every: Hours between two measurements of a run.
        positions: Solved positions to measure on; they are collected first.
        simulations: Simulations per move at the measurement.
        test_search: A setting of the search at the measurement; may be repeated.
        set: A setting to change in all variants, such as network.blocks=6; may be repeated.
        json: Print the points as JSON instead of a table.
    """
    from zerolab.bench import strength_report
    from zerolab.bench.strength_benchmark import Watcher, run
    from zerolab.bench.strength_settings import StrengthSettings
    from zerolab.core.config import validate

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
        print_json(strength_report.as_dict(found))
    else:
        print_table(table_console(), strength_report.table(found, settings))
        say("", f"written to {folder}: strength.md, strength.png, strength.svg")


def bench(
    suites: tyro.conf.Positional[tuple[str, ...]] = (), *, rounds: int = 3, json: bool = False
) -> None:
    """Measure speed, with every rate beside a limit measured in the same run.

    The suites are {suites}; all of them take about 45 minutes.
    zerolab bench strength, with its own options and help, measures strength against hours of
    training.

    Example: zerolab bench tree selfplay --json

    Args:
        suites: Suites to run; all by default.
        rounds: Alternate measurements of subject and limit; medians are reported.
        json: Print a JSON list.
    """
    for suite in suites:
        if suite not in SUITES:
            known = ", ".join(SUITES)
            raise UserError(
                f"unknown suite {quoted(suite)}: expected one of {known}{nearest(suite, SUITES)}"
            )
    if rounds < 1:
        raise UserError(f"rounds = {quoted(rounds)}: expected at least 1")
    console = Console(stderr=True)
    measured = []
    for suite in suites or SUITES:
        with console.status(f"measuring {suite}") as status:
            for each in run_suite(suite, rounds):
                measured.append(each)
                status.update(f"measuring {suite}: {each.name} {each.median:,.0f} {each.unit}")
    if json:
        print_json([each.as_dict() for each in measured])
    else:
        print_table(table_console(), _table(measured))


def _table(measured: Sequence[Measurement]) -> Table:
    """Return the table of measurements."""
    rows: list[list[Cell]] = []
    for each in measured:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in each.shares.items())
        remarks = ", ".join(filter(None, (shares, each.note)))
        rows.append([each.name, each.median, each.unit, each.limit, each.ratio, remarks])
    columns: list[str | Column] = [
        "name", Column("median", ",.0f"), "unit", Column("limit", ",.0f"), Column("ratio", ".2f"),
        "time goes to, remarks",
    ]  # fmt: skip
    return Table("bench", "", columns, rows)


def subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return the function that measures speed or strength, its name, and its arguments."""
    if arguments[:1] == ["strength"]:
        return strength, "bench strength", arguments[1:]
    return bench, "bench", arguments
