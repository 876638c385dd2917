"""`zerolab bench`: speed beside the machine's own limit."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tyro
from rich.table import Table

from zerolab.cli.output import Console, print_json, table_console
from zerolab.cli.parse import call
from zerolab.core.errors import UserError, nearest, quoted

if TYPE_CHECKING:
    from zerolab.bench.measure import Measurement

SUITES = {
    "tree": "trees.measure_trees",
    "playout": "playouts.measure_playouts",
    "solve": "solving.measure_solving",
    "selfplay": "selfplay.measure_self_play",
    "service": "service.measure_service",
    "single-root": "single_root.measure_single_root",
    "warm-start": "warm_start.measure_warm_start",
    "replay": "replay.measure_replay",
    "learn": "learning.measure_learning",
    "heads": "heads.measure_heads",
    "train": "training.measure_training",
    "tournament": "tournament.measure_tournament",
    "league": "league.measure_league",
}
"""The functions of zerolab.bench that measure, by the names of suites."""


def bench(
    suites: tyro.conf.Positional[tuple[str, ...]] = (), *, rounds: int = 3, json: bool = False
) -> None:
    """Measure speed, every rate beside a limit that is measured in the same run.

    The suites are {suites}; all of them take about 25 minutes.
    How strong training makes a player is measured by zerolab bench strength, which has options and
    a help of its own.

    Example: zerolab bench tree selfplay --json

    Args:
        suites: Which suites to run; all by default.
        rounds: How often subject and limit are measured, alternately; medians are reported.
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
            for each in _measure(suite, rounds):
                measured.append(each)
                status.update(f"measuring {suite}: {each.name} {each.median:,.0f} {each.unit}")
    if json:
        print_json([each.as_dict() for each in measured])
    else:
        _print_table(measured)


def _measure(suite: str, rounds: int) -> Iterator[Measurement]:
    module, _, function = SUITES[suite].partition(".")
    measure = getattr(importlib.import_module(f"zerolab.bench.{module}"), function)
    return measure(rounds)  # type: ignore[no-any-return]


def _print_table(measured: Sequence[Measurement]) -> None:
    table = Table("name", "median", "limit", "ratio", "time goes to, remarks", box=None)
    for each in measured:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in each.shares.items())
        remarks = ", ".join(filter(None, (shares, each.note)))
        rates = f"{each.median:,.0f} {each.unit}", f"{each.limit:,.0f}"
        table.add_row(each.name, *rates, f"{each.ratio:.2f}", remarks)
    table_console().print(table)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and measure."""
    if arguments[:1] == ["strength"]:
        from zerolab.cli import strength

        strength.run(arguments[1:])
        return
    call(bench, "bench", arguments)
