"""Which oracle solves a game."""

from __future__ import annotations

from zerolab.oracles.bitbully import BITBULLY_GAME, BitBullyOracle
from zerolab.oracles.interface import Oracle
from zerolab.oracles.solver import UNLIMITED, Budget, Solver
from zerolab.rules.interface import Game


def oracle_for(game: Game, budget: Budget = UNLIMITED) -> Oracle:
    """Return the fastest oracle for a game.

    `budget` is per position, for oracles that need one. Raises UserError if an extra is missing.
    """
    if type(game) is type(BITBULLY_GAME) and game == BITBULLY_GAME:
        return BitBullyOracle()
    return Solver(game, budget=budget)
