"""Which oracle solves a game."""

from __future__ import annotations

from collections.abc import Callable

from zerolab.oracles.bitbully import BITBULLY_GAME, BitBullyOracle
from zerolab.oracles.interface import Oracle
from zerolab.oracles.solver import MEMORY, UNLIMITED, Budget, Solver, SolverProgress
from zerolab.rules.interface import Game


def oracle_for(
    game: Game,
    budget: Budget = UNLIMITED,
    *,
    memory: int = MEMORY,
    generic: bool = False,
    report: Callable[[SolverProgress], None] = lambda _: None,
) -> Oracle:
    """Return the fastest oracle for a game, or the built-in solver where `generic`.

    `budget` is per position. The built-in solver uses a table of `memory` MiB and calls `report` a
    few times per second; an oracle that is faster needs none of them. Raises UserError if an extra
    is missing.
    """
    if not generic and type(game) is type(BITBULLY_GAME) and game == BITBULLY_GAME:
        return BitBullyOracle()
    return Solver(game, memory, budget, report)
