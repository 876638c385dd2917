"""Collection of solved positions from games [Clausen2021].

A player mixes best and random moves, and a collector observes its games. One pair of player and
collector keeps every position. The other keeps one position per game, which requires far less
solving.
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
    """Moves that lead to the position."""
    state: NDArray[np.uint64]
    """[words]"""
    values: NDArray[np.int32]
    """[actions]"""


class _SolverPlayer(StatelessPlayer):
    """A player that chooses a best move with some probability, otherwise a uniformly random move.

    Its results for the current positions are available until the next call of `choose`.
    """

    name = "solver"

    def __init__(self, game: Game, oracle: Oracle, first_ply: int, perfect: float) -> None:
        """Play randomly before `first_ply`, then best moves with probability `perfect`."""
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
        self.is_candidate = self._find_candidates(slots)
        perfect = self.is_candidate & (_uniform(keys) < self._perfect)
        best = self._solve(states, perfect, keys)
        plays_best = (perfect & best.any(axis=1))[:, None]
        weights = np.where(plays_best, best, legal_masks(self._game, states)).astype(np.int32)
        return choose_actions(weights, keys, np.zeros(len(keys), np.bool_))

    def _find_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        """Return bool[n], True for positions that can be collected."""
        candidates: NDArray[np.bool_] = self._plies[slots] >= self._first_ply
        return candidates

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return the known best actions, bool[n, actions]; one is played where `perfect`."""
        raise NotImplementedError


class _SolvingPlayer(_SolverPlayer):
    """A player that solves all candidates."""

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        candidates = np.flatnonzero(self.is_candidate)
        self.values = np.full((len(states), actions_of(self._game)), ILLEGAL, np.int32)
        self.is_solved = np.zeros(len(states), np.bool_)
        self.values[candidates], self.is_solved[candidates] = solve_states(
            self._game, self._oracle, states[candidates]
        )
        best: NDArray[np.bool_] = best_mask(self.values) & self.is_solved[:, None]
        return best


class _LazySolvingPlayer(_SolverPlayer):
    """A player that solves only positions where it plays a best move, until a game is settled."""

    def start(self, games: int) -> None:
        super().start(games)
        self._is_settled = np.zeros(games, np.bool_)

    def reset(self, slots: Slots) -> None:
        super().reset(slots)
        self._is_settled[slots] = False

    def settle(self, slots: Slots) -> None:
        """Play randomly for the rest of these games, whose positions are no longer needed."""
        self._is_settled[slots] = True

    def _find_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        return super()._find_candidates(slots) & ~self._is_settled[slots]

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        best: NDArray[np.bool_] = np.zeros((len(states), actions_of(self._game)), np.bool_)
        rows = np.flatnonzero(perfect)
        orders = streams.permutations(keys[rows], best.shape[1])
        actions = solve_first_best(self._oracle, states[rows], orders)
        is_solved = actions != UNSOLVED
        best[rows[is_solved], actions[is_solved]] = True
        return best


class Collector:
    """A `MoveObserver` that collects positions of games and counts the excluded ones."""

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        """Collect positions up to `last_ply`; `seed` determines random choices.

        The oracle solves positions that the player has not solved.
        """
        self.all_optimal = 0
        self.unsolved = 0
        self._game = game
        self._oracle = oracle
        self._seed = seed
        self._last_ply = last_ply

    def decided(self, moves: Moves) -> None:
        raise NotImplementedError

    def finished_positions(self) -> list[SolvedPosition]:
        """Return the collected positions, after all games have finished."""
        raise NotImplementedError

    def _filter(
        self, states: NDArray[np.uint64], values: NDArray[np.int32], solved: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return bool[n], True for solved positions with a suboptimal move; count the others."""
        has_choice: NDArray[np.bool_] = np.any(
            best_mask(values) != legal_masks(self._game, states), axis=1
        )
        self.all_optimal += int((solved & ~has_choice).sum())
        self.unsolved += int((~solved).sum())
        return solved & has_choice


class _AllCollector(Collector):
    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._rows: list[SolvedPosition] = []

    def decided(self, moves: Moves) -> None:
        player = moves.player
        assert isinstance(player, _SolvingPlayer)
        rows = np.flatnonzero(player.is_candidate)
        is_kept = self._filter(moves.states[rows], player.values[rows], player.is_solved[rows])
        for row in rows[is_kept]:
            line = tuple(moves.histories[int(row)])
            number, state = int(moves.numbers[row]), moves.states[row]
            self._rows.append(SolvedPosition(number, line, state, player.values[row]))

    def finished_positions(self) -> list[SolvedPosition]:
        return self._rows


class _Candidate(NamedTuple):
    rank: int
    line: tuple[int, ...]
    state: NDArray[np.uint64]
    """[words]"""


class _OnePerGameCollector(Collector):
    """A collector that solves candidates of a game in order of random ranks until it keeps one.

    The rank of a position depends only on its game and ply. A candidate is solved once no later ply
    can have a higher rank. If it is kept, the rest of the game need not be solved.
    """

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._plies = min(python.max_plies(game), last_ply + 1)
        self._candidates: dict[int, list[_Candidate]] = defaultdict(list)
        self._rows: list[SolvedPosition] = []

    def decided(self, moves: Moves) -> None:
        player = moves.player
        assert isinstance(player, _LazySolvingPlayer)
        rows = np.flatnonzero(player.is_candidate)
        ranks = self._ranks(moves.numbers[rows])
        best_later_ranks = {}
        for row, game_ranks in zip(rows, ranks, strict=True):
            line, number = tuple(moves.histories[int(row)]), int(moves.numbers[row])
            candidate = _Candidate(int(game_ranks[len(line)]), line, moves.states[row])
            insort(self._candidates[number], candidate, key=lambda each: each.rank)
            best_later_ranks[number] = int(game_ranks[len(line) + 1 :].max(initial=0))
        settled = self._try_candidates(best_later_ranks)
        player.settle(moves.slots[np.isin(moves.numbers, settled)])

    def finished_positions(self) -> list[SolvedPosition]:
        self._try_candidates(dict.fromkeys(self._candidates, 0))
        return self._rows

    def _ranks(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return random ranks uint64[n, plies] for all possible plies of these games."""
        plies = np.tile(np.arange(self._plies), len(numbers))
        games = numbers.repeat(self._plies)
        ranks = streams.streams(self._seed, 0, games, plies, streams.DATASET_PICK)
        return ranks.reshape(len(numbers), self._plies)

    def _try_candidates(self, best_later_ranks: Mapping[int, int]) -> list[int]:
        """Solve the candidates that rank above all later plies of their game.

        Returns the numbers of the games with a kept position.
        """
        settled: list[int] = []
        while ready := [
            number
            for number, rank in best_later_ranks.items()
            if self._candidates.get(number) and self._candidates[number][-1].rank > rank
        ]:
            candidates = [self._candidates[number].pop() for number in ready]
            states = np.array([candidate.state for candidate in candidates])
            values, solved = solve_states(self._game, self._oracle, states)
            kept = self._filter(states, values, solved)
            for number, candidate, row, is_kept in zip(
                ready, candidates, values, kept, strict=True
            ):
                if is_kept:
                    self._rows.append(SolvedPosition(number, candidate.line, candidate.state, row))
                    del self._candidates[number]
                    settled.append(number)
        return settled


EVERY_POSITION: tuple[type[_SolverPlayer], type[Collector]] = (_SolvingPlayer, _AllCollector)
"""Player and collector that keep every position."""
ONE_PER_GAME: tuple[type[_SolverPlayer], type[Collector]] = (
    _LazySolvingPlayer,
    _OnePerGameCollector,
)
"""Player and collector that keep one uniformly random position per game."""


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each random-stream key."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


_PLY_LIMIT = 1 << 15  # plies are stored as int16


class DatasetSettings(Settings):
    """Settings of a collection; a game's positions depend only on these and the game number."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """Probability of playing a best move; other moves are uniformly random.

    [Clausen2021]: 0.5; its easy test set: 0.9.
    """

    one_per_game: bool = False
    """Collect one random position per game instead of all. [Clausen2021]: all in version 1, one in
    version 2."""

    first_ply: int = Field(default=0, ge=0, lt=_PLY_LIMIT)
    """First collected ply. Earlier moves are uniformly random and not solved. [Clausen2021]: 0."""

    last_ply: int = Field(default=_PLY_LIMIT - 1, ge=0, lt=_PLY_LIMIT)
    """Last collected ply, after which games end. [Clausen2021]: no limit."""

    nodes: int | None = Field(default=None, ge=1, lt=1 << 63)
    """Solver nodes per position; harder positions are excluded. None for no limit."""

    @property
    def budget(self) -> SolverBudget | None:
        """Solver budget per position; None for no limit."""
        return None if self.nodes is None else SolverBudget(nodes=self.nodes)

    @model_validator(mode="after")
    def _require_plies(self) -> DatasetSettings:
        if self.first_ply > self.last_ply:
            raise ValueError(
                f"plies {self.first_ply}:{self.last_ply}: expected a first ply no later than the"
                " last"
            )
        return self


class CollectionCounts(NamedTuple):
    """Numbers of games played and positions excluded."""

    games: int = 0
    all_optimal: int = 0
    """Positions excluded because every move is a best move."""
    unsolved: int = 0
    """Positions excluded because the oracle's budget was exhausted."""

    def plus(self, other: CollectionCounts) -> CollectionCounts:
        """Return the sums."""
        return CollectionCounts(*(a + b for a, b in zip(self, other, strict=True)))


class Collection(NamedTuple):
    """Positions of several games, ordered by game and ply."""

    positions: Positions
    counts: CollectionCounts


def collect_positions(
    game: Game, oracle: Oracle, settings: DatasetSettings, numbers: range
) -> Collection:
    """Play the games with these numbers and collect their positions.

    The positions of a game depend only on its number, unless the oracle's limits depend on
    previously solved positions.
    """
    new_player, new_collector = ONE_PER_GAME if settings.one_per_game else EVERY_POSITION
    agent = Agent(
        "solver", lambda: new_player(game, oracle, settings.first_ply, settings.perfect), game=game
    )
    pairings = [
        Pairing(number, agent.name, agent.name, number, plies=settings.last_ply + 1)
        for number in numbers
    ]
    setup = EngineSetup(game, [agent], settings.seed, 0, 1, len(pairings), (streams.DATASET_MOVE,))
    collector = new_collector(game, oracle, settings.seed, settings.last_ply)
    play_pairings(setup, [pairings] if pairings else [], moves=[collector])
    rows = sorted(collector.finished_positions(), key=lambda row: (row.game, len(row.line)))
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
