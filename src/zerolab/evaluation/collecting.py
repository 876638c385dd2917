"""Games whose positions are solved and collected [Clausen2021].

A player plays best moves and random ones, and a collector observes it. There are two pairs: one
keeps every position; the other keeps one position per game and has far less to solve.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.agents.agent import Actions, Agent, Slots, StatelessPlayer
from zerolab.core import streams
from zerolab.core.config import Settings
from zerolab.evaluation.positions import (
    UNSOLVED,
    Positions,
    legal_masks,
    solve_first_best,
    solve_states,
)
from zerolab.oracles.oracle import ILLEGAL, Oracle, best_mask
from zerolab.oracles.solver import SolverBudget
from zerolab.play.engine import EngineSetup, play_pairings
from zerolab.play.observers import Moves
from zerolab.play.pairings import Pairing
from zerolab.rules import python
from zerolab.rules.rules import Game
from zerolab.rules.rules import actions as actions_of
from zerolab.search.roots import choose_actions


class SolvedPosition(NamedTuple):
    """A position of a game with the exact values of its moves."""

    game: int
    line: tuple[int, ...]
    """The moves that lead to it."""
    state: NDArray[np.uint64]
    """[words]"""
    values: NDArray[np.int32]
    """[actions]"""


class _SolverPlayer(StatelessPlayer):
    """Plays a best move with some probability, and a uniformly random one otherwise.

    What it finds out about the current positions is kept until the next call.
    """

    name = "solver"

    def __init__(self, game: Game, oracle: Oracle, first_ply: int, perfect: float) -> None:
        """Play at random before `first_ply`, then best moves with probability `perfect`."""
        self._game = game
        self._oracle = oracle
        self._first_ply = first_ply
        self._perfect = perfect

    def start(self, games: int) -> None:
        self._plies = np.zeros(games, np.int64)

    def reset(self, slots: Slots) -> None:
        self._plies[slots] = 0

    def advance(self, slots: Slots, actions: Actions) -> None:
        self._plies[slots] += 1

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        self.is_candidate = self._are_candidates(slots)
        perfect = self.is_candidate & (_uniform(keys) < self._perfect)
        best = self._look_at(states, perfect, keys)
        plays_best = (perfect & best.any(axis=1))[:, None]
        weights = np.where(plays_best, best, legal_masks(self._game, states)).astype(np.int32)
        return choose_actions(weights, keys, np.zeros(len(keys), np.bool_))

    def _are_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        """Return bool[n], True for positions that may be kept."""
        candidates: NDArray[np.bool_] = self._plies[slots] >= self._first_ply
        return candidates

    def _look_at(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return the known best actions, bool[n, actions]; one of them is played if `perfect`."""
        raise NotImplementedError


class _SolvesAll(_SolverPlayer):
    """Solves all candidates."""

    def _look_at(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        asked = np.flatnonzero(self.is_candidate)
        self.values = np.full((len(states), actions_of(self._game)), ILLEGAL, np.int32)
        self.is_solved = np.zeros(len(states), np.bool_)
        self.values[asked], self.is_solved[asked] = solve_states(
            self._game, self._oracle, states[asked]
        )
        best: NDArray[np.bool_] = best_mask(self.values) & self.is_solved[:, None]
        return best


class _SolvesWhatItPlays(_SolverPlayer):
    """Solves only positions where a best move is to be played, until its game is settled."""

    def start(self, games: int) -> None:
        super().start(games)
        self._is_settled = np.zeros(games, np.bool_)

    def reset(self, slots: Slots) -> None:
        super().reset(slots)
        self._is_settled[slots] = False

    def settle(self, slots: Slots) -> None:
        """Play at random in games whose later positions are not needed."""
        self._is_settled[slots] = True

    def _are_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        return super()._are_candidates(slots) & ~self._is_settled[slots]

    def _look_at(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        best: NDArray[np.bool_] = np.zeros((len(states), actions_of(self._game)), np.bool_)
        asked = np.flatnonzero(perfect)
        orders = streams.permutations(keys[asked], best.shape[1])
        found = solve_first_best(self._oracle, states[asked], orders)
        known = found != UNSOLVED
        best[asked[known], found[known]] = True
        return best


class Collector:
    """Collects positions of games, and counts those left out; a `MoveObserver`."""

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        """Solve the positions that the player has not solved; `seed` determines random choices.

        Positions after `last_ply` are not collected.
        """
        self.all_optimal = 0
        self.unsolved = 0
        self._game = game
        self._oracle = oracle
        self._seed = seed
        self._last_ply = last_ply

    def decided(self, moves: Moves) -> None:
        raise NotImplementedError

    def found(self) -> list[SolvedPosition]:
        """Return the positions of the finished games."""
        raise NotImplementedError

    def _may_be_kept(
        self, states: NDArray[np.uint64], values: NDArray[np.int32], solved: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return True for solved positions with a move that is not best; count the others."""
        has_choice: NDArray[np.bool_] = np.any(
            best_mask(values) != legal_masks(self._game, states), axis=1
        )
        self.all_optimal += int((solved & ~has_choice).sum())
        self.unsolved += int((~solved).sum())
        return solved & has_choice


class _CollectsAll(Collector):
    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._rows: list[SolvedPosition] = []

    def decided(self, moves: Moves) -> None:
        player = moves.player
        assert isinstance(player, _SolvesAll)
        at = np.flatnonzero(player.is_candidate)
        kept = self._may_be_kept(moves.states[at], player.values[at], player.is_solved[at])
        for row in at[kept]:
            line = tuple(moves.histories[int(row)])
            number, state = int(moves.numbers[row]), moves.states[row]
            self._rows.append(SolvedPosition(number, line, state, player.values[row]))

    def found(self) -> list[SolvedPosition]:
        return self._rows


class _Candidate(NamedTuple):
    rank: int
    line: tuple[int, ...]
    state: NDArray[np.uint64]
    """[words]"""


class _CollectsOnePerGame(Collector):
    """Solves the candidates of a game in order of random ranks, until one can be kept.

    The rank of a position depends only on its game and ply. A candidate is solved as soon as no
    later ply ranks above it; if it is kept, the rest of the game is not solved.
    """

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._plies = min(python.max_plies(game), last_ply + 1)
        self._candidates: dict[int, list[_Candidate]] = defaultdict(list)
        self._rows: list[SolvedPosition] = []

    def decided(self, moves: Moves) -> None:
        player = moves.player
        assert isinstance(player, _SolvesWhatItPlays)
        rows = np.flatnonzero(player.is_candidate)
        ranks = self._ranks(moves.numbers[rows])
        awaited = {}
        for row, each in zip(rows, ranks, strict=True):
            line, number = tuple(moves.histories[int(row)]), int(moves.numbers[row])
            candidate = _Candidate(int(each[len(line)]), line, moves.states[row])
            insort(self._candidates[number], candidate, key=lambda one: one.rank)
            awaited[number] = int(each[len(line) + 1 :].max(initial=0))
        settled = self._pick(awaited)
        player.settle(moves.slots[np.isin(moves.numbers, settled)])

    def found(self) -> list[SolvedPosition]:
        self._pick(dict.fromkeys(self._candidates, 0))
        return self._rows

    def _ranks(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return random ranks for all possible plies of games with these numbers."""
        plies = np.tile(np.arange(self._plies), len(numbers))
        games = numbers.repeat(self._plies)
        ranks = streams.streams(self._seed, 0, games, plies, streams.DATASET_PICK)
        return ranks.reshape(len(numbers), self._plies)

    def _pick(self, awaited: Mapping[int, int]) -> list[int]:
        """Try the candidates that rank above all later plies, whose best ranks are `awaited`.

        Returns the numbers of games with a position kept.
        """
        picked: list[int] = []
        while ready := [
            number
            for number, rank in awaited.items()
            if self._candidates.get(number) and self._candidates[number][-1].rank > rank
        ]:
            tried = [self._candidates[number].pop() for number in ready]
            states = np.array([each.state for each in tried])
            values, solved = solve_states(self._game, self._oracle, states)
            kept = self._may_be_kept(states, values, solved)
            for number, each, row, is_kept in zip(ready, tried, values, kept, strict=True):
                if is_kept:
                    self._rows.append(SolvedPosition(number, each.line, each.state, row))
                    del self._candidates[number]
                    picked.append(number)
        return picked


EVERY_POSITION: tuple[type[_SolverPlayer], type[Collector]] = (_SolvesAll, _CollectsAll)
"""Player and collector that keep every position."""
ONE_PER_GAME: tuple[type[_SolverPlayer], type[Collector]] = (
    _SolvesWhatItPlays,
    _CollectsOnePerGame,
)
"""Player and collector that keep one uniformly random position per game."""


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each stream, from its key."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


_PLY_LIMIT = 1 << 15  # a ply is kept in 16 bits


class DatasetSettings(Settings):
    """Settings of a collection; with the number of a game, they determine its positions."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """The seed of all random streams."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """Probability that a ply is a best move; other plies are uniformly random.

    [Clausen2021]: 0.5; its easy test set: 0.9.
    """

    one_per_game: bool = False
    """One random position per game instead of all. [Clausen2021]: all in version 1, one in 2."""

    first_ply: int = Field(default=0, ge=0, lt=_PLY_LIMIT)
    """Before this ply moves are uniformly random, and nothing is solved. [Clausen2021]: 0."""

    last_ply: int = Field(default=_PLY_LIMIT - 1, ge=0, lt=_PLY_LIMIT)
    """Games end after this ply. [Clausen2021]: no limit."""

    nodes: int | None = Field(default=None, ge=1, lt=1 << 63)
    """Nodes of the solver per position; harder positions are left out. None for no limit."""

    @property
    def budget(self) -> SolverBudget | None:
        """The solver's budget for each position, None for no limit."""
        return None if self.nodes is None else SolverBudget(nodes=self.nodes)

    @model_validator(mode="after")
    def _not_empty(self) -> DatasetSettings:
        if self.first_ply > self.last_ply:
            raise ValueError(f"plies {self.first_ply}:{self.last_ply}: nothing lies between them")
        return self


class CollectionCounts(NamedTuple):
    """Numbers of games played and of their positions left out."""

    games: int = 0
    all_optimal: int = 0
    """Positions left out because every move is a best one."""
    unsolved: int = 0
    """Positions left out because the oracle's budget was exhausted."""

    def plus(self, other: CollectionCounts) -> CollectionCounts:
        """Return the sums."""
        return CollectionCounts(*(a + b for a, b in zip(self, other, strict=True)))


class Collection(NamedTuple):
    """The positions of some games, by game and ply."""

    positions: Positions
    counts: CollectionCounts


def collect_positions(
    game: Game, oracle: Oracle, settings: DatasetSettings, numbers: range
) -> Collection:
    """Play the games of these numbers and collect their positions.

    The positions of a game depend only on its number, unless the oracle can solve more or less
    depending on what it solved before.
    """
    new_player, new_collector = ONE_PER_GAME if settings.one_per_game else EVERY_POSITION
    agent = Agent(
        "solver", lambda: new_player(game, oracle, settings.first_ply, settings.perfect), game=game
    )
    schedule = [
        Pairing(number, agent.name, agent.name, number, plies=settings.last_ply + 1)
        for number in numbers
    ]
    setup = EngineSetup(game, [agent], settings.seed, 0, 1, len(schedule), (streams.DATASET_MOVE,))
    collector = new_collector(game, oracle, settings.seed, settings.last_ply)
    play_pairings(setup, [schedule] if schedule else [], moves=[collector])
    rows = sorted(collector.found(), key=lambda row: (row.game, len(row.line)))
    counts = CollectionCounts(len(numbers), collector.all_optimal, collector.unsolved)
    return Collection(_as_positions(game, rows), counts)


def _as_positions(game: Game, rows: list[SolvedPosition]) -> Positions:
    state = python.start(game)
    return Positions(
        game,
        np.array([row.game for row in rows], np.int64),
        np.array([move for row in rows for move in row.line], np.int16),
        np.cumsum([0, *(len(row.line) for row in rows)], dtype=np.int64),
        np.array([row.state for row in rows], np.uint64).reshape(len(rows), len(state)),
        np.array([row.values for row in rows], np.int32).reshape(len(rows), actions_of(game)),
    )
