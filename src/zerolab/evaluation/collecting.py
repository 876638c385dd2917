"""Games in which positions are solved and collected [Clausen2021]."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.agents.interface import Actions, Agent, Slots, StatelessPlayer
from zerolab.core import streams
from zerolab.core.config import Settings
from zerolab.evaluation.boards import legal_masks
from zerolab.evaluation.positions import Positions
from zerolab.oracles.interface import ILLEGAL, NotSolvedError, Oracle
from zerolab.oracles.solver import Budget
from zerolab.play.engine import play_schedule
from zerolab.play.observers import Moves
from zerolab.play.schedule import ScheduledGame
from zerolab.play.worker import Setup
from zerolab.rules import host
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of
from zerolab.search.search import choose_actions

_PLY_LIMIT = 1 << 15  # a ply is kept in 16 bits
_LOW_BITS = np.uint64(0xFFFFFFFF)  # of a key; those that decide on a best move are the others


class DatasetSettings(Settings):
    """Which positions are collected; a game's positions depend on them and its number alone."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """What all random streams derive from."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """Probability that a ply is a best move; other plies are uniformly random.

    [Clausen2021]: 0.5; its easy test set: 0.9.
    """

    one_per_game: bool = False
    """One random position per game instead of all. [Clausen2021]: all in version 1, one in 2."""

    first_ply: int = Field(default=0, ge=0, lt=_PLY_LIMIT)
    """Before this ply moves are uniformly random, and nothing is solved. [Clausen2021]: 0."""

    last_ply: int = Field(default=_PLY_LIMIT - 1, ge=0, lt=_PLY_LIMIT)
    """Games end after this ply. [Clausen2021]: they are played to their end."""

    nodes: int | None = Field(default=None, ge=1, lt=1 << 63)
    """Positions that take the solver more nodes are left out; None: none are."""

    @property
    def budget(self) -> Budget | None:
        """The solver's budget for each position, None where it has none."""
        return None if self.nodes is None else Budget(nodes=self.nodes)

    @model_validator(mode="after")
    def _not_empty(self) -> DatasetSettings:
        if self.first_ply > self.last_ply:
            raise ValueError(f"plies {self.first_ply}:{self.last_ply}: nothing lies between them")
        return self


class CollectionCounts(NamedTuple):
    """How many games were played, and how many of their positions were left out."""

    games: int = 0
    all_optimal: int = 0
    """Left out because every move is a best one, of those that were looked at."""
    unsolved: int = 0
    """Left out because the oracle's budget was spent."""

    def plus(self, other: CollectionCounts) -> CollectionCounts:
        """Return the sums."""
        return CollectionCounts(*(a + b for a, b in zip(self, other, strict=True)))


class Collection(NamedTuple):
    """The positions of some games, by game and ply."""

    positions: Positions
    counts: CollectionCounts


def collect(game: Game, oracle: Oracle, settings: DatasetSettings, numbers: range) -> Collection:
    """Play the games of these numbers and collect their positions.

    The positions of a game depend on its number alone, provided that what the oracle can solve does
    not depend on what it has solved before.
    """
    agent = Agent("solver", lambda: _Solver(game, oracle, settings), game=game)
    schedule = [
        ScheduledGame(number, agent.name, agent.name, number, plies=settings.last_ply + 1)
        for number in numbers
    ]
    setup = Setup(game, [agent], settings.seed, 0, 1, len(schedule), (streams.DATASET_MOVE,))
    found = _Collector()
    play_schedule(setup, [schedule] if schedule else [], moves=[found])
    rows = _last_of_games(found.rows) if settings.one_per_game else found.rows
    positions = _as_positions(game, sorted(rows, key=lambda row: (row.game, len(row.line))))
    counts = CollectionCounts(len(numbers), found.all_optimal, found.unsolved)
    return Collection(positions, counts)


class _SolvedPosition(NamedTuple):
    game: int
    line: tuple[int, ...]
    """The moves that lead to it."""
    state: NDArray[np.uint64]
    """[words]"""
    values: NDArray[np.int32]
    """[actions]"""


class _Solver(StatelessPlayer):
    """Plays a best move with some probability, and a uniformly random one otherwise.

    What it finds out about the positions that it is asked about is there until the next ones.
    """

    name = "solver"

    def __init__(self, game: Game, oracle: Oracle, settings: DatasetSettings) -> None:
        self._game = game
        self._oracle = oracle
        self._settings = settings

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self._plies = np.zeros(games, np.int64)
        self._picked = np.full(games, -1, np.int64)

    def reset(self, slots: Slots) -> None:
        """See `Player.reset`."""
        self._plies[slots] = 0
        self._picked[slots] = -1

    def advance(self, slots: Slots, actions: Actions) -> None:
        """See `Player.advance`."""
        self._plies[slots] += 1

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`.

        What is solved: where a best move is to be played, and what may be kept. Of one position per
        game, that is what has a larger random number than those before, so that the last one
        found is uniformly random among all that would do.
        """
        legal = legal_masks(self._game, states)
        self.values = np.full(legal.shape, ILLEGAL, np.int32)
        may_solve = self._plies[slots] >= self._settings.first_ply
        perfect = may_solve & (_uniform(keys) < self._settings.perfect)
        picks = (keys & _LOW_BITS).astype(np.int64)
        if self._settings.one_per_game:
            self.is_candidate = may_solve & (picks > self._picked[slots])
        else:
            self.is_candidate = may_solve
        self.is_solved = perfect | self.is_candidate
        asked = np.flatnonzero(self.is_solved)
        if asked.size:
            solutions = solve(self._game, self._oracle, states[asked])
            self.values[asked], self.is_solved[asked] = solutions
        best = self.values == self.values.max(axis=1, keepdims=True)
        self.is_kept = self.is_candidate & self.is_solved & (best != legal).any(axis=1)
        self._picked[slots] = np.where(self.is_kept, picks, self._picked[slots])
        weights = np.where((perfect & self.is_solved)[:, None], best, legal).astype(np.int32)
        return choose_actions(weights, keys, np.zeros(len(keys), np.bool_))


class _Collector:
    """Keeps the positions that may be kept, and counts the others; a `MoveObserver`."""

    def __init__(self) -> None:
        self.rows: list[_SolvedPosition] = []
        self.all_optimal = 0
        self.unsolved = 0

    def decided(self, moves: Moves) -> None:
        """See `MoveObserver.decided`."""
        player = moves.player
        assert isinstance(player, _Solver)
        self.rows += [
            _SolvedPosition(
                int(moves.numbers[at]), tuple(moves.histories[int(at)]), moves.states[at],
                player.values[at],
            )
            for at in np.flatnonzero(player.is_kept)
        ]  # fmt: skip
        refused = player.is_candidate & ~player.is_kept
        self.all_optimal += int((refused & player.is_solved).sum())
        self.unsolved += int((refused & ~player.is_solved).sum())


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each stream, from its key."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _last_of_games(rows: list[_SolvedPosition]) -> list[_SolvedPosition]:
    return list({row.game: row for row in rows}.values())


def _as_positions(game: Game, rows: list[_SolvedPosition]) -> Positions:
    state = host.start(game)
    return Positions(
        game,
        np.array([row.game for row in rows], np.int64),
        np.array([move for row in rows for move in row.line], np.int16),
        np.cumsum([0, *(len(row.line) for row in rows)], dtype=np.int64),
        np.array([row.state for row in rows], np.uint64).reshape(len(rows), len(state)),
        np.array([row.values for row in rows], np.int32).reshape(len(rows), actions_of(game)),
    )


def solve(
    game: Game,
    oracle: Oracle,
    states: NDArray[np.uint64],
    report: Callable[[int], None] = lambda _: None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Solve ongoing states uint64[n, words], equal ones once.

    Returns the values int32[n, actions] and which states are solved, bool[n]; where the oracle's
    budget is spent, every value is ILLEGAL. `report` gets the number of different states done.
    """
    different, where = np.unique(states, axis=0, return_inverse=True)
    values = np.full((len(different), actions_of(game)), ILLEGAL, np.int32)
    solved = np.ones(len(different), np.bool_)
    for row, state in enumerate(different):
        try:
            values[row] = oracle.action_values(state[None])[0]
        except NotSolvedError:
            solved[row] = False
        report(row + 1)
    places = where.reshape(-1)
    return values[places], solved[places]
