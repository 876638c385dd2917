"""Hints for exact solvers: optional knowledge of a game that makes solving it faster.

Terms: see the glossary of `rules.rules`, and

score     a whole number for a finished game: its sign is the outcome for the mover, and its size
          the margin or the speed of the win
empties   the number of pieces that can still be placed: a measure of the remaining search

Every function has a default, so that every game can be solved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import MAX_PLIES, Game, State, actions, legal, outcome

HINTS = CompiledInterface("game")

UNKNOWN_EMPTIES = 1 << 14
"""Result of `empties` for games that do not implement it: more than any board has."""


@HINTS.function
def empties(game: Game, state: State) -> int:
    """Return how many pieces can still be placed at most; it never grows during a game.

    By default UNKNOWN_EMPTIES.
    """
    raise AssertionError


@HINTS.function
def max_plies(game: Game) -> int:
    """Return an upper bound of the plies of a game, passes included; by default MAX_PLIES."""
    raise AssertionError


@HINTS.function
def score(game: Game, state: State) -> int:
    """Return the mover's final score in a finished game, by default the outcome."""
    raise AssertionError


@HINTS.function
def score_is_distance(game: Game) -> bool:
    """Return whether scores measure the speed of a win, as `win_score` does; by default False."""
    raise AssertionError


@HINTS.function
def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return a lower and an upper bound of the mover's final score in an ongoing game.

    By default -1 and 1.
    """
    raise AssertionError


@HINTS.function
def solver_moves(game: Game, state: State, out: NDArray[np.int16]) -> int:
    """Write the legal actions that a solver must try, promising ones first; return their number.

    At least one action of the highest value must be among them. `state` is ongoing; `out` is
    int16[actions]. By default all legal actions.
    """
    raise AssertionError


@HINTS.function
def move_ordering_score(game: Game, state: State) -> int:
    """Return how good a state looks for the player who has just moved, by default 0.

    Solvers try the children of a position from the highest to the lowest.
    """
    raise AssertionError


@inlined
def win_score(empty):
    """Return the score of a win that leaves `empty` cells empty: floor(empty / 2) + 1.

    In games where only winning counts, it makes perfect players win fast and lose slowly [Pons].
    """
    return max(empty, 0) // 2 + 1


class SolverHints:
    """Base of a game's hints, derived from its rules."""

    @staticmethod
    def empties(game, state):
        return UNKNOWN_EMPTIES

    @staticmethod
    def max_plies(game):
        return MAX_PLIES

    @staticmethod
    def score(game, state):
        return outcome(game, state)

    @staticmethod
    def score_is_distance(game):
        return False

    @staticmethod
    def score_bounds(game, state):
        return -1, 1

    @staticmethod
    def solver_moves(game, state, out):
        mask = np.empty(actions(game), np.bool_)
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
