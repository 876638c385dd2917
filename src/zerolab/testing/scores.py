"""Laws of the hints for exact solvers: empties, scores, their bounds and moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game, State
from zerolab.testing.samples import ongoing_positions, random_games, require

_MOST_LINES = 150
"""Positions with more continuations than this are not searched to the end."""


def check_empties(game: Game) -> None:
    """Check that the number of pieces to come never grows, and is not negative."""
    for played in random_games(game):
        left = host.empties(game, played[0].state)
        for sample in played:
            now = host.empties(game, sample.state)
            require(0 <= now <= left, sample, f"empties is {now}, and was {left} before")
            left = now


def check_longest(game: Game) -> None:
    """Check that no game lasts longer than the game says."""
    most = host.longest(game)
    for played in random_games(game):
        plies = len(played[-1].history)
        require(plies <= most, played[-1], f"the game lasted {plies} plies, but longest is {most}")


def check_scores(game: Game) -> None:
    """Check that scores have the sign of the outcome and lie within all bounds on the way."""
    for played in random_games(game):
        end = played[-1]
        score = host.score(game, end.state)
        signs = np.sign(score) == end.outcome
        require(signs, end, f"the score is {score}, but the outcome {end.outcome}")
        for sample in played[:-1]:
            same_mover = (len(end.history) - len(sample.history)) % 2 == 0
            final = score if same_mover else -score
            low, high = host.score_bounds(game, sample.state)
            within = low <= final <= high
            require(
                within, sample, f"score_bounds are {low} and {high}, but the game ended {final}"
            )


def check_solver_moves(game: Game) -> None:
    """Check that solver moves are legal and, near the end of games, include a best one."""
    for sample in ongoing_positions(game):
        moves = host.solver_moves(game, sample.state)
        legal = np.flatnonzero(host.legal(game, sample.state)).tolist()
        require(moves, sample, "there is no solver move")
        once = len(set(moves)) == len(moves)
        require(
            once and set(moves) <= set(legal),
            sample,
            f"solver_moves returns {moves}; expected some of {legal}, each once",
        )
        try:
            best = _value(game, sample.state, _legal, [0])
        except _TooManyLinesError:
            continue
        found = _value(game, sample.state, host.solver_moves, [0])
        require(
            found == best,
            sample,
            f"the best solver move is worth {found}, the best legal move {best}",
        )


class _TooManyLinesError(Exception):
    pass


def _legal(game: Game, state: State) -> list[int]:
    return [int(action) for action in np.flatnonzero(host.legal(game, state))]


def _value(
    game: Game, state: State, moves: Callable[[Game, State], list[int]], lines: list[int]
) -> int:
    """Return the value of a state by trying all `moves` to the end, counting in lines[0]."""
    if host.outcome(game, state) != ONGOING:
        return host.score(game, state)
    lines[0] += 1
    if lines[0] > _MOST_LINES:
        raise _TooManyLinesError
    after = (host.apply(game, state, action) for action in moves(game, state))
    return max(-_value(game, each, moves, lines) for each in after)
