"""`zerolab bench` and `cost`: speed, strength against training time, and the costs of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from zerolab.bench.benchmarks import SUITES, BenchmarkResult, run_suite
from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.parse import Assignments
from zerolab.cli.process import advise_resuming
from zerolab.cli.progress import PlainReporter, TerminalReporter, progress_bar
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.report.table import Cell, Column, Interval, Table, percent
from zerolab.report.text import print_table

if TYPE_CHECKING:
    from zerolab.training.costs import CumulativeCost
    from zerolab.training.move_times import MoveTime, ReferenceMoveTimes

_DEFAULT_PLIES, _DEFAULT_LEVELS = 10, "88,90,91"
_DEFAULT_REFERENCE = Path("cost-reference.json")
_LEARN, _SELF_PLAY = "learn", "selfplay"
_MAX_ROWS = 24
_MAX_PLIES = 10_000


def cost(
    runs: tyro.conf.Positional[tuple[str, ...]],
    *,
    reference: Path | None = None,
    measure: bool = False,
    plies: int | None = None,
    levels: str | None = None,
    json: bool = False,
) -> None:
    """Show the costs of runs: moves, evaluations, floating-point operations and hours.

    To compare runs from different machines, estimate the hours that a reference machine would take
    to play the moves [Clausen2021]: the number of each network's moves times its milliseconds per
    move, measured on the reference machine with --measure. Learning is shown in separate columns.
    If only one run is given, its costs are shown by iteration. Strong accuracy is the share of
    solved positions in which the agent chooses a best move. If it was measured, a second table
    shows the cost of reaching the given levels.

    Examples:
      zerolab cost runs/demo
      zerolab cost --measure runs/small runs/large@12 --reference desktop.json
      zerolab cost runs/small runs/large --reference desktop.json --levels 80,85

    Args:
        runs: Run folders; with --measure also networks, such as runs/demo@12.
        reference: File with measurements from a reference machine. With --measure, the file is
            created or extended, and the default is cost-reference.json.
        measure: Measure the move times of the networks on this machine instead of showing costs.
        plies: Number of moves per game in a round of --measure, by default 10.
        levels: Levels of strong accuracy in percent, separated by commas, by default 88,90,91.
        json: Print JSON instead of tables.
    """
    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    if measure:
        if levels is not None:
            raise UserError("--levels has no effect with --measure: expected one of the two")
        plies = _DEFAULT_PLIES if plies is None else plies
        _measure(runs, reference or _DEFAULT_REFERENCE, plies, json)
    else:
        if plies is not None:
            raise UserError("--plies has no effect without --measure: expected --measure too")
        _show_costs(
            runs, reference, _parse_levels(_DEFAULT_LEVELS if levels is None else levels), json
        )


def _parse_levels(text: str) -> list[float]:
    """Return percentages as fractions, in ascending order."""
    try:
        percentages = sorted({float(part) for part in text.split(",")})
    except ValueError:
        percentages = []
    if not percentages or not all(0 <= each <= 100 for each in percentages):
        raise UserError(
            f"levels = {quoted(text)}: expected percentages separated by commas, such as 88,90,91"
        )
    return [each / 100 for each in percentages]


def _show_costs(
    runs: Sequence[str], path: Path | None, levels: Sequence[float], json: bool
) -> None:
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.costs import cost_to_reach, run_costs
    from zerolab.training.move_times import read_reference_move_times

    reference = None if path is None else read_reference_move_times(path)
    costs_by_run = {name: run_costs(RunFolder.open(Path(name)), reference) for name in runs}
    reached = {name: cost_to_reach(costs, levels) for name, costs in costs_by_run.items()}
    if json:
        print_json(_as_dict(costs_by_run, reached, reference))
        return
    console = Console()
    if len(costs_by_run) == 1:
        (costs,) = costs_by_run.values()
        rows = [(each.iteration, each, each.search_strong_accuracy) for each in _thinned(costs)]
        print_table(console, _table("iteration", "strong", rows))
    else:
        last = [(name, costs[-1], _best(costs)) for name, costs in costs_by_run.items()]
        print_table(console, _table("run", "best strong", last))
    if any(_best(costs) is not None for costs in costs_by_run.values()):
        console.print("\ncost of reaching each level of strong accuracy with search:")
        print_table(console, _reached_table(reached))
    _print_notes(costs_by_run, reference)


def _best(costs: Iterable[CumulativeCost]) -> float | None:
    return max(
        (each.search_strong_accuracy for each in costs if each.search_strong_accuracy is not None),
        default=None,
    )


def _thinned(costs: Sequence[CumulativeCost]) -> list[CumulativeCost]:
    """Return at most `_MAX_ROWS` evenly spaced iterations, including the last.

    If accuracy was measured before the last iteration, iterations without it are left out, except
    the last.
    """
    candidates = [
        each for each in costs if each.search_strong_accuracy is not None or each is costs[-1]
    ]
    candidates = candidates if len(candidates) > 1 else list(costs)
    step = -(-len(candidates) // _MAX_ROWS)
    return candidates[::-1][::step][::-1]


_COLUMNS: dict[Column, Callable[[CumulativeCost], float | None]] = {
    Column("games", ","): lambda each: each.games,
    Column("moves", ","): lambda each: each.moves,
    Column("evaluated", ","): lambda each: each.evaluated,
    Column("avoided", ","): lambda each: each.avoided_evaluations,
    Column("GFLOP self-play", ",.3f"): lambda each: each.selfplay_flops / 1e9,
    Column("GFLOP learning", ",.3f"): lambda each: each.learn_flops / 1e9,
    Column("h self-play", ",.3f"): lambda each: each.seconds.get(_SELF_PLAY, 0.0) / 3600,
    Column("h learning", ",.3f"): lambda each: each.seconds.get(_LEARN, 0.0) / 3600,
    Column("h other", ",.3f"): lambda each: _other_seconds(each) / 3600,
    Column("h reference", ",.3f"): lambda each: each.reference_hours,
}


def _other_seconds(cost: CumulativeCost) -> float:
    """Return the seconds spent on stages other than self-play and learning."""
    return sum(cost.seconds.values()) - sum(cost.seconds.get(k, 0.0) for k in (_LEARN, _SELF_PLAY))


def _table(
    first: str, last: str, rows: Iterable[tuple[str | int, CumulativeCost, float | None]]
) -> Table:
    """Return a table of costs, with a name in the first column and strong accuracy in the last."""
    cells: list[list[Cell]] = [
        [name, *(value(each) for value in _COLUMNS.values()), strong] for name, each, strong in rows
    ]
    return Table("cost", "", [first, *_COLUMNS, Column(last, ".1%")], cells)


def _reached_table(reached: dict[str, dict[float, CumulativeCost | None]]) -> Table:
    rows: list[list[Cell]] = []
    for name, levels in reached.items():
        for level, each in levels.items():
            costs: list[Cell] = [None] * (1 + len(_COLUMNS))
            if each is not None:
                costs = [each.iteration, *(value(each) for value in _COLUMNS.values())]
            rows.append([name, f"{100 * level:g} %", *costs])
    note = "a row without costs means that the level was not reached"
    return Table("reached", "", ["run", "level", "iteration", *_COLUMNS], rows, note)


def _print_notes(
    costs_by_run: dict[str, list[CumulativeCost]], reference: ReferenceMoveTimes | None
) -> None:
    """Print notes on missing columns and the reference machine."""
    for name, costs in costs_by_run.items():
        if _SELF_PLAY not in costs[-1].seconds:
            print_lines(f"{name} has no self-play, so its cost covers only learning")
    if reference is None:
        print(
            "to see hours on a reference machine, measure its move times with zerolab cost"
            " --measure RUN"
        )
    else:
        machine = reference.machine
        print_lines(
            f"h reference: moves on {machine.processor}, {machine.device}, {machine.cores} cores,"
            f" {machine.precision}, without learning"
        )


def _as_dict(
    costs_by_run: dict[str, list[CumulativeCost]],
    reached: dict[str, dict[float, CumulativeCost | None]],
    reference: ReferenceMoveTimes | None,
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
            for name, costs in costs_by_run.items()
        ],
    }


def _measure(networks: Sequence[str], path: Path, plies: int, json: bool) -> None:
    from zerolab.agents.run_agents import find_run_and_iteration
    from zerolab.core.files import check_output_path
    from zerolab.training.move_times import (
        ROUNDS_PER_MEASUREMENT,
        MeasurementSubject,
        current_machine,
        measure_move_times,
        reference_move_times_to_extend,
        write_reference_move_times,
    )

    if not 1 <= plies <= _MAX_PLIES:
        raise UserError(f"plies = {quoted(plies)}: expected 1 to {_MAX_PLIES}")
    check_output_path(path)
    reference = reference_move_times_to_extend(path, current_machine())
    subjects = [MeasurementSubject.from_run(*find_run_and_iteration(each)) for each in networks]
    with progress_bar(
        "measuring moves", len(subjects) * (ROUNDS_PER_MEASUREMENT + 1), "rounds"
    ) as update:
        measured = measure_move_times(subjects, plies, lambda done: update(done, ""))
    for each in measured:
        reference = reference.with_measurement(each)
    write_reference_move_times(path, reference)
    if json:
        print_json([each.model_dump(mode="json") for each in measured])
    else:
        _print_measured(networks, measured)
        print_lines(f"written to {path}")


def _print_measured(networks: Sequence[str], measured: Sequence[MoveTime]) -> None:
    rows: list[list[Cell]] = [
        [name, Interval(each.milliseconds, each.low, each.high), each.moves, str(each.kind)]
        for name, each in zip(networks, measured, strict=True)
    ]
    columns: list[str | Column] = [
        "network",
        "ms per move (95 % interval)",
        Column("moves per round", ","),
        "kind",
    ]
    print_table(Console(), Table("moves", "", columns, rows))


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
    """Train presets, or variants of the strong preset, for the same length of time, and test them.

    The test consists of solved positions. The command writes a table and a figure, which includes
    the curves published by [Clausen2021]. Repeat the command to resume it; you can then add
    variants and seeds, and also hours unless a schedule spans the whole run.

    Variants:
      {strength_variants}

    Examples:
      zerolab bench strength
      zerolab bench strength strong strong-hour --hours 1 --game othello:6x6
      zerolab bench strength plain discount --hours 0.25 --seeds 4 --folder strength/discount

    Args:
        variants: Variants or presets to compare; plain and strong by default.
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
    from zerolab.bench.benchmarks import StrengthSettings
    from zerolab.bench.strength_benchmark import BenchmarkDisplay, run_strength_benchmark
    from zerolab.core.config import validate
    from zerolab.training.reporting import RunClock

    options = {
        "game": game, "hours": hours, "seeds": seeds, "every": every, "positions": positions,
        "simulations": simulations, "changes": set, "test_search": test_search,
    }  # fmt: skip
    settings = validate(StrengthSettings, options | ({"variants": variants} if variants else {}))
    console = Console(stderr=True)
    reporter = TerminalReporter if console.is_terminal else PlainReporter
    display = BenchmarkDisplay(
        console.print, lambda: reporter(console, RunClock(None)), progress_bar
    )
    with advise_resuming("finished stages are saved", "the same command"):
        curves = run_strength_benchmark(folder, settings, display)
    if json:
        print_json(strength_report.curves_as_dict(curves))
    else:
        print_table(Console(), strength_report.strength_table(curves, settings))
        print_lines("", f"written to {folder}: strength.md, strength.png, strength.svg")


def bench(
    suites: tyro.conf.Positional[tuple[str, ...]] = (), *, rounds: int = 3, json: bool = False
) -> None:
    """Measure speed, comparing every rate with a limit measured in the same run.

    The suites are {suites}. All suites take about 45 minutes in total.
    To measure strength against training time, use zerolab bench strength, which has its own --help.

    Example: zerolab bench tree selfplay --json

    Args:
        suites: Suites to run; all by default.
        rounds: Number of rounds; each measures a rate and then its limit, and medians are
            reported. Some suites use a multiple of this number, and training runs are measured
            once.
        json: Print a JSON list.
    """
    for suite in suites:
        if suite not in SUITES:
            known = ", ".join(SUITES)
            raise UserError(
                f"unknown suite {quoted(suite)}: expected strength, or some of {known}"
                f"{did_you_mean(suite, [*SUITES, 'strength'])}"
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
        print_table(Console(), _speed_table(measured))


def _speed_table(measured: Sequence[BenchmarkResult]) -> Table:
    rows: list[list[Cell]] = []
    for each in measured:
        shares = ", ".join(
            f"{part} {percent(share, 0)}" for part, share in each.time_shares.items()
        )
        remarks = ", ".join(filter(None, (shares, each.note)))
        rows.append([each.name, each.median, each.unit, each.limit_median, each.ratio, remarks])
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
