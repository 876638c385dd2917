"""Laws of what exact solvers ask: scores, their bounds, and candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerolab.rules import calls
from zerolab.rules.interface import ONGOING, Game, State
from zerolab.testing.samples import ongoing_positions, random_games, require

_MOST_LINES = 300
"""Positions with more continuations than this are not searched to the end."""


def check_remaining(game: Game) -> None:
    """Check that the number of stones to come never grows, and is not negative."""
    for played in random_games(game):
        left = calls.remaining_of(game, played[0].state)
        for sample in played:
            now = calls.remaining_of(game, sample.state)
            require(0 <= now <= left, sample, f"remaining is {now}, and was {left} before")
            left = now


def check_scores(game: Game) -> None:
    """Check that scores have the sign of the outcome and lie within all bounds on the way."""
    for played in random_games(game):
        end = played[-1]
        score = calls.score_of(game, end.state)
        signs = np.sign(score) == end.outcome
        require(signs, end, f"the score is {score}, but the outcome {end.outcome}")
        for sample in played[:-1]:
            same_mover = (len(end.history) - len(sample.history)) % 2 == 0
            final = score if same_mover else -score
            low, high = calls.score_bounds_of(game, sample.state)
            within = low <= final <= high
            require(
                within, sample, f"score_bounds are {low} and {high}, but the game ended {final}"
            )


def check_candidates(game: Game) -> None:
    """Check that candidates are legal, and near the end of games that none better is left out."""
    for sample in ongoing_positions(game):
        candidates = calls.candidates_of(game, sample.state)
        legal = np.flatnonzero(calls.legal_mask(game, sample.state)).tolist()
        require(candidates, sample, "there is no candidate")
        once = len(set(candidates)) == len(candidates)
        require(once and set(candidates) <= set(legal), sample, f"candidates {candidates}: illegal")
        try:
            best = _value(game, sample.state, _legal, [0])
        except _TooManyLinesError:
            continue
        found = _value(game, sample.state, calls.candidates_of, [0])
        require(found == best, sample, f"the best candidate is worth {found}, a legal move {best}")


class _TooManyLinesError(Exception):
    pass


def _legal(game: Game, state: State) -> list[int]:
    return [int(action) for action in np.flatnonzero(calls.legal_mask(game, state))]


def _value(
    game: Game, state: State, moves: Callable[[Game, State], list[int]], lines: list[int]
) -> int:
    """Return the value of a state by trying all `moves` to the end, counting in lines[0]."""
    if calls.outcome_of(game, state) != ONGOING:
        return calls.score_of(game, state)
    lines[0] += 1
    if lines[0] > _MOST_LINES:
        raise _TooManyLinesError
    after = (calls.next_state(game, state, action) for action in moves(game, state))
    return max(-_value(game, each, moves, lines) for each in after)
