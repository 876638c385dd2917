"""Accuracy of moves and values on solved positions, overall and by ply [Clausen2021].

A move is *strong* if no other has a higher value: a fastest win, a slowest loss, in Othello the
most discs. It is *weak* if it keeps the result under perfect play: win, draw or loss. Its *regret*
is the value of the best move minus its own value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT, Agent
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.evaluation.estimates import (
    Estimate,
    exact_estimate,
    mean_estimate,
    proportion_estimate,
)
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import EngineSetup, Progress, play_pairings, slots_within_memory
from zerolab.play.observers import Moves
from zerolab.play.pairings import Pairing
from zerolab.search.evaluator import Evaluator

_NETWORK_BATCH = 1024
_LEAST_SLOTS = 64
_PARTS_PER_THREAD = 8  # positions are decided in parts, so that progress is seen


class MoveChoices(NamedTuple):
    """The moves of a player in n positions."""

    actions: NDArray[np.int64]
    """[n] legal actions, or FORFEIT."""
    values: NDArray[np.float32] | None
    """[n] the outcome that the player expects for the mover, -1 to 1; None without such values."""


def network_choices(evaluator: Evaluator, positions: Positions) -> MoveChoices:
    """Return the legal moves with the highest prior, and the network's values."""
    from zerolab.networks.inference import torch_threads  # noqa: PLC0415  it takes seconds to load

    actions = np.empty(len(positions), np.int64)
    values = np.empty(len(positions), np.float32)
    legal = positions.legal
    with torch_threads(1):  # as in games: on several cores last bits may differ
        for begin in range(0, len(positions), _NETWORK_BATCH):
            rows = slice(begin, begin + _NETWORK_BATCH)
            priors, values[rows] = evaluator.evaluate(positions.states[rows])
            actions[rows] = np.where(legal[rows], priors, -1.0).argmax(axis=1)
    return MoveChoices(actions, values)


def player_choices(
    agent: Agent,
    positions: Positions,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> MoveChoices:
    """Return an agent's choice in each position, after its player has followed the moves there.

    Random streams depend only on (seed, number of the position, ply). All cores are used. The value
    expected by a search is that of its root. `progress` counts the positions done.
    """
    threads = available_cores()
    each = -(-len(positions) // (threads * _PARTS_PER_THREAD))
    slots = min(slots_within_memory([agent], threads), max(_LEAST_SLOTS, each))
    setup = EngineSetup(positions.game, [agent], seed, 0, threads, slots, (streams.EVALUATION,))
    schedule = [
        Pairing(row, agent.name, agent.name, row, positions.line(row), plies=1)
        for row in range(len(positions))
    ]
    chosen = _Chosen(len(positions))
    batches = [batch for thread in range(threads) if (batch := schedule[thread::threads])]
    play_pairings(setup, batches, moves=[chosen], progress=progress)
    return chosen.choices()


class _Chosen:
    """Stores the moves chosen in positions, by number; a `MoveObserver`."""

    def __init__(self, count: int) -> None:
        self._actions = np.empty(count, np.int64)
        self._values = np.full(count, np.nan, np.float32)

    def decided(self, moves: Moves) -> None:
        self._actions[moves.numbers] = moves.actions
        if isinstance(moves.player, SearchPlayer):
            self._values[moves.numbers] = moves.player.search.root_values(moves.slots)

    def choices(self) -> MoveChoices:
        """Return the choices in all positions."""
        silent = np.isnan(self._values).all()
        return MoveChoices(self._actions, None if silent else self._values)


class Grades(NamedTuple):
    """Grades of the moves in n positions; for a random player, their averages."""

    strong: NDArray[Any]
    """[n] bool, or float64 for averages: True for a best move."""
    weak: NDArray[Any]
    """[n] bool or float64: True for a move that keeps the result."""
    regret: NDArray[np.float64]
    """[n] float64: value of the best move minus that of the move; NaN if the player gave up."""
    games: NDArray[np.int64]
    """[n] int64: the number of the position's game."""

    def take(self, rows: NDArray[np.bool_]) -> Grades:
        """Return the grades of selected positions, bool[n]."""
        return Grades(self.strong[rows], self.weak[rows], self.regret[rows], self.games[rows])


def grade_moves(positions: Positions, actions: NDArray[np.int64]) -> Grades:
    """Return the grades of actions int64[n]; giving up is neither strong nor weak."""
    best = positions.best
    given_up = actions == FORFEIT
    values = positions.values[np.arange(len(actions)), np.where(given_up, 0, actions)]
    values = values.astype(np.float64)
    return Grades(
        (values == best) & ~given_up,
        (np.sign(values) == np.sign(best)) & ~given_up,
        np.where(given_up, np.nan, best - values),
        positions.games,
    )


def random_grades(positions: Positions) -> Grades:
    """Return the exact expected grades of uniformly random legal moves."""
    best, legal = positions.best[:, None], positions.legal
    values = np.where(legal, positions.values, 0)
    number = legal.sum(axis=1)
    return Grades(
        (legal & (values == best)).sum(axis=1) / number,
        (legal & (np.sign(values) == np.sign(best))).sum(axis=1) / number,
        (legal * (best - values)).sum(axis=1) / number,
        positions.games,
    )


def non_trivial(positions: Positions) -> NDArray[np.bool_]:
    """Return bool[n], True for positions in which some legal move worsens the result.

    In all others, including all lost positions, every move is weak.
    """
    signs = np.sign(positions.values)
    worse = positions.legal & (signs < np.sign(positions.best)[:, None])
    return np.asarray(worse.any(axis=1))


MOST_RANGES = 8
"""Rows of a table by ply, so that it fits on a screen."""


class Accuracy(NamedTuple):
    """Measures of moves in some positions; None without positions."""

    strong: Estimate | None
    weak: Estimate | None
    regret: Estimate | None
    """Value of the best move minus value of the move: discs in Othello; elsewhere slower wins and
    faster losses count."""


class ValueAccuracy(NamedTuple):
    """Measures of expected values against the exact results -1, 0 and 1."""

    squared_error: Estimate | None
    sign: Estimate | None
    """Share of won and lost positions in which the winner is recognised."""


class PlyRange(NamedTuple):
    """Measures of moves in a range of plies."""

    first_ply: int
    last_ply: int
    accuracy: Accuracy


class AccuracyReport(NamedTuple):
    """Accuracy of a player on solved positions."""

    name: str
    all: Accuracy
    non_trivial: Accuracy
    """Positions in which some legal move worsens the result (`non_trivial`)."""
    by_ply: dict[int, Accuracy]
    by_ply_range: list[PlyRange]
    """The same for at most MOST_RANGES ranges with about as many positions each."""
    value: ValueAccuracy | None
    """None for a player without expected values."""

    @property
    def is_measured(self) -> bool:
        """True if the numbers have intervals; those of random moves are exact."""
        strong = self.all.strong
        return strong is not None and strong.interval.low < strong.interval.high


def accuracy_report(name: str, positions: Positions, choices: MoveChoices) -> AccuracyReport:
    """Compare a player's choices with the exact values."""
    value = None if choices.values is None else _value_accuracy(choices.values, positions)
    grades = grade_moves(positions, choices.actions)
    return _report(name, positions, grades, _measured, value)


def random_accuracy_report(positions: Positions) -> AccuracyReport:
    """Return the exact expected accuracy of uniformly random moves."""
    return _report("random, expected", positions, random_grades(positions), _known, None)


def _measured(grades: Grades) -> Accuracy:
    return Accuracy(
        proportion_estimate(grades.strong, grades.games),
        proportion_estimate(grades.weak, grades.games),
        mean_estimate(grades.regret, grades.games),
    )


def _known(grades: Grades) -> Accuracy:
    return Accuracy(
        exact_estimate(grades.strong), exact_estimate(grades.weak), exact_estimate(grades.regret)
    )


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
    """Return the first and last plies of at most `most` ranges with about as many positions each.

    `plies` is int64[n], one per position. With all positions sorted and divided evenly, a ply
    belongs to the range of the middle one of its positions.
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
        mean_estimate((values - results) ** 2, positions.games),
        proportion_estimate(hits, positions.games[decided]),
    )


def agent_accuracy(
    agent: Agent,
    positions: Positions,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> list[AccuracyReport]:
    """Return the accuracy of an agent's network alone, of the agent, and of random moves.

    There is one report less for an agent without a network or without a search. `progress` counts
    the positions done.
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
