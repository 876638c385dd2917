"""How often a player errs on solved positions, overall and by ply."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Agent
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.evaluation.choices import MoveChoices, network_choices, player_choices
from zerolab.evaluation.estimates import Estimate, average, exact, proportion
from zerolab.evaluation.grading import Grades, expected_of_random, grade, non_trivial
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import Progress

MOST_RANGES = 8
"""Rows of a table by ply, which then fits a screen."""


class Accuracy(NamedTuple):
    """How good moves are in some positions; None where there are no positions."""

    strong: Estimate | None
    weak: Estimate | None
    regret: Estimate | None
    """Value of the best move minus value of the move: discs in Othello; elsewhere slower wins and
    faster losses count."""


class ValueAccuracy(NamedTuple):
    """How far expected values are from the exact results -1, 0 and 1."""

    squared_error: Estimate | None
    sign: Estimate | None
    """How often the winner of won and lost positions is recognised."""


class PlyRange(NamedTuple):
    """How good moves are at plies that follow one another."""

    first_ply: int
    last_ply: int
    accuracy: Accuracy


class AccuracyReport(NamedTuple):
    """How well a player did on solved positions."""

    name: str
    all: Accuracy
    non_trivial: Accuracy
    """Where some legal move worsens the result; see `grading.non_trivial`."""
    by_ply: dict[int, Accuracy]
    by_ply_range: list[PlyRange]
    """The same in at most MOST_RANGES parts of about equal size."""
    value: ValueAccuracy | None
    """None for a player without expected values."""

    @property
    def is_measured(self) -> bool:
        """Whether its numbers have intervals, unlike those that are known exactly."""
        strong = self.all.strong
        return strong is not None and strong.low < strong.high


def accuracy_report(name: str, positions: Positions, choices: MoveChoices) -> AccuracyReport:
    """Compare a player's choices with the exact values."""
    value = None if choices.values is None else _value_accuracy(choices.values, positions)
    grades = grade(positions, choices.actions)
    return _report(name, positions, grades, _measured, value)


def random_accuracy_report(positions: Positions) -> AccuracyReport:
    """Return what is to be expected of uniformly random moves, which is known exactly."""
    return _report("random, expected", positions, expected_of_random(positions), _known, None)


def _measured(grades: Grades) -> Accuracy:
    return Accuracy(
        proportion(grades.strong, grades.games),
        proportion(grades.weak, grades.games),
        average(grades.regret, grades.games),
    )


def _known(grades: Grades) -> Accuracy:
    return Accuracy(exact(grades.strong), exact(grades.weak), exact(grades.regret))


def _report(
    name: str,
    positions: Positions,
    grades: Grades,
    measure: Callable[[Grades], Accuracy],
    value: ValueAccuracy | None,
) -> AccuracyReport:
    plies = positions.plies
    by_ply = {int(ply): measure(grades.take(plies == ply)) for ply in np.unique(plies)}
    ranges = [
        PlyRange(first, last, measure(grades.take((first <= plies) & (plies <= last))))
        for first, last in ply_ranges(plies)
    ]
    choosing = measure(grades.take(non_trivial(positions)))
    return AccuracyReport(name, measure(grades), choosing, by_ply, ranges, value)


def ply_ranges(plies: NDArray[np.int64], most: int = MOST_RANGES) -> list[tuple[int, int]]:
    """Return the first and last ply of at most so many ranges, of about as many positions each.

    `plies` is int64[n], one per position. A ply belongs to the range in which the middle one of
    its positions lies when all are put in order and divided evenly.
    """
    different, counts = np.unique(plies, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    ranges = (middles * most / max(1, len(plies))).astype(np.int64)
    members = [different[ranges == number] for number in np.unique(ranges)]
    return [(int(each[0]), int(each[-1])) for each in members]


def _value_accuracy(values: NDArray[np.float32], positions: Positions) -> ValueAccuracy:
    results = np.sign(positions.best).astype(np.float64)
    decided = results != 0
    hits = np.sign(values[decided]) == results[decided]
    return ValueAccuracy(
        average((values - results) ** 2, positions.games),
        proportion(hits, positions.games[decided]),
    )


def agent_accuracy(
    agent: Agent,
    positions: Positions,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> list[AccuracyReport]:
    """Return the accuracy of an agent's network alone, of the agent, and of random moves.

    An agent without a network, or without a search, has one report less. `progress` counts the
    positions done.
    """
    reports = []
    if agent.evaluator is not None:
        chosen = network_choices(agent.evaluator(), positions)
        reports.append(accuracy_report("network", positions, chosen))
    if not isinstance(agent.new_player(), PolicyPlayer):
        name = "player" if agent.evaluator is None else "search"
        chosen = player_choices(agent, positions, seed, progress)
        reports.append(accuracy_report(name, positions, chosen))
    return [*reports, random_accuracy_report(positions)]
