"""`zerolab solve`: the exact value of every move."""

from __future__ import annotations

import json as json_format
import re
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import tyro
from rich.status import Status
from rich.table import Table

from zerolab.cli.output import Console
from zerolab.cli.parse import call
from zerolab.cli.progress_bar import PLAIN_SECONDS
from zerolab.core.errors import UserError, quoted
from zerolab.oracles.solution import Solution, solve_position
from zerolab.oracles.solver import MEMORY, Budget, SolverProgress
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position

_MOST_MEMORY = 1 << 20


def solve(
    game: tyro.conf.Positional[str],
    *,
    moves: str = "",
    nodes: int | None = None,
    seconds: float | None = None,
    memory: int = MEMORY,
    generic: bool = False,
    json: bool = False,
) -> None:
    """Find the value of every legal move under perfect play, for the player to move.

    Values are disc differences in Othello. In other games a value is positive for a win, 0 for a
    draw and negative for a loss; the faster a win, or the slower a loss, the larger it is: half
    the cells left empty at the end, rounded down, plus one.

    Examples:
      zerolab solve connect_four:5x5 --moves 2,2,3
      zerolab solve othello:6x6 --moves c2,b2,b3 --seconds 60
      zerolab solve gobang:5x5:4 --json

    Args:
        game: What to play, such as othello:6x6 or connect_four:5x5.
        moves: Moves that lead to the position, separated by commas or spaces.
        nodes: Give up after this many positions.
        seconds: Give up after this many seconds.
        memory: Mebibytes for positions already searched.
        generic: Use the built-in solver for connect_four:6x7, too, instead of BitBully.
        json: Print {"value": v, "moves": {"c2": v, ...}, ...}.
    """
    _check_limits(nodes, seconds, memory)
    position = Position.start(game)
    for move in re.split(r"[,\s]+", moves.strip(", \t")) if moves.strip(", \t") else []:
        position = position.play(move)
    with Console(stderr=True).status(f"solving {game}") as status:
        solution = solve_position(
            position, Budget(nodes, seconds), memory=memory, generic=generic,
            report=_reporter(game_name(position.game), status),
        )  # fmt: skip
    if json:
        print(json_format.dumps(solution.as_dict()))
    else:
        _show(solution, Console())


def _check_limits(nodes: int | None, seconds: float | None, memory: int) -> None:
    if nodes is not None and not 1 <= nodes < 1 << 63:
        raise UserError(f"nodes = {quoted(nodes)}: expected at least 1 and less than 2**63")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UserError(f"seconds = {seconds}: expected more than 0")
    if not 1 <= memory <= _MOST_MEMORY:
        raise UserError(
            f"memory = {quoted(memory)}: expected at least 1 and at most {_MOST_MEMORY} MiB"
        )


def _reporter(game: str, status: Status) -> Callable[[SolverProgress], None]:
    """Return what shows progress: beside a spinner in a terminal, a line now and then elsewhere."""
    last = perf_counter()

    def report(solving: SolverProgress) -> None:
        nonlocal last
        rate = solving.nodes / max(solving.seconds, 1e-9)
        text = (
            f"solving {game}: {solving.nodes:,} positions, {rate:,.0f} per second,"
            f" {solving.seconds:.0f} s, move {solving.move + 1} of {solving.moves}"
        )
        status.update(text)
        if not status.console.is_terminal and perf_counter() - last >= PLAIN_SECONDS:
            last = perf_counter()
            status.console.print(text, soft_wrap=True)

    return report


def _show(solution: Solution, console: Console) -> None:
    """Print the board, and the moves from the best to the worst."""
    console.print(solution.position.render())
    verdict = ("draws", "wins", "loses")[int(np.sign(solution.value))]
    mover = "X" if solution.position.first_to_move else "O"
    console.print(f"\n{mover} {verdict}, value {solution.value:+}")
    table = Table("move", "value", box=None, header_style="bold")
    for move, value in sorted(solution.moves.items(), key=lambda each: -each[1]):
        table.add_row(move, f"{value:+}")
    console.print(table)
    nodes, seconds = solution.nodes, solution.seconds
    rate = f", {nodes / max(seconds, 1e-9):,.0f} per second" if nodes else ""
    console.print(f"{nodes:,} positions in {seconds:.2f} s{rate}")


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and solve."""
    call(solve, "solve", arguments)
