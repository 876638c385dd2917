"""Collection of solved positions from games [Clausen2021].

A player mixes best and random moves, and a collector observes its games. There are two pairs of
player and collector: one keeps every position, and the other keeps one position per game, which
requires far less solving.
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
    UNKNOWN_BEST_ACTION,
    SolvedPositions,
    legal_masks,
    solve_first_best_actions,
    solve_states,
)
from zerolab.oracles.oracle import ILLEGAL_VALUE, Oracle, best_mask
from zerolab.oracles.solver import SolverBudget
from zerolab.play.engine import EngineSetup, play_pairings
from zerolab.play.observers import ChosenMoves
from zerolab.play.pairings import Pairing
from zerolab.rules import compiled_rules
from zerolab.rules.rules import Game, action_count
from zerolab.search.roots import choose_actions


class SolvedPosition(NamedTuple):
    """Position with the exact value of every move."""

    game_number: int
    moves: tuple[int, ...]
    """Moves from the start of the game to the position."""
    state: NDArray[np.uint64]
    """[words]"""
    action_values: NDArray[np.int32]
    """[actions], `ILLEGAL_VALUE` for illegal actions."""


class _SolverPlayer(StatelessPlayer):
    """Player that chooses a best move with some probability, otherwise a uniformly random move.

    The player's results for the current positions can be read until the next call to `choose`.
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
        """Return bool[n], True for positions that a collector may keep."""
        candidates: NDArray[np.bool_] = self._plies[slots] >= self._first_ply
        return candidates

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return the known best actions, bool[n, actions].

        One of them is played where `perfect`, bool[n], is true.
        """
        raise NotImplementedError


class _SolvingPlayer(_SolverPlayer):
    """Player that solves all candidates."""

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        candidates = np.flatnonzero(self.is_candidate)
        self.action_values = np.full(
            (len(states), action_count(self._game)), ILLEGAL_VALUE, np.int32
        )
        self.is_solved = np.zeros(len(states), np.bool_)
        self.action_values[candidates], self.is_solved[candidates] = solve_states(
            self._game, self._oracle, states[candidates]
        )
        best: NDArray[np.bool_] = best_mask(self.action_values) & self.is_solved[:, None]
        return best


class _LazySolvingPlayer(_SolverPlayer):
    """Player that solves a position only if a best move is to be played there.

    After a position of a game has been collected, the player solves no more positions of that game.
    """

    def start(self, games: int) -> None:
        super().start(games)
        self._is_collected = np.zeros(games, np.bool_)

    def reset(self, slots: Slots) -> None:
        super().reset(slots)
        self._is_collected[slots] = False

    def mark_collected(self, slots: Slots) -> None:
        """Play the rest of these games randomly; their later positions are not needed."""
        self._is_collected[slots] = True

    def _find_candidates(self, slots: Slots) -> NDArray[np.bool_]:
        return super()._find_candidates(slots) & ~self._is_collected[slots]

    def _solve(
        self, states: NDArray[np.uint64], perfect: NDArray[np.bool_], keys: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        best: NDArray[np.bool_] = np.zeros((len(states), action_count(self._game)), np.bool_)
        rows = np.flatnonzero(perfect)
        orders = streams.permutations(keys[rows], best.shape[1])
        actions = solve_first_best_actions(self._oracle, states[rows], orders)
        is_solved = actions != UNKNOWN_BEST_ACTION
        best[rows[is_solved], actions[is_solved]] = True
        return best


class _Collector:
    """`MoveObserver` that collects positions of games and counts excluded positions."""

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

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
        raise NotImplementedError

    def collected_positions(self) -> list[SolvedPosition]:
        """Return the collected positions, after all games have finished."""
        raise NotImplementedError

    def _filter(
        self, states: NDArray[np.uint64], values: NDArray[np.int32], solved: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return bool[n], True for solved positions with a suboptimal move; count the rest."""
        has_choice: NDArray[np.bool_] = np.any(
            best_mask(values) != legal_masks(self._game, states), axis=1
        )
        self.all_optimal += int((solved & ~has_choice).sum())
        self.unsolved += int((~solved).sum())
        return solved & has_choice


class _AllCollector(_Collector):
    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._collected: list[SolvedPosition] = []

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
        player = moves.player
        assert isinstance(player, _SolvingPlayer)
        rows = np.flatnonzero(player.is_candidate)
        is_kept = self._filter(
            moves.states[rows], player.action_values[rows], player.is_solved[rows]
        )
        for row in rows[is_kept]:
            line = tuple(moves.histories[int(row)])
            game_number, state = int(moves.game_numbers[row]), moves.states[row]
            self._collected.append(
                SolvedPosition(game_number, line, state, player.action_values[row])
            )

    def collected_positions(self) -> list[SolvedPosition]:
        return self._collected


class _Candidate(NamedTuple):
    rank: int
    moves: tuple[int, ...]
    state: NDArray[np.uint64]
    """[words]"""


class _OnePerGameCollector(_Collector):
    """Collector that solves a game's candidates in order of random ranks until it keeps one.

    The rank of a position depends only on its game and ply. A candidate is solved once no later ply
    can have a higher rank. If the candidate is kept, the rest of the game need not be solved.
    """

    def __init__(self, game: Game, oracle: Oracle, seed: int, last_ply: int) -> None:
        super().__init__(game, oracle, seed, last_ply)
        self._plies = min(compiled_rules.max_plies(game), last_ply + 1)
        self._candidates: dict[int, list[_Candidate]] = defaultdict(list)
        self._collected: list[SolvedPosition] = []

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
        player = moves.player
        assert isinstance(player, _LazySolvingPlayer)
        rows = np.flatnonzero(player.is_candidate)
        ranks = self._ranks(moves.game_numbers[rows])
        best_later_ranks = {}
        for row, game_ranks in zip(rows, ranks, strict=True):
            line = tuple(moves.histories[int(row)])
            game_number = int(moves.game_numbers[row])
            candidate = _Candidate(int(game_ranks[len(line)]), line, moves.states[row])
            insort(self._candidates[game_number], candidate, key=lambda each: each.rank)
            best_later_ranks[game_number] = int(game_ranks[len(line) + 1 :].max(initial=0))
        collected = self._try_candidates(best_later_ranks)
        player.mark_collected(moves.player_slots[np.isin(moves.game_numbers, collected)])

    def collected_positions(self) -> list[SolvedPosition]:
        self._try_candidates(dict.fromkeys(self._candidates, 0))
        return self._collected

    def _ranks(self, game_numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return random ranks, uint64[n, plies], for all possible plies of these games."""
        plies = np.tile(np.arange(self._plies), len(game_numbers))
        games = game_numbers.repeat(self._plies)
        ranks = streams.stream_keys(self._seed, 0, games, plies, streams.DATASET_POSITION_CHOICE)
        return ranks.reshape(len(game_numbers), self._plies)

    def _try_candidates(self, best_later_ranks: Mapping[int, int]) -> list[int]:
        """Solve the candidates that rank above all later plies of the same game.

        Returns the numbers of the games from which a position was kept.
        """
        collected: list[int] = []
        while ready := [
            game_number
            for game_number, rank in best_later_ranks.items()
            if (candidates := self._candidates.get(game_number)) and candidates[-1].rank > rank
        ]:
            best_candidates = [self._candidates[game_number].pop() for game_number in ready]
            states = np.array([candidate.state for candidate in best_candidates])
            values, solved = solve_states(self._game, self._oracle, states)
            kept = self._filter(states, values, solved)
            for game_number, candidate, row, is_kept in zip(
                ready, best_candidates, values, kept, strict=True
            ):
                if is_kept:
                    self._collected.append(
                        SolvedPosition(game_number, candidate.moves, candidate.state, row)
                    )
                    del self._candidates[game_number]
                    collected.append(game_number)
        return collected


_EVERY_POSITION_CLASSES: tuple[type[_SolverPlayer], type[_Collector]] = (
    _SolvingPlayer,
    _AllCollector,
)
"""Player and collector that keep every position."""
_ONE_PER_GAME_CLASSES: tuple[type[_SolverPlayer], type[_Collector]] = (
    _LazySolvingPlayer,
    _OnePerGameCollector,
)
"""Player and collector that keep one uniformly random position per game."""


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return uniformly random numbers in [0, 1), float64[n], one per stream key, uint64[n]."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


_PLY_LIMIT = 1 << 15  # plies are stored as int16


class DatasetSettings(Settings):
    """Settings of a data set; with a game's number, they determine its positions."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """Probability of playing a best move; other moves are uniformly random.

    [Clausen2021]: 0.5; its easy test set: 0.9.
    """

    one_per_game: bool = False
    """True to collect one random position per game instead of all positions. [Clausen2021]: all in
    version 1, one in version 2."""

    first_ply: int = Field(default=0, ge=0, lt=_PLY_LIMIT)
    """First collected ply. Moves before it are uniformly random. [Clausen2021]: 0."""

    last_ply: int = Field(default=_PLY_LIMIT - 1, ge=0, lt=_PLY_LIMIT)
    """Last collected ply, after which games end. [Clausen2021]: no limit."""

    nodes: int | None = Field(default=None, ge=1, lt=1 << 63)
    """Solver nodes per position; positions that need more are excluded. None for no limit."""

    @property
    def solver_budget(self) -> SolverBudget | None:
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
        """Return the sum of both counts, field by field."""
        return CollectionCounts(*(a + b for a, b in zip(self, other, strict=True)))


class CollectedPositions(NamedTuple):
    """Solved positions of several games, ordered by game and ply."""

    positions: SolvedPositions
    counts: CollectionCounts


def collect_positions(
    game: Game, oracle: Oracle, settings: DatasetSettings, game_numbers: range
) -> CollectedPositions:
    """Play the games with these numbers and collect their positions.

    The positions of a game depend only on its number, unless the oracle has a budget and its work
    depends on positions solved earlier.
    """
    new_player, new_collector = (
        _ONE_PER_GAME_CLASSES if settings.one_per_game else _EVERY_POSITION_CLASSES
    )
    agent = Agent(
        "solver", lambda: new_player(game, oracle, settings.first_ply, settings.perfect), game=game
    )
    pairings = [
        Pairing(game_number, agent.name, agent.name, game_number, max_plies=settings.last_ply + 1)
        for game_number in game_numbers
    ]
    setup = EngineSetup(game, [agent], settings.seed, 0, 1, len(pairings), (streams.DATASET_MOVE,))
    collector = new_collector(game, oracle, settings.seed, settings.last_ply)
    play_pairings(setup, [pairings] if pairings else [], move_observers=[collector])
    rows = sorted(
        collector.collected_positions(), key=lambda row: (row.game_number, len(row.moves))
    )
    counts = CollectionCounts(len(game_numbers), collector.all_optimal, collector.unsolved)
    return CollectedPositions(_as_positions(game, rows), counts)


def _as_positions(game: Game, rows: list[SolvedPosition]) -> SolvedPositions:
    state = compiled_rules.start(game)
    return SolvedPositions(
        game,
        np.array([row.game_number for row in rows], np.int64),
        np.array([move for row in rows for move in row.moves], np.int16),
        np.cumsum([0, *(len(row.moves) for row in rows)], dtype=np.int64),
        np.array([row.state for row in rows], np.uint64).reshape(len(rows), len(state)),
        np.array([row.action_values for row in rows], np.int32).reshape(
            len(rows), action_count(game)
        ),
    )
