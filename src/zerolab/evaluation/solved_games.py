"""Who plays the games whose positions are collected, and what is kept of them.

A player plays best moves and random ones, and a collector watches it. There are two pairs: one
keeps every position, the other one position per game, for which far less has to be solved.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots, StatelessPlayer
from zerolab.evaluation.boards import legal_masks
from zerolab.evaluation.solving import solve, solve_best
from zerolab.oracles.interface import ILLEGAL, Oracle, best_of
from zerolab.play.observers import Moves
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of
from zerolab.search.search import choose_actions

_LOW_BITS = np.uint64(0xFFFFFFFF)
"""Of a key, those that rank a position; the others decide whether a best move is played."""


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
        self.is_candidate = self._plies[slots] >= self._first_ply
        self.ranks = keys & _LOW_BITS
        perfect = self.is_candidate & (_uniform(keys) < self._perfect)
        best = self._look_at(states, perfect)
        plays_best = (perfect & best.any(axis=1))[:, None]
        weights = np.where(plays_best, best, legal_masks(self._game, states)).astype(np.int32)
        return choose_actions(weights, keys, np.zeros(len(keys), np.bool_))

    def _look_at(self, states: NDArray[np.uint64], perfect: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the best actions, at least where `perfect`; none where they are not known."""
        raise NotImplementedError


class _SolvesAll(_SolverPlayer):
    """Finds out the values of all candidates."""

    def _look_at(self, states: NDArray[np.uint64], perfect: NDArray[np.bool_]) -> NDArray[np.bool_]:
        asked = np.flatnonzero(self.is_candidate)
        self.values = np.full((len(states), actions_of(self._game)), ILLEGAL, np.int32)
        self.is_solved = np.zeros(len(states), np.bool_)
        self.values[asked], self.is_solved[asked] = solve(self._game, self._oracle, states[asked])
        best: NDArray[np.bool_] = best_of(self.values) & self.is_solved[:, None]
        return best


class _SolvesWhatItPlays(_SolverPlayer):
    """Finds out which moves are best, where one is to be played."""

    def _look_at(self, states: NDArray[np.uint64], perfect: NDArray[np.bool_]) -> NDArray[np.bool_]:
        best: NDArray[np.bool_] = np.zeros((len(states), actions_of(self._game)), np.bool_)
        asked = np.flatnonzero(perfect)
        best[asked] = solve_best(self._game, self._oracle, states[asked])
        return best


class Collector:
    """Keeps positions of games, and counts those left out; a `MoveObserver`."""

    def __init__(self, game: Game, oracle: Oracle) -> None:
        """Solve by this oracle what the player has not."""
        self.all_optimal = 0
        self.unsolved = 0
        self._game = game
        self._oracle = oracle

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
    def __init__(self, game: Game, oracle: Oracle) -> None:
        super().__init__(game, oracle)
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
    game: int
    line: tuple[int, ...]
    state: NDArray[np.uint64]
    """[words]"""


class _CollectsOnePerGame(Collector):
    """Solves a game's candidates in the order of their random ranks, until one may be kept."""

    def __init__(self, game: Game, oracle: Oracle) -> None:
        super().__init__(game, oracle)
        self._candidates: dict[int, list[_Candidate]] = defaultdict(list)

    def decided(self, moves: Moves) -> None:
        player = moves.player
        assert isinstance(player, _SolvesWhatItPlays)
        for row in np.flatnonzero(player.is_candidate):
            rank, number = int(player.ranks[row]), int(moves.numbers[row])
            line = tuple(moves.histories[int(row)])
            self._candidates[number].append(_Candidate(rank, number, line, moves.states[row]))

    def found(self) -> list[SolvedPosition]:
        found = []
        waiting = [sorted(each, key=lambda one: one.rank) for each in self._candidates.values()]
        while waiting := [each for each in waiting if each]:
            tried = [candidates.pop() for candidates in waiting]
            states = np.array([each.state for each in tried])
            values, solved = solve(self._game, self._oracle, states)
            kept = self._may_be_kept(states, values, solved)
            found += [
                SolvedPosition(each.game, each.line, each.state, row)
                for each, row, is_kept in zip(tried, values, kept, strict=True)
                if is_kept
            ]
            waiting = [each for each, done in zip(waiting, kept, strict=True) if not done]
        return found


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
