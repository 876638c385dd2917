"""Accuracy of moves and values on solved positions, overall and by ply [Clausen2021].

A *strong* move has the highest value: a fastest win, a slowest loss, or the most discs in Othello.
A *weak* move preserves the result (win, draw or loss) under perfect play. The *regret* of a move is
the value of the best move minus the value of the move.
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
_MIN_SLOTS = 64
_PARTS_PER_THREAD = 8  # several parts give regular progress reports


class MoveChoices(NamedTuple):
    """A player's choices in n positions."""

    actions: NDArray[np.int64]
    """[n], legal actions or FORFEIT."""
    values: NDArray[np.float32] | None
    """[n], expected outcomes for the side to move, in [-1, 1]; None if the player has none."""


def network_choices(evaluator: Evaluator, positions: Positions) -> MoveChoices:
    """Return the legal moves with the highest prior, and the network's values."""
    from zerolab.networks.inference import torch_threads  # noqa: PLC0415  imports torch, slowly

    actions = np.empty(len(positions), np.int64)
    values = np.empty(len(positions), np.float32)
    legal = positions.legal
    with torch_threads(1):  # as in games; with several cores the last bits can differ
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
    """Return an agent's choice in each position, reached by playing its moves from the start.

    Random streams depend only on (seed, position number, ply). All cores are used. The values of a
    search are those of its root. `progress` counts finished positions.
    """
    threads = available_cores()
    part_size = -(-len(positions) // (threads * _PARTS_PER_THREAD))
    slots = min(slots_within_memory([agent], threads), max(_MIN_SLOTS, part_size))
    setup = EngineSetup(positions.game, [agent], seed, 0, threads, slots, (streams.EVALUATION,))
    pairings = [
        Pairing(row, agent.name, agent.name, row, positions.line(row), plies=1)
        for row in range(len(positions))
    ]
    recorder = _ChoiceRecorder(len(positions))
    batches = [batch for thread in range(threads) if (batch := pairings[thread::threads])]
    play_pairings(setup, batches, moves=[recorder], progress=progress)
    return recorder.choices()


class _ChoiceRecorder:
    """A `MoveObserver` that records the choice in each position."""

    def __init__(self, count: int) -> None:
        self._actions = np.empty(count, np.int64)
        self._values = np.full(count, np.nan, np.float32)

    def decided(self, moves: Moves) -> None:
        self._actions[moves.numbers] = moves.actions
        if isinstance(moves.player, SearchPlayer):
            self._values[moves.numbers] = moves.player.search.root_values(moves.slots)

    def choices(self) -> MoveChoices:
        """Return the choices in all positions."""
        has_no_values = np.isnan(self._values).all()
        return MoveChoices(self._actions, None if has_no_values else self._values)


class Grades(NamedTuple):
    """Grades of the moves in n positions; expected grades for a random player."""

    strong: NDArray[Any]
    """[n], True for a best move; a float64 probability for a random player."""
    weak: NDArray[Any]
    """[n], True for a move that preserves the result; a float64 probability for a random player."""
    regret: NDArray[np.float64]
    """[n], value of the best move minus value of the move; NaN if the player forfeited."""
    games: NDArray[np.int64]
    """[n], game number of the position."""

    def take(self, rows: NDArray[np.bool_]) -> Grades:
        """Return the grades of the positions selected by `rows`, bool[n]."""
        return Grades(self.strong[rows], self.weak[rows], self.regret[rows], self.games[rows])


def grade_moves(positions: Positions, actions: NDArray[np.int64]) -> Grades:
    """Return the grades of actions int64[n]; a forfeit is neither strong nor weak."""
    best = positions.best
    is_forfeit = actions == FORFEIT
    values = positions.values[np.arange(len(actions)), np.where(is_forfeit, 0, actions)]
    values = values.astype(np.float64)
    return Grades(
        (values == best) & ~is_forfeit,
        (np.sign(values) == np.sign(best)) & ~is_forfeit,
        np.where(is_forfeit, np.nan, best - values),
        positions.games,
    )


def random_grades(positions: Positions) -> Grades:
    """Return the exact expected grades of uniformly random legal moves."""
    best, legal = positions.best[:, None], positions.legal
    values = np.where(legal, positions.values, 0)
    count = legal.sum(axis=1)
    return Grades(
        (legal & (values == best)).sum(axis=1) / count,
        (legal & (np.sign(values) == np.sign(best))).sum(axis=1) / count,
        (legal * (best - values)).sum(axis=1) / count,
        positions.games,
    )


def non_trivial(positions: Positions) -> NDArray[np.bool_]:
    """Return bool[n], True for positions where some legal move worsens the result.

    In all other positions, including all lost ones, every move is weak.
    """
    signs = np.sign(positions.values)
    worse = positions.legal & (signs < np.sign(positions.best)[:, None])
    return np.asarray(worse.any(axis=1))


MOST_RANGES = 8
"""Maximum number of rows in a table by ply, so that it fits on a screen."""


class Accuracy(NamedTuple):
    """Accuracy of moves in a set of positions; None without positions."""

    strong: Estimate | None
    weak: Estimate | None
    regret: Estimate | None
    """Value of the best move minus value of the move, in discs for Othello. In other games the
    value also depends on the speed of a win or loss."""


class ValueAccuracy(NamedTuple):
    """Accuracy of predicted values compared with the exact results -1, 0 and 1."""

    squared_error: Estimate | None
    sign: Estimate | None
    """Share of won and lost positions where the value has the correct sign."""


class PlyRange(NamedTuple):
    """Accuracy of moves in a range of plies."""

    first_ply: int
    last_ply: int
    accuracy: Accuracy


class AccuracyReport(NamedTuple):
    """Accuracy of a player on solved positions."""

    name: str
    all: Accuracy
    non_trivial: Accuracy
    """Accuracy in positions where some legal move worsens the result (`non_trivial`)."""
    by_ply: dict[int, Accuracy]
    by_ply_range: list[PlyRange]
    """Accuracy in at most MOST_RANGES ranges with similar numbers of positions."""
    value: ValueAccuracy | None
    """None for a player without values."""

    @property
    def is_measured(self) -> bool:
        """True if the numbers have intervals; the accuracy of random moves is exact."""
        strong = self.all.strong
        return strong is not None and strong.interval.low < strong.interval.high


def accuracy_report(name: str, positions: Positions, choices: MoveChoices) -> AccuracyReport:
    """Compare a player's choices with the exact values."""
    value = None if choices.values is None else _value_accuracy(choices.values, positions)
    grades = grade_moves(positions, choices.actions)
    return _report(name, positions, grades, _estimate_accuracy, value)


def random_accuracy_report(positions: Positions) -> AccuracyReport:
    """Return the exact expected accuracy of uniformly random moves."""
    return _report("random, expected", positions, random_grades(positions), _exact_accuracy, None)


def _estimate_accuracy(grades: Grades) -> Accuracy:
    return Accuracy(
        proportion_estimate(grades.strong, grades.games),
        proportion_estimate(grades.weak, grades.games),
        mean_estimate(grades.regret, grades.games),
    )


def _exact_accuracy(grades: Grades) -> Accuracy:
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
    in_non_trivial = measure(grades.take(non_trivial(positions)))
    return AccuracyReport(name, measure(grades), in_non_trivial, by_ply, ranges, value)


def ply_ranges(plies: NDArray[np.int64], limit: int = MOST_RANGES) -> list[tuple[int, int]]:
    """Return the first and last plies of at most `limit` ranges with similar position counts.

    `plies` is int64[n], one per position. The sorted positions are divided evenly, and each ply is
    assigned to the range that includes the middle of its positions.
    """
    distinct, counts = np.unique(plies, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    ranges = (middles * limit / max(1, len(plies))).astype(np.int64)
    members = [distinct[ranges == number] for number in np.unique(ranges)]
    return [(int(range_plies[0]), int(range_plies[-1])) for range_plies in members]


def _value_accuracy(values: NDArray[np.float32], positions: Positions) -> ValueAccuracy:
    results = np.sign(positions.best).astype(np.float64)
    is_decisive = results != 0
    hits = np.sign(values[is_decisive]) == results[is_decisive]
    return ValueAccuracy(
        mean_estimate((values - results) ** 2, positions.games),
        proportion_estimate(hits, positions.games[is_decisive]),
    )


def agent_accuracy(
    agent: Agent,
    positions: Positions,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> list[AccuracyReport]:
    """Return the accuracy of an agent's network alone, of the agent, and of random moves.

    An agent without a network has no report for the network, and an agent without a search has none
    for the agent. `progress` counts finished positions.
    """
    reports = []
    if agent.evaluator is not None:
        choices = network_choices(agent.evaluator(), positions)
        reports.append(accuracy_report("network", positions, choices))
    if not isinstance(agent.new_player(), PolicyPlayer):
        name = "player" if agent.evaluator is None else "search"
        choices = player_choices(agent, positions, seed, progress)
        reports.append(accuracy_report(name, positions, choices))
    return [*reports, random_accuracy_report(positions)]
