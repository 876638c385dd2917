"""The exact value of every move of a position, by name, and what it took to find."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.solver import MEMORY, UNLIMITED, Budget, Solver, SolverProgress
from zerolab.rules import host
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position


class Solution(NamedTuple):
    """A solved position."""

    position: Position
    value: int
    """Under perfect play, for the player to move; see `Oracle` for what values mean."""
    moves: dict[str, int]
    """The value of every legal move by its name; empty once the game is over."""
    nodes: int
    """Positions searched; 0 where an oracle does not count them."""
    seconds: float

    @property
    def best(self) -> list[str]:
        """The moves of the highest value."""
        return [move for move, value in self.moves.items() if value == self.value]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        position = self.position
        return {
            "game": game_name(position.game),
            "played": [position.name(action) for action in position.history],
            "mover": "first" if position.first_to_move else "second",
            "value": self.value,
            "moves": self.moves,
            "best": self.best,
            "nodes": self.nodes,
            "seconds": round(self.seconds, 3),
        }


def solve_position(
    position: Position,
    budget: Budget = UNLIMITED,
    *,
    memory: int = MEMORY,
    generic: bool = False,
    report: Callable[[SolverProgress], None] = lambda _: None,
) -> Solution:
    """Solve a position; see `oracle_for` for the parameters.

    Raises NotSolvedError where the budget is spent.
    """
    began = perf_counter()
    if position.outcome is not None:
        return Solution(position, host.score(position.game, position.state), {}, 0, 0.0)
    oracle = oracle_for(position.game, budget, memory=memory, generic=generic, report=report)
    values = oracle.action_values(position.state[None])[0]
    moves = {position.name(action): int(values[action]) for action in position.legal_actions}
    nodes = oracle.nodes if isinstance(oracle, Solver) else 0
    return Solution(position, max(moves.values()), moves, nodes, perf_counter() - began)
