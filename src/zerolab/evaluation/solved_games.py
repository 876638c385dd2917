"""Who plays the games whose positions are collected, and what is kept of them.

A player plays best moves and random ones, and a collector watches it. There are two pairs: one
keeps every position, the other one position per game, for which far less has to be solved.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots, StatelessPlayer
from zerolab.core import streams
from zerolab.evaluation.boards import legal_masks
from zerolab.evaluation.solving import UNSOLVED, solve, solve_first_best
from zerolab.oracles.interface import ILLEGAL, Oracle, best_of
from zerolab.play.observers import Moves
from zerolab.rules import host
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of
from zerolab.search.search import choose_actions


class SolvedPosition(NamedTuple):
    """A position of a game and what its moves are worth."""

    game: int
    line: tuple[int, ...]
    """The moves that lead to it."""
    state: NDArray[np.uint64]
    """[words]"""
    values: NDArray[np.int32]
    """[actions]"""


class _SolverPlayer(StatelessPlayer):
    """Plays a best move with some probability, and a uniformly random one otherwise.

    What it finds out about the positions that it is asked about is there until the next ones.
    """

    name = "solver"

    def __init__(self, game: Game, oracle: Oracle, first_ply: int, perfect: float) -> None:
        """Play at random before `first_ply`, then best moves with probability `perfect`."""
        self._game = game
        self._oracle = oracle
        self._first_ply = first_ply
        self._perfect = perfect

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self._plies = np.zeros(games, np.int64)

    def reset(self, slots: Slots) -> None:
        """See `Player.reset`."""
        self._plies[slots] = 0

    def advance(self, slots: Slots, actions: Actions) -> None:
        """See `Player.advance`."""
        self._plies[slots] += 1

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        self.is_candidate = self._are_candidates(slots)
        perfect = self.is_candidate & (_uniform(keys) < self._perfect)
        best = self._look_at(states, perfect, keys)
        plays_best = (perfect & best.any(axis=1))[:, None]
        weights = np.where(plays_best, best, legal_masks(self._game, states)).astype(np.int32)
        return choose_actions(weights, keys, np.zeros(len(keys), np.bool_))

    def _are_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        """Return where a position is a candidate to be kept, bool[n]."""
        candidates: NDArray[np.bool_] = self._plies[slots] >= self._first_ply
        return candidates

    def _look_at(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return best actions, of which one is played where `perfect`; none where none is known."""
        raise NotImplementedError


class _SolvesAll(_SolverPlayer):
    """Finds out the values of all candidates."""

    def _look_at(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        asked = np.flatnonzero(self.is_candidate)
        self.values = np.full((len(states), actions_of(self._game)), ILLEGAL, np.int32)
        self.is_solved = np.zeros(len(states), np.bool_)
        self.values[asked], self.is_solved[asked] = solve(self._game, self._oracle, states[asked])
        best: NDArray[np.bool_] = best_of(self.values) & self.is_solved[:, None]
        return best


class _SolvesWhatItPlays(_SolverPlayer):
    """Finds out a best move where one is to be played, until nothing more of a game is wanted."""

    def start(self, games: int) -> None:
        super().start(games)
        self._is_settled = np.zeros(games, np.bool_)

    def reset(self, slots: Slots) -> None:
        super().reset(slots)
        self._is_settled[slots] = False

    def settle(self, slots: Slots) -> None:
        """Go on at random in games whose later positions are not wanted."""
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
    """Keeps positions of games, and counts those left out; a `MoveObserver`."""

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        """Solve by this oracle what the player has not; random choices derive from `seed`.

        No position comes after `last_ply`.
        """
        self.all_optimal = 0
        self.unsolved = 0
        self._game = game
        self._oracle = oracle
        self._seed = seed
        self._last_ply = last_ply

    def decided(self, moves: Moves) -> None:
        """See `MoveObserver.decided`."""
        raise NotImplementedError

    def found(self) -> list[SolvedPosition]:
        """Return the positions of the games, which are over."""
        raise NotImplementedError

    def _may_be_kept(
        self, states: NDArray[np.uint64], values: NDArray[np.int32], solved: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which positions are solved and have a move that is not best; count the others."""
        has_choice: NDArray[np.bool_] = np.any(
            best_of(values) != legal_masks(self._game, states), axis=1
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
    """Solves a game's candidates in the order of their random ranks, until one may be kept.

    A position's rank depends on its game and ply alone. So a candidate is solved as soon as no
    later ply ranks above it, and if it is kept, the rest of the game need not be solved.
    """

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._plies = min(host.longest(game), last_ply + 1)
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
        """Return random ranks for all plies that games of these numbers may have."""
        plies = np.tile(np.arange(self._plies), len(numbers))
        games = numbers.repeat(self._plies)
        ranks = streams.streams(self._seed, 0, games, plies, streams.DATASET_PICK)
        return ranks.reshape(len(numbers), self._plies)

    def _pick(self, awaited: Mapping[int, int]) -> list[int]:
        """Try candidates of games that rank above what is still to come, given by number.

        Returns the numbers of the games of which a position is kept.
        """
        picked: list[int] = []
        while ready := [
            number
            for number, rank in awaited.items()
            if self._candidates.get(number) and self._candidates[number][-1].rank > rank
        ]:
            tried = [self._candidates[number].pop() for number in ready]
            states = np.array([each.state for each in tried])
            values, solved = solve(self._game, self._oracle, states)
            kept = self._may_be_kept(states, values, solved)
            for number, each, row, is_kept in zip(ready, tried, values, kept, strict=True):
                if is_kept:
                    self._rows.append(SolvedPosition(number, each.line, each.state, row))
                    del self._candidates[number]
                    picked.append(number)
        return picked


EVERY_POSITION: tuple[type[_SolverPlayer], type[Collector]] = (_SolvesAll, _CollectsAll)
"""Who plays, and who collects, where every position is kept."""
ONE_PER_GAME: tuple[type[_SolverPlayer], type[Collector]] = (
    _SolvesWhatItPlays,
    _CollectsOnePerGame,
)
"""Who plays, and who collects, where one uniformly random position per game is kept."""


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each stream, from its key."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
