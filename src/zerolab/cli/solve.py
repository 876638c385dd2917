"""`zerolab solve`: the exact value of every move."""

from __future__ import annotations

import json as json_format
import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import tyro
from rich.status import Status
from rich.table import Table

from zerolab.cli.output import Console
from zerolab.cli.parse import call
from zerolab.cli.progress_bar import PLAIN_SECONDS
from zerolab.core.errors import UserError
from zerolab.oracles.bitbully import BITBULLY_GAME, BitBullyOracle
from zerolab.oracles.interface import Oracle
from zerolab.oracles.solver import MEMORY, Budget, Solver, SolverProgress
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
        nodes: Give up after so many positions.
        seconds: Give up after so many seconds.
        memory: Mebibytes for positions already searched.
        generic: Use the built-in solver for connect_four:6x7, too, instead of BitBully.
        json: Print {"value": v, "moves": {"c2": v, ...}, ...}.
    """
    _check_limits(nodes, seconds, memory)
    position = Position.start(game)
    for move in re.split(r"[,\s]+", moves.strip(", \t")) if moves.strip(", \t") else []:
        position = position.play(move)
    console = Console(stderr=True)
    with console.status(f"solving {game}") as status:
        show = _teller(console, status)
        solution = _Solution(position, Budget(nodes, seconds), memory, generic, show)
    if json:
        print(json_format.dumps(solution.as_dict()))
    else:
        solution.show(Console())


def _check_limits(nodes: int | None, seconds: float | None, memory: int) -> None:
    if nodes is not None and nodes < 1:
        raise UserError(f"nodes = {nodes}: expected at least 1")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UserError(f"seconds = {seconds}: expected more than 0")
    if not 1 <= memory <= _MOST_MEMORY:
        raise UserError(f"memory = {memory}: expected at least 1 and at most {_MOST_MEMORY} MiB")


def _teller(console: Console, status: Status) -> Callable[[str], None]:
    """Return what shows how far it has come: beside a spinner, or now and then as a line."""
    told = perf_counter()

    def tell(text: str) -> None:
        nonlocal told
        status.update(text)
        if not console.is_terminal and perf_counter() - told >= PLAIN_SECONDS:
            told = perf_counter()
            console.print(text, highlight=False, soft_wrap=True)

    return tell


class _Solution:
    """The values of a position's moves, and what they cost."""

    def __init__(
        self,
        position: Position,
        budget: Budget,
        memory: int,
        generic: bool,
        show: Callable[[str], None],
    ) -> None:
        def report(solving: SolverProgress) -> None:
            rate = solving.nodes / max(solving.seconds, 1e-9)
            show(
                f"solving {game_name(position.game)}: {solving.nodes:,} positions,"
                f" {rate:,.0f} a second, {solving.seconds:.0f} s,"
                f" move {solving.move + 1} of {solving.moves}"
            )

        self.position = position
        began = perf_counter()
        solver = Solver(position.game, memory, budget, report)
        is_standard = type(position.game) is type(BITBULLY_GAME) and position.game == BITBULLY_GAME
        oracle: Oracle = BitBullyOracle() if is_standard and not generic else solver
        self.moves: dict[str, int] = {}
        if position.outcome is None:
            values = oracle.action_values(position.state[None])[0]
            self.moves = {position.name(a): int(values[a]) for a in position.legal_actions}
            self.value = max(self.moves.values())
        else:
            self.value = solver.value(position.state)
        self.seconds = perf_counter() - began
        self.nodes = solver.nodes

    def as_dict(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {
            "game": game_name(self.position.game),
            "played": [self._played_name(n) for n in range(self.position.ply)],
            "mover": "first" if self.position.first_to_move else "second",
            "value": self.value,
            "moves": self.moves,
            "best": [move for move, value in self.moves.items() if value == self.value],
            "nodes": self.nodes,
            "seconds": round(self.seconds, 3),
        }

    def _played_name(self, number: int) -> str:
        return self.position.name(self.position.history[number])

    def show(self, console: Console) -> None:
        """Print the board, and the moves from the best to the worst."""
        console.print(self.position.render(), highlight=False)
        verdict = ("draws", "wins", "loses")[int(np.sign(self.value))]
        mover = "X" if self.position.first_to_move else "O"
        console.print(f"\n{mover} {verdict}, value {self.value:+}", highlight=False)
        table = Table("move", "value", box=None, header_style="bold")
        for move, value in sorted(self.moves.items(), key=lambda each: -each[1]):
            table.add_row(move, f"{value:+}")
        console.print(table)
        rate = f", {self.nodes / max(self.seconds, 1e-9):,.0f} a second" if self.nodes else ""
        console.print(f"{self.nodes:,} positions in {self.seconds:.2f} s{rate}", highlight=False)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and solve."""
    call(solve, "solve", arguments)
