"""Games in which positions are solved and collected (C, FACTS 4)."""

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

_LONGEST = 1 << 15  # a ply is kept in 16 bits


class Recipe(Settings):
    """Which positions are collected; with a game and game numbers it decides everything."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """What all random streams derive from."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """How likely a ply is a best move; the others are uniform. C: 0.5; its easy test set: 0.9."""

    one_per_game: bool = False
    """One random position per game instead of all. [Clausen2021]: all in version 1, one in 2."""

    first_ply: int = Field(default=0, ge=0, lt=_LONGEST)
    """Until this ply moves are uniform, nothing is solved and nothing collected. C: 0."""

    last_ply: int = Field(default=_LONGEST - 1, ge=0, lt=_LONGEST)
    """Games are left after this ply. C: never."""

    nodes: int | None = Field(default=None, ge=1)
    """Positions that take the solver more nodes are left out; without, it takes its time."""

    @property
    def budget(self) -> Budget | None:
        """The solver's budget for each position, None where it has none."""
        return None if self.nodes is None else Budget(nodes=self.nodes)

    @model_validator(mode="after")
    def _not_empty(self) -> Recipe:
        if self.first_ply > self.last_ply:
            raise ValueError(f"plies {self.first_ply}:{self.last_ply}: nothing lies between them")
        return self


class Counts(NamedTuple):
    """What became of the positions that games came to."""

    games: int = 0
    all_optimal: int = 0
    """Left out, because every move is best there."""
    unsolved: int = 0
    """Left out, because the oracle's budget was spent."""

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Collected(NamedTuple):
    """The positions of some games, by game and ply."""

    positions: Positions
    counts: Counts


def collect(game: Game, oracle: Oracle, recipe: Recipe, numbers: range) -> Collected:
    """Play the games of these numbers and collect their positions.

    What a game brings depends on its number alone, provided that what the oracle can solve does not
    depend on what it has solved before.
    """
    table = _Table(game, numbers)
    rows: list[_Row] = []
    all_optimal = unsolved = 0
    for ply in range(recipe.last_ply + 1):
        if not table.running.size:
            break
        keys = table.keys(recipe.seed, streams.DATASET_MOVE)
        states = table.states[table.running]
        weights = legal_masks(game, states)
        if ply >= recipe.first_ply:
            values, solved = solve(game, oracle, states)
            best = values == values.max(axis=1, keepdims=True)
            telling = solved & (best != weights).any(axis=1)
            rows += table.rows(values, telling)
            all_optimal += int((solved & ~telling).sum())
            unsolved += int((~solved).sum())
            skilled = solved & (_uniform(keys) < recipe.perfect)
            weights = np.where(skilled[:, None], best, weights)
        table.play(choose_actions(weights.astype(np.int32), keys, np.zeros(len(keys), np.bool_)))
    if recipe.one_per_game:
        rows = _one_per_game(rows, recipe.seed)
    positions = _as_positions(game, sorted(rows, key=lambda row: (row.game, len(row.line))))
    return Collected(positions, Counts(len(numbers), all_optimal, unsolved))


class _Row(NamedTuple):
    game: int
    line: tuple[int, ...]
    state: NDArray[np.uint64]
    values: NDArray[np.int32]


class _Table:
    """Games in lockstep."""

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

    def rows(self, values: NDArray[np.int32], wanted: NDArray[np.bool_]) -> list[_Row]:
        """Return the positions of the running games that are wanted."""
        return [
            _Row(int(self.numbers[n]), self.lines[n], self.states[n].copy(), values[at])
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


def _one_per_game(rows: list[_Row], seed: int) -> list[_Row]:
    """Keep of each game the position with the highest draw."""
    games = np.array([row.game for row in rows], np.int64)
    plies = np.array([len(row.line) for row in rows], np.int64)
    draws = streams.streams(seed, 0, games, plies, streams.DATASET_PICK).tolist()
    chosen: dict[int, tuple[int, _Row]] = {}
    for draw, row in zip(draws, rows, strict=True):
        if row.game not in chosen or draw > chosen[row.game][0]:
            chosen[row.game] = draw, row
    return [row for _, row in chosen.values()]


def _as_positions(game: Game, rows: list[_Row]) -> Positions:
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
    budget is spent, every value is ILLEGAL. `report` is told how many different states are done.
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
