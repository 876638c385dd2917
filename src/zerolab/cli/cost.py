"""`zerolab cost`: what runs have cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.table import Table

from zerolab.cli.output import print_json, say, table_console
from zerolab.core.errors import UserError, quoted

if TYPE_CHECKING:
    from zerolab.training.costs import IterationCost
    from zerolab.training.move_times import CostReference, MeasuredMove

_DEFAULT_REFERENCE = Path("cost-reference.json")
_LEARN, _SELF_PLAY = "learn", "selfplay"
_MOST_ROWS = 24
_MOST_PLIES = 10_000


def cost(
    runs: tyro.conf.Positional[tuple[str, ...]],
    *,
    reference: Path | None = None,
    measure: bool = False,
    plies: int = 10,
    levels: str = "88,90,91",
    json: bool = False,
) -> None:
    """Show what runs have cost: moves, evaluations, floating-point operations, wall clock, hours.

    Runs of different machines compare by the hours in which one reference machine plays their moves
    [Clausen2021]: milliseconds of a move of each network, measured there once with --measure, times
    moves. Learning has columns of its own. One run is shown by iteration; where accuracy was
    measured, so is what it cost to reach some levels.

    Examples:
      zerolab cost runs/demo
      zerolab cost --measure runs/small runs/large@12 --reference desktop.json
      zerolab cost runs/small runs/large --reference desktop.json --levels 80,85

    Args:
        runs: Folders of runs; with --measure also networks, such as runs/demo@12.
        reference: The file of a reference machine; with --measure it is made or added to,
            cost-reference.json by default.
        measure: Measure on this machine how long the moves of these networks take.
        plies: How many moves each game has in a round of --measure.
        levels: Strong accuracies in percent, separated by commas.
        json: Print JSON instead of tables.
    """
    if not runs:
        raise UserError("expected the folder of a run, as in runs/demo")
    if measure:
        _measure(runs, reference or _DEFAULT_REFERENCE, plies, json)
    else:
        _account(runs, reference, _levels(levels), json)


def _levels(text: str) -> list[float]:
    """Return percents as shares, in ascending order."""
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not all(0 <= each <= 100 for each in found):
        raise UserError(
            f"levels = {quoted(text)}: expected percents separated by commas, such as 88,90,91"
        )
    return [each / 100 for each in found]


def _account(runs: Sequence[str], path: Path | None, levels: Sequence[float], json: bool) -> None:
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.costs import cost_to_reach, run_costs
    from zerolab.training.move_times import read_reference

    reference = None if path is None else read_reference(path)
    found = {name: run_costs(RunFolder.open(Path(name)), reference) for name in runs}
    reached = {name: cost_to_reach(costs, levels) for name, costs in found.items()}
    if json:
        print_json(_as_dict(found, reached, reference))
        return
    console = table_console()
    if len(found) == 1:
        (costs,) = found.values()
        shown = _thinned(costs)
        console.print(
            _table("iteration", "strong", [(str(c.iteration), c, c.strong) for c in shown])
        )
    else:
        rows = [(name, costs[-1], _best(costs)) for name, costs in found.items()]
        console.print(_table("run", "best strong", rows))
    if any(_best(costs) is not None for costs in found.values()):
        console.print("\nto reach a strong accuracy of the search:")
        console.print(_reached_table(reached))
    _explain(found, reference)


def _best(costs: Iterable[IterationCost]) -> float | None:
    return max((each.strong for each in costs if each.strong is not None), default=None)


def _thinned(costs: Sequence[IterationCost]) -> list[IterationCost]:
    """Return at most `_MOST_ROWS` iterations, the last one among them, with accuracy if any has."""
    chosen = [each for each in costs if each.strong is not None or each is costs[-1]]
    chosen = chosen if len(chosen) > 1 else list(costs)
    step = -(-len(chosen) // _MOST_ROWS)
    return chosen[::-1][::step][::-1]


_COLUMNS: dict[str, Callable[[IterationCost], str]] = {
    "games": lambda each: f"{each.games:,}",
    "moves": lambda each: f"{each.moves:,}",
    "evaluated": lambda each: f"{each.evaluated:,}",
    "avoided": lambda each: f"{each.avoided:,}",
    "GFLOP self-play": lambda each: _in_giga(each.selfplay_flops),
    "GFLOP learning": lambda each: _in_giga(each.learn_flops),
    "h self-play": lambda each: _hours(each.seconds.get(_SELF_PLAY, 0.0) / 3600),
    "h learning": lambda each: _hours(each.seconds.get(_LEARN, 0.0) / 3600),
    "h other": lambda each: _hours(_other(each) / 3600),
    "h reference": lambda each: _hours(each.reference_hours),
}


def _other(each: IterationCost) -> float:
    """Return the seconds of gates and of all that measures."""
    return sum(each.seconds.values()) - sum(each.seconds.get(k, 0.0) for k in (_LEARN, _SELF_PLAY))


def _in_giga(operations: int) -> str:
    giga = operations / 1e9
    return f"{giga:,.0f}" if giga >= 100 else f"{giga:.3g}"


def _hours(hours: float | None) -> str:
    return "" if hours is None else f"{hours:.3f}" if hours < 10 else f"{hours:,.1f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _table(first: str, last: str, rows: Iterable[tuple[str, IterationCost, float | None]]) -> Table:
    """Return a table of names, costs and strong accuracies."""
    table = Table(first, box=None)
    for title in (*_COLUMNS, last):
        table.add_column(title, justify="right")
    for name, each, strong in rows:
        table.add_row(name, *(show(each) for show in _COLUMNS.values()), _share(strong))
    return table


def _reached_table(reached: dict[str, dict[float, IterationCost | None]]) -> Table:
    table = Table("run", box=None)
    for title in ("level", "iteration", *_COLUMNS):
        table.add_column(title, justify="right")
    for name, levels in reached.items():
        for level, each in levels.items():
            cells = ["not reached"]
            if each is not None:
                cells = [str(each.iteration), *(show(each) for show in _COLUMNS.values())]
            table.add_row(name, f"{100 * level:g} %", *cells)
    return table


def _explain(found: dict[str, list[IterationCost]], reference: CostReference | None) -> None:
    """Say what is missing in the tables, and what the reference is."""
    for name, costs in found.items():
        if _SELF_PLAY not in costs[-1].seconds:
            say(f"{name} has no self-play: its cost is that of learning alone")
    if reference is None:
        print("no hours of a reference machine: measure one with zerolab cost --measure RUN")
    else:
        machine = reference.machine
        say(
            f"h reference: moves on {machine.processor}, {machine.device}, {machine.cores} cores,"
            f" {machine.precision}; learning not counted"
        )


def _as_dict(
    found: dict[str, list[IterationCost]],
    reached: dict[str, dict[float, IterationCost | None]],
    reference: CostReference | None,
) -> dict[str, object]:
    return {
        "reference": reference and reference.machine.model_dump(),
        "runs": [
            {
                "run": name,
                "iterations": [each.as_dict() for each in costs],
                "reached": [
                    {"level": level, "cost": each and each.as_dict()}
                    for level, each in reached[name].items()
                ],
            }
            for name, costs in found.items()
        ],
    }


def _measure(networks: Sequence[str], path: Path, plies: int, json: bool) -> None:
    from zerolab.agents.kinds.run import find_network
    from zerolab.cli.progress import progress_bar
    from zerolab.core.files import check_target
    from zerolab.training.move_times import (
        ROUNDS,
        Subject,
        measure_moves,
        reference_to_extend,
        this_machine,
        write_reference,
    )

    if not 1 <= plies <= _MOST_PLIES:
        raise UserError(f"plies = {quoted(plies)}: expected from 1 to {_MOST_PLIES}")
    check_target(path)
    reference = reference_to_extend(path, this_machine())
    subjects = [Subject.of(*find_network(each)) for each in networks]
    with progress_bar("measuring moves", len(subjects) * (ROUNDS + 1), "rounds") as update:
        measured = measure_moves(subjects, plies, lambda done: update(done, ""))
    for each in measured:
        reference = reference.extended(each)
    write_reference(path, reference)
    if json:
        print_json([each.model_dump(mode="json") for each in measured])
    else:
        _print_measured(networks, measured)
        say(f"written to {path}")


def _print_measured(networks: Sequence[str], measured: Sequence[MeasuredMove]) -> None:
    table = Table("network", "ms a move", "interval", "moves a round", "kind", box=None)
    for name, each in zip(networks, measured, strict=True):
        interval = f"{each.low:.4g} to {each.high:.4g}"
        moves = f"{each.moves:,}"
        table.add_row(name, f"{each.milliseconds:.4g}", interval, moves, str(each.kind))
    table_console().print(table)
