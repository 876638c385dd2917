"""`zerolab bench`: speed beside the machine's own limit."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator, Sequence

import tyro
from rich.console import Console
from rich.table import Table

from zerolab.bench.learning import measure_learning
from zerolab.bench.measure import Measurement
from zerolab.bench.playouts import measure_playouts
from zerolab.bench.selfplay import measure_self_play
from zerolab.bench.solving import measure_solving
from zerolab.bench.tournament import measure_tournament
from zerolab.bench.training import measure_training
from zerolab.bench.trees import measure_trees
from zerolab.bench.warm_start import measure_warm_start
from zerolab.cli.parse import call
from zerolab.core.errors import UserError, nearest

SUITES: dict[str, Callable[[int], Iterator[Measurement]]] = {
    "tree": measure_trees,
    "playout": measure_playouts,
    "solve": measure_solving,
    "selfplay": measure_self_play,
    "warm-start": measure_warm_start,
    "learn": measure_learning,
    "train": measure_training,
    "tournament": measure_tournament,
}


def bench(
    suites: tyro.conf.Positional[tuple[str, ...]] = (), *, rounds: int = 3, json: bool = False
) -> None:
    """Measure speed; every figure stands beside the limit measured in the same run.

    The suites are tree, playout, solve, selfplay, warm-start, learn, train and tournament; all of
    them take about 25 minutes.

    Example: zerolab bench tree selfplay --json

    Args:
        suites: Which suites to run; all by default.
        rounds: How often subject and limit are measured in turns; medians are reported.
        json: Print a JSON list.
    """
    for suite in suites:
        if suite not in SUITES:
            known = ", ".join(SUITES)
            raise UserError(f'unknown suite "{suite}": expected {known}{nearest(suite, SUITES)}')
    if rounds < 1:
        raise UserError(f"rounds = {rounds}: expected at least 1")
    console = Console(stderr=True)
    measured = []
    for suite in suites or SUITES:
        with console.status(f"measuring {suite}") as status:
            for each in SUITES[suite](rounds):
                measured.append(each)
                status.update(f"measuring {suite}: {each.name} {each.median:,.0f} {each.unit}")
    if json:
        json_format.dump([each.as_dict() for each in measured], sys.stdout, indent=1)
        print()
    else:
        _print_table(measured)


def _print_table(measured: Sequence[Measurement]) -> None:
    table = Table("name", "median", "limit", "ratio", "time goes to, remarks", box=None)
    for each in measured:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in each.shares.items())
        remarks = ", ".join(filter(None, (shares, each.note)))
        rates = f"{each.median:,.0f} {each.unit}", f"{each.limit:,.0f}"
        table.add_row(each.name, *rates, f"{each.ratio:.2f}", remarks)
    Console(width=160, soft_wrap=True).print(table)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and measure."""
    call(bench, "bench", arguments)
