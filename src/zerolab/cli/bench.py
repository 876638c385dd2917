"""`zerolab bench`: speed relative to hardware limits, and strength against training time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from zerolab.bench.speed_benchmark import SUITES, BenchmarkResult, run_suite
from zerolab.cli.output import Console, print_json, say
from zerolab.cli.parse import Assignments
from zerolab.cli.process import resume_advice
from zerolab.cli.progress import PlainReporter, TerminalReporter, progress_bar
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.text import print_table


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
    """Train variants of a preset for equal lengths of time and measure them on solved positions.

    The command writes a table and a figure, which includes the curves published by [Clausen2021].
    Repeat the command to resume it; you can add variants, seeds and hours.

    Variants:
      {strength_variants}

    Examples:
      zerolab bench strength
      zerolab bench strength plain discount --hours 0.25 --seeds 4 --folder strength/discount

    Args:
        variants: Variants to compare; plain and strong by default.
        game: Game to learn.
        folder: Folder for runs and results.
        hours: Wall-clock hours of self-play and learning per run.
        seeds: Number of runs per variant, each with its own seed.
        every: Hours between measurements of a run.
        positions: Number of solved test positions, which are collected first.
        simulations: Number of simulations per move in the test.
        test_search: Search setting to change in the test; can be repeated.
        set: Setting to change in all variants, such as network.blocks=6; can be repeated.
        json: Print the measurements as JSON instead of a table.
    """
    from zerolab.bench import strength_report
    from zerolab.bench.strength_benchmark import BenchmarkDisplay, run_strength_benchmark
    from zerolab.bench.strength_settings import StrengthSettings
    from zerolab.core.config import validate

    options = {
        "game": game, "hours": hours, "seeds": seeds, "every": every, "positions": positions,
        "simulations": simulations, "changes": set, "test_search": test_search,
    }  # fmt: skip
    settings = validate(StrengthSettings, options | ({"variants": variants} if variants else {}))
    console = Console(stderr=True)
    reporter = TerminalReporter if console.is_terminal else PlainReporter
    display = BenchmarkDisplay(console.print, lambda: reporter(console, None), progress_bar)
    with resume_advice("finished stages are saved", "the same command"):
        curves = run_strength_benchmark(folder, settings, display)
    if json:
        print_json(strength_report.curves_as_dict(curves))
    else:
        print_table(Console(), strength_report.strength_table(curves, settings))
        say("", f"written to {folder}: strength.md, strength.png, strength.svg")


def bench(
    suites: tyro.conf.Positional[tuple[str, ...]] = (), *, rounds: int = 3, json: bool = False
) -> None:
    """Measure speed, comparing every rate with a limit measured in the same run.

    The suites are {suites}. All suites together take about 45 minutes.
    To measure strength against training time, use zerolab bench strength, which has its own --help.

    Example: zerolab bench tree selfplay --json

    Args:
        suites: Suites to run; all by default.
        rounds: Number of measurements of each rate, alternating with measurements of its limit;
            medians are reported.
        json: Print a JSON list.
    """
    for suite in suites:
        if suite not in SUITES:
            known = ", ".join(SUITES)
            raise UserError(
                f"unknown suite {quoted(suite)}: expected one of {known}"
                f"{did_you_mean(suite, SUITES)}"
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
        print_table(Console(), _table(measured))


def _table(measured: Sequence[BenchmarkResult]) -> Table:
    rows: list[list[Cell]] = []
    for each in measured:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in each.time_shares.items())
        remarks = ", ".join(filter(None, (shares, each.note)))
        rows.append([each.name, each.median, each.unit, each.limit, each.ratio, remarks])
    columns: list[str | Column] = [
        "name", Column("median", ",.0f"), "unit", Column("limit", ",.0f"), Column("ratio", ".2f"),
        "time by part, remarks",
    ]  # fmt: skip
    return Table("bench", "", columns, rows)


def split_subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return the function for speed or strength, the command's full name, and the arguments."""
    if arguments[:1] == ["strength"]:
        return strength, "bench strength", arguments[1:]
    return bench, "bench", arguments
