"""The oracle for a game."""

from __future__ import annotations

from zerolab.oracles.bitbully import BITBULLY_GAME, BitBullyOracle
from zerolab.oracles.interface import Oracle
from zerolab.oracles.solver import UNLIMITED, Budget, Solver
from zerolab.rules.interface import Game


def oracle_for(game: Game, budget: Budget = UNLIMITED) -> Oracle:
    """Return the fastest oracle there is for a game.

    The budget is for each position, where the oracle needs one. Raises UserError where an extra
    is missing.
    """
    if type(game) is type(BITBULLY_GAME) and game == BITBULLY_GAME:
        return BitBullyOracle()
    return Solver(game, budget=budget)
