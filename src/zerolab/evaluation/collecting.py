"""Games in which positions are solved and collected [Clausen2021]."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core import streams
from zerolab.core.config import Settings
from zerolab.evaluation.boards import legal_masks
from zerolab.evaluation.positions import Positions
from zerolab.oracles.interface import ILLEGAL, NotSolvedError, Oracle
from zerolab.oracles.solver import Budget
from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game
from zerolab.rules.interface import actions as actions_of
from zerolab.search.search import choose_actions

_PLY_LIMIT = 1 << 15  # a ply is kept in 16 bits


class DatasetSettings(Settings):
    """Which positions are collected; with a game and game numbers they decide everything."""

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
    """Left out because every move is a best one."""
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
    played = _Games(game, numbers)
    rows: list[_SolvedPosition] = []
    all_optimal = unsolved = 0
    for ply in range(settings.last_ply + 1):
        if not played.running.size:
            break
        keys = played.keys(settings.seed, streams.DATASET_MOVE)
        states = played.states[played.running]
        weights = legal_masks(game, states)
        if ply >= settings.first_ply:
            values, solved = solve(game, oracle, states)
            best = values == values.max(axis=1, keepdims=True)
            informative = solved & (best != weights).any(axis=1)
            rows += played.rows(values, informative)
            all_optimal += int((solved & ~informative).sum())
            unsolved += int((~solved).sum())
            perfect = solved & (_uniform(keys) < settings.perfect)
            weights = np.where(perfect[:, None], best, weights)
        played.play(choose_actions(weights.astype(np.int32), keys, np.zeros(len(keys), np.bool_)))
    if settings.one_per_game:
        rows = _one_per_game(rows, settings.seed)
    positions = _as_positions(game, sorted(rows, key=lambda row: (row.game, len(row.line))))
    return Collection(positions, CollectionCounts(len(numbers), all_optimal, unsolved))


class _SolvedPosition(NamedTuple):
    game: int
    line: tuple[int, ...]
    """The moves that lead to it."""
    state: NDArray[np.uint64]
    """[words]"""
    values: NDArray[np.int32]
    """[actions]"""


class _Games:
    """Games that advance together, one ply at a time."""

    def __init__(self, game: Game, numbers: range) -> None:
        self.game = game
        self.numbers = np.array(numbers, np.int64)
        self.states = np.repeat(host.start(game)[None], len(numbers), axis=0)
        self.lines: list[tuple[int, ...]] = [()] * len(numbers)
        self.running = np.arange(len(numbers))
        self.ply = 0

    def keys(self, seed: int, purpose: int) -> NDArray[np.uint64]:
        """Return a random stream for each running game at this ply."""
        games = self.numbers[self.running]
        return streams.streams(seed, 0, games, np.full(len(games), self.ply), purpose)

    def rows(self, values: NDArray[np.int32], wanted: NDArray[np.bool_]) -> list[_SolvedPosition]:
        """Return the positions of some of the running games, bool[running], with their values."""
        return [
            _SolvedPosition(int(self.numbers[n]), self.lines[n], self.states[n].copy(), values[at])
            for at, n in enumerate(self.running)
            if wanted[at]
        ]

    def play(self, actions: NDArray[np.int64]) -> None:
        """Play one action in every running game."""
        outcomes = host.apply_batch(self.game, self.states, self.running, actions)
        for n, action in zip(self.running, actions.tolist(), strict=True):
            self.lines[n] = (*self.lines[n], action)
        self.running = self.running[outcomes == ONGOING]
        self.ply += 1


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each stream, from its key."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _one_per_game(rows: list[_SolvedPosition], seed: int) -> list[_SolvedPosition]:
    """Keep one position of each game, that of the largest random number."""
    games = np.array([row.game for row in rows], np.int64)
    plies = np.array([len(row.line) for row in rows], np.int64)
    draws = streams.streams(seed, 0, games, plies, streams.DATASET_PICK).tolist()
    chosen: dict[int, tuple[int, _SolvedPosition]] = {}
    for draw, row in zip(draws, rows, strict=True):
        if row.game not in chosen or draw > chosen[row.game][0]:
            chosen[row.game] = draw, row
    return [row for _, row in chosen.values()]


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
