"""Which oracle solves a game."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from zerolab.core.errors import MissingExtraError, MissingExtraWarning
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
    few times per second; an oracle that is faster needs none of them. Where the extra of a faster
    one is missing a MissingExtraWarning says so, and the built-in solver takes its place.
    """
    if not generic and game == BITBULLY_GAME:
        try:
            return BitBullyOracle()
        except MissingExtraError as error:
            told = f"{error}; meanwhile the built-in solver works, which needs late positions"
            warnings.warn(told, MissingExtraWarning, stacklevel=2)
    return Solver(game, memory, budget, report)
