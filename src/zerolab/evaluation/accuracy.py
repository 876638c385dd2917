"""How often a player errs on solved positions, overall and by ply."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.evaluation.choices import Choices
from zerolab.evaluation.positions import Positions
from zerolab.evaluation.scoring import (
    Estimate,
    Marks,
    average,
    exact,
    expected_of_random,
    gives_choice,
    mark,
    share,
)


class Accuracy(NamedTuple):
    """How good moves are in some positions; None where there are no positions."""

    strong: Estimate | None
    weak: Estimate | None
    lost: Estimate | None
    """The value lost a move: discs in Othello; elsewhere slower wins and faster losses count."""


class Expectation(NamedTuple):
    """How far expected values are from the exact outcomes -1, 0 and 1."""

    squared_error: Estimate | None
    sign: Estimate | None
    """The share of won and lost positions that are taken for what they are."""


class Assessment(NamedTuple):
    """How well a player did on solved positions."""

    name: str
    all: Accuracy
    non_trivial: Accuracy
    """Where some legal move worsens the result; see `scoring.gives_choice`."""
    by_ply: dict[int, Accuracy]
    value: Expectation | None
    """None for a player that does not say what it expects."""


def assess(name: str, positions: Positions, choices: Choices) -> Assessment:
    """Compare a player's choices with the exact values."""
    value = None if choices.values is None else _compare(choices.values, positions.best)
    return _assess(name, positions, mark(positions, choices.actions), _measure, value)


def assess_random(positions: Positions) -> Assessment:
    """Return what is to be expected of uniformly random moves, which is known exactly."""

    def know(marks: Marks) -> Accuracy:
        return Accuracy(*map(exact, marks))

    return _assess("random, expected", positions, expected_of_random(positions), know, None)


def _measure(marks: Marks) -> Accuracy:
    return Accuracy(share(marks.strong), share(marks.weak), average(marks.lost))


def _assess(
    name: str,
    positions: Positions,
    marks: Marks,
    measure: Callable[[Marks], Accuracy],
    value: Expectation | None,
) -> Assessment:
    plies = positions.plies
    by_ply = {int(ply): measure(marks.take(plies == ply)) for ply in np.unique(plies)}
    choosing = marks.take(gives_choice(positions))
    return Assessment(name, measure(marks), measure(choosing), by_ply, value)


def _compare(values: NDArray[np.float32], best: NDArray[np.int32]) -> Expectation:
    outcomes = np.sign(best).astype(np.float64)
    decided = outcomes != 0
    hits = np.sign(values[decided]) == outcomes[decided]
    return Expectation(average((values - outcomes) ** 2), share(hits))
