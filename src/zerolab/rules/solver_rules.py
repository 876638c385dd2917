"""Solver rules: optional functions of a game that make exact solvers faster.

Terms, in addition to those of ``docs/glossary.md``:

score     an integer for a finished game; its sign is the outcome for the mover, and its magnitude
          is the margin or the speed of the win
empties   the number of pieces that can still be placed, a measure of the remaining search

Every function has a default, so every game can be solved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import MAX_PLIES, Game, State, action_count, legal, outcome

SOLVER_RULES = CompiledInterface("game")

UNKNOWN_EMPTIES = 1 << 14
"""Result of `empties` for games that do not implement it, larger than any board."""


@SOLVER_RULES.declare
def empties(game: Game, state: State) -> int:
    """Return the maximum number of pieces that can still be placed, by default UNKNOWN_EMPTIES.

    It never increases during a game.
    """
    raise AssertionError


@SOLVER_RULES.declare
def max_plies(game: Game) -> int:
    """Return an upper bound on the plies of a game, including passes; by default MAX_PLIES."""
    raise AssertionError


@SOLVER_RULES.declare
def final_score(game: Game, state: State) -> int:
    """Return the score for the mover in a finished game, by default the outcome."""
    raise AssertionError


@SOLVER_RULES.declare
def score_is_distance(game: Game) -> bool:
    """Return True if scores measure the speed of a win, like `win_score`; by default False."""
    raise AssertionError


@SOLVER_RULES.declare
def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return a lower and an upper bound on the final score for the mover in an ongoing game.

    By default, they are -1 and 1.
    """
    raise AssertionError


@SOLVER_RULES.declare
def solver_moves(game: Game, state: State, out: NDArray[np.int16]) -> int:
    """Write the legal actions that a solver must try to `out`, best first; return their number.

    They must include at least one action of the highest value; by default, they are all legal
    actions. `state` is ongoing, and `out` is int16[actions].
    """
    raise AssertionError


@SOLVER_RULES.declare
def move_ordering_score(game: Game, state: State) -> int:
    """Return a heuristic value of a state for the player who has just moved, by default 0.

    Solvers try the children of a position in descending order of this value.
    """
    raise AssertionError


@inlined
def win_score(empty):
    """Return the score of a win with `empty` empty cells: floor(empty / 2) + 1.

    In games without margins, it makes perfect players win quickly and lose slowly [Pons].
    """
    return max(empty, 0) // 2 + 1


class SolverRules:
    """Base class of solver rules, with defaults derived from the rules."""

    @staticmethod
    def empties(game, state):
        return UNKNOWN_EMPTIES

    @staticmethod
    def max_plies(game):
        return MAX_PLIES

    @staticmethod
    def final_score(game, state):
        return outcome(game, state)

    @staticmethod
    def score_is_distance(game):
        return False

    @staticmethod
    def score_bounds(game, state):
        return -1, 1

    @staticmethod
    def solver_moves(game, state, out):
        mask = np.empty(action_count(game), np.bool_)
        legal(game, state, mask)
        count = 0
        for action in range(mask.shape[0]):
            if mask[action]:
                out[count] = action
                count += 1
        return count

    @staticmethod
    def move_ordering_score(game, state):
        return 0
