"""Accuracy of moves and values on solved positions, overall and by ply [Clausen2021].

A *strong* move has the highest exact value: a fastest win, a slowest loss or, in Othello, the most
discs. A *weak* move preserves the result (win, draw or loss) under perfect play. The *regret* of a
move is the value of the best move minus the value of the move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.evaluation.position_statistics import (
    MeanEstimate,
    exact_estimate,
    mean_estimate,
    proportion_estimate,
)
from zerolab.evaluation.positions import SolvedPositions
from zerolab.play.engine import (
    EngineSetup,
    ProgressCallback,
    any_has_network,
    play_pairings,
    slots_per_thread_in_memory,
    useful_thread_count,
)
from zerolab.play.executors import (
    THREAD_EXECUTOR,
    EngineJob,
    Executor,
    GameBatch,
    PlayProgress,
    PlayProgressCallback,
    executor_for,
    play_progress_callback,
)
from zerolab.play.observers import ChosenMoves
from zerolab.play.pairings import Pairing
from zerolab.search.evaluator import Evaluator

_NETWORK_BATCH = 1024
_MIN_SLOTS = 64
_PARTS_PER_THREAD = 8  # several, so that progress is reported regularly


class MoveChoices(NamedTuple):
    """Moves chosen by a player in n positions, and the player's estimates of the positions."""

    actions: NDArray[np.int64]
    """[n], legal actions, or `FORFEIT_ACTION`."""
    position_values: NDArray[np.float32] | None
    """[n], expected outcomes for the side to move, in [-1, 1]; None if not estimated."""


def network_choices(evaluator: Evaluator, positions: SolvedPositions) -> MoveChoices:
    """Return the legal move with the highest prior, and the network's value, for each position."""
    from zerolab.networks.inference import limit_torch_threads  # noqa: PLC0415  slow import

    actions = np.empty(len(positions), np.int64)
    values = np.empty(len(positions), np.float32)
    legal = positions.legal
    with limit_torch_threads(1):  # as in games; on several cores the last bits can differ
        for begin in range(0, len(positions), _NETWORK_BATCH):
            rows = slice(begin, begin + _NETWORK_BATCH)
            priors, values[rows] = evaluator.evaluate(positions.states[rows])
            actions[rows] = np.where(legal[rows], priors, -1.0).argmax(axis=1)
    return MoveChoices(actions, values)


def player_choices(
    agent: Agent,
    positions: SolvedPositions,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
    *,
    executor: Executor = THREAD_EXECUTOR,
    chunks: int | None = None,
) -> MoveChoices:
    """Return an agent's choices; each position is reached by playing its moves from the start.

    Random streams depend only on (seed, position number, ply). All cores are used, with one chunk
    of positions per thread unless `chunks` is set. The position values of an agent that searches
    are its root values. `progress` counts finished positions.
    """
    threads = useful_thread_count(available_cores(), len(positions), any_has_network([agent]))
    part_size = -(-len(positions) // (threads * _PARTS_PER_THREAD))
    slots = min(slots_per_thread_in_memory([agent], threads), max(_MIN_SLOTS, part_size))
    setup = EngineSetup(positions.game, [agent], seed, 0, threads, slots, (streams.ACCURACY_MOVE,))
    pairings = [
        Pairing(row, agent.name, agent.name, row, positions.move_sequence(row), max_plies=1)
        for row in range(len(positions))
    ]
    chosen, report = executor_for([agent], executor), play_progress_callback(progress)
    chunks = min(chunks if chunks and chosen is executor else threads, len(positions))
    batches = [pairings[chunk::chunks] for chunk in range(chunks)]
    parts = chosen.run(_choose_moves, EngineJob(setup), batches, report)
    rows, actions, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows)
    has_no_values = np.isnan(values).all()
    return MoveChoices(actions[order], None if has_no_values else values[order])


class _Choices(NamedTuple):
    """Choices in n of the positions."""

    rows: NDArray[np.int64]
    actions: NDArray[np.int64]
    values: NDArray[np.float32]
    """[n], root values of searches; NaN for players that do not search."""


def _choose_moves(
    job: EngineJob, batches: Sequence[GameBatch], report: PlayProgressCallback
) -> _Choices:
    """Choose the moves in the positions of some batches."""
    recorder = _ChoiceRecorder()
    play_pairings(
        job.setup, batches, move_observers=[recorder],
        progress=lambda done, note: report(PlayProgress(done, 0, note=note)),
    )  # fmt: skip
    return recorder.choices()


class _ChoiceRecorder:
    """`MoveObserver` that records the choice in each position."""

    def __init__(self) -> None:
        nothing = np.empty(0, np.int64)
        self._parts = [_Choices(nothing, nothing, np.empty(0, np.float32))]

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
        if isinstance(moves.player, SearchPlayer):
            values = moves.player.search.root_values(moves.player_slots)
        else:
            values = np.full(len(moves.actions), np.nan)
        self._parts.append(
            _Choices(moves.game_numbers, moves.actions.copy(), values.astype(np.float32))
        )

    def choices(self) -> _Choices:
        """Return the choices in all positions, after all games have finished."""
        return _Choices(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))


class MoveGrades(NamedTuple):
    """Grades of the moves chosen in n positions, or expected grades of random moves."""

    is_best: NDArray[Any]
    """[n], True for a best move; for random moves, a float64 probability."""
    preserves_result: NDArray[Any]
    """[n], True for a move that preserves the result; for random moves, a float64 probability."""
    regret: NDArray[np.float64]
    """[n], value of the best move minus value of the move; NaN if the player forfeited."""
    game_numbers: NDArray[np.int64]
    """[n], number of the game that contains the position."""

    def take(self, rows: NDArray[np.bool_]) -> MoveGrades:
        """Return the grades of the positions selected by `rows`, bool[n]."""
        return MoveGrades(
            self.is_best[rows],
            self.preserves_result[rows],
            self.regret[rows],
            self.game_numbers[rows],
        )


def grade_moves(positions: SolvedPositions, actions: NDArray[np.int64]) -> MoveGrades:
    """Return the grades of actions, int64[n]; a forfeit is neither strong nor weak."""
    best = positions.position_values
    is_forfeit = actions == FORFEIT_ACTION
    values = positions.action_values[np.arange(len(actions)), np.where(is_forfeit, 0, actions)]
    values = values.astype(np.float64)
    return MoveGrades(
        (values == best) & ~is_forfeit,
        (np.sign(values) == np.sign(best)) & ~is_forfeit,
        np.where(is_forfeit, np.nan, best - values),
        positions.game_numbers,
    )


def random_move_grades(positions: SolvedPositions) -> MoveGrades:
    """Return the exact expected grades of uniformly random legal moves."""
    best, legal = positions.position_values[:, None], positions.legal
    values = np.where(legal, positions.action_values, 0)
    count = legal.sum(axis=1)
    return MoveGrades(
        (legal & (values == best)).sum(axis=1) / count,
        (legal & (np.sign(values) == np.sign(best))).sum(axis=1) / count,
        (legal * (best - values)).sum(axis=1) / count,
        positions.game_numbers,
    )


def non_trivial_mask(positions: SolvedPositions) -> NDArray[np.bool_]:
    """Return bool[n], True for positions where some legal move worsens the result.

    In all other positions, which include all lost ones, every move is weak.
    """
    signs = np.sign(positions.action_values)
    worse = positions.legal & (signs < np.sign(positions.position_values)[:, None])
    return np.asarray(worse.any(axis=1))


MAX_PLY_RANGES = 8
"""Maximum number of ply ranges, so that a table with one row per range fits on a screen."""


class MoveAccuracy(NamedTuple):
    """Accuracy of moves in a set of positions; None where there are too few positions."""

    strong: MeanEstimate | None
    weak: MeanEstimate | None
    regret: MeanEstimate | None
    """Value of the best move minus the value of the chosen move; in Othello, a number of discs. In
    other games, values also depend on the speed of a win or loss."""


class ValueAccuracy(NamedTuple):
    """Accuracy of predicted values compared with the exact results -1, 0 and 1."""

    mean_squared_error: MeanEstimate | None
    correct_sign_share: MeanEstimate | None
    """Share of won and lost positions for which the value has the correct sign."""


class PlyRangeAccuracy(NamedTuple):
    """Accuracy of moves in a range of plies."""

    first_ply: int
    last_ply: int
    accuracy: MoveAccuracy


class AccuracyReport(NamedTuple):
    """Accuracy of a player on solved positions."""

    name: str
    all_positions: MoveAccuracy
    non_trivial: MoveAccuracy
    """Accuracy in positions where some legal move worsens the result (see `non_trivial_mask`)."""
    by_ply: dict[int, MoveAccuracy]
    by_ply_range: list[PlyRangeAccuracy]
    """Accuracy in at most MAX_PLY_RANGES ranges with similar numbers of positions."""
    value_accuracy: ValueAccuracy | None
    """Accuracy of the player's estimates of position values; None if there are no estimates."""

    @property
    def has_intervals(self) -> bool:
        """True if the accuracy was measured; the accuracy of random moves is exact."""
        strong = self.all_positions.strong
        return strong is not None and strong.interval.low < strong.interval.high


def accuracy_report(name: str, positions: SolvedPositions, choices: MoveChoices) -> AccuracyReport:
    """Return the accuracy of a player's choices, compared with the exact values."""
    estimates = choices.position_values
    value = None if estimates is None else _value_accuracy(estimates, positions)
    grades = grade_moves(positions, choices.actions)
    return _report(name, positions, grades, _estimate_accuracy, value)


def random_move_accuracy_report(positions: SolvedPositions) -> AccuracyReport:
    """Return the exact expected accuracy of uniformly random moves."""
    return _report(
        "random, expected", positions, random_move_grades(positions), _exact_accuracy, None
    )


def _estimate_accuracy(grades: MoveGrades) -> MoveAccuracy:
    return MoveAccuracy(
        proportion_estimate(grades.is_best, grades.game_numbers),
        proportion_estimate(grades.preserves_result, grades.game_numbers),
        mean_estimate(grades.regret, grades.game_numbers),
    )


def _exact_accuracy(grades: MoveGrades) -> MoveAccuracy:
    return MoveAccuracy(
        exact_estimate(grades.is_best),
        exact_estimate(grades.preserves_result),
        exact_estimate(grades.regret),
    )


def _report(
    name: str,
    positions: SolvedPositions,
    grades: MoveGrades,
    measure: Callable[[MoveGrades], MoveAccuracy],
    value: ValueAccuracy | None,
) -> AccuracyReport:
    plies = positions.plies
    by_ply = {int(ply): measure(grades.take(plies == ply)) for ply in np.unique(plies)}
    ranges = [
        PlyRangeAccuracy(first, last, measure(grades.take((first <= plies) & (plies <= last))))
        for first, last in ply_ranges(plies)
    ]
    in_non_trivial = measure(grades.take(non_trivial_mask(positions)))
    return AccuracyReport(name, measure(grades), in_non_trivial, by_ply, ranges, value)


def ply_ranges(plies: NDArray[np.int64], max_ranges: int = MAX_PLY_RANGES) -> list[tuple[int, int]]:
    """Return the first and last ply of at most `max_ranges` ranges with similar position counts.

    `plies`, int64[n], contains the ply of each position. The positions, sorted by ply, are divided
    evenly, and a ply belongs to the range that includes the middle of its positions.
    """
    distinct, counts = np.unique(plies, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    ranges = (middles * max_ranges / max(1, len(plies))).astype(np.int64)
    members = [distinct[ranges == number] for number in np.unique(ranges)]
    return [(int(range_plies[0]), int(range_plies[-1])) for range_plies in members]


def _value_accuracy(values: NDArray[np.float32], positions: SolvedPositions) -> ValueAccuracy:
    results = np.sign(positions.position_values).astype(np.float64)
    is_decisive = results != 0
    hits = np.sign(values[is_decisive]) == results[is_decisive]
    return ValueAccuracy(
        mean_estimate((values - results) ** 2, positions.game_numbers),
        proportion_estimate(hits, positions.game_numbers[is_decisive]),
    )


def agent_accuracy_reports(
    agent: Agent,
    positions: SolvedPositions,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
) -> list[AccuracyReport]:
    """Return reports for an agent's network without search, for the agent, and for random moves.

    There is no network report if the agent has no network, and no agent report if the agent always
    plays the best move of its network's policy. `progress` counts finished positions.
    """
    reports = []
    if agent.load_evaluator is not None:
        choices = network_choices(agent.load_evaluator(), positions)
        reports.append(accuracy_report("network", positions, choices))
    searches = not isinstance(agent.new_player(), PolicyPlayer)
    if searches or agent.is_stochastic:
        name = "search" if searches and agent.load_evaluator is not None else "player"
        choices = player_choices(agent, positions, seed, progress)
        reports.append(accuracy_report(name, positions, choices))
    return [*reports, random_move_accuracy_report(positions)]
