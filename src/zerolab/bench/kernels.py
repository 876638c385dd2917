"""Speed of tree search, random playouts and the exact solver, without a network.

`TreeSearches` needs no batches: each tree is searched to completion while it is in the processor
caches. `BatchedTreeSearches` works like searches with a network: every step visits each tree once.
Its trees start from different positions, with deduplication and caching off, so that every
simulation requests an evaluation unless it reaches a finished game.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.bench.benchmarks import GAMES, BenchmarkResult, measure_median_rates
from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.oracles.solver import Solver
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game, Rules, State, random_bits_for_ply
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

_TREES = 256
_SIMULATIONS = 100
_REPEATS = 4
_BATCHED_GAMES = GAMES[:2]
_BATCHES = (256, 2048)
_OPENING_PLIES = 6
_POSITIONS = 200_000


def measure_tree_search(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare tree search with the rules alone, and batched search with unbatched search."""
    for name in GAMES:
        subject, limit = TreeSearches(name), RandomMoves(name)
        rate, limit_rate = measure_median_rates(subject.search_all, limit.make_moves, 5 * rounds)
        yield BenchmarkResult(
            f"tree/{name}", "simulations/s", rate, limit_rate, "rules without a tree"
        )
    for name in _BATCHED_GAMES:
        unbatched = TreeSearches(name)
        for trees in _BATCHES:
            batched = BatchedTreeSearches(name, trees)
            rate, limit_rate = measure_median_rates(
                batched.search_all, unbatched.search_all, 2 * rounds
            )
            yield BenchmarkResult(
                f"tree/{name}/batched/{trees}",
                "simulations/s",
                rate,
                limit_rate,
                "the same without batches",
                batched.time_shares(),
            )


class TreeSearches:
    """Searches of many trees from the initial position, with equal priors and values of 0."""

    def __init__(self, name: str, selection: str = "puct") -> None:
        game = parse_game(name)
        evaluator = UniformEvaluator(rules.action_count(game))
        settings = {"simulations": _SIMULATIONS, "selection": selection}
        self._search = Search(game, SearchSettings.model_validate(settings), evaluator, _TREES)
        self._slots = np.arange(_TREES)
        self._keys = np.zeros(_TREES, np.uint64)
        self._states = np.repeat(compiled_rules.start(game)[None], _TREES, axis=0)

    def search_all(self) -> float:
        """Search all trees from the initial position; return the number of simulations."""
        for _ in range(_REPEATS):
            self._search.set_root(self._slots, self._states)
            self._search.start_search(self._slots, self._keys, self._keys)
            self._search.run()
        return float(_REPEATS * _TREES * _SIMULATIONS)


class ConstantEvaluator:
    """Evaluator with equal priors and values of 0, which are views of preallocated arrays."""

    def __init__(self, positions: int, actions: int) -> None:
        self._priors = np.full((positions, actions), 1 / actions, np.float32)
        self._values = np.zeros(positions, np.float32)

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return equal priors and values of 0."""
        return self._priors[: len(states)], self._values[: len(states)]


class BatchedTreeSearches:
    """Searches of many trees from random openings, with evaluations in batches."""

    def __init__(self, name: str, trees: int) -> None:
        game = parse_game(name)
        evaluator = ConstantEvaluator(trees, rules.action_count(game))
        settings = SearchSettings(simulations=_SIMULATIONS, deduplicate=False, cache=0)
        self._search = Search(game, settings, evaluator, trees)
        self._slots = np.arange(trees)
        self._keys = np.zeros(trees, np.uint64)
        self._states = np.repeat(compiled_rules.start(game)[None], trees, axis=0)
        _play_openings(
            game, self._states, np.empty(self._states.shape[1], np.uint64), _OPENING_PLIES
        )

    def search_all(self) -> float:
        """Search all trees from their openings; return the number of simulations."""
        self._search.seconds_by_part = dict.fromkeys(self._search.seconds_by_part, 0.0)
        self._search.set_root(self._slots, self._states)
        self._search.start_search(self._slots, self._keys, self._keys)
        self._search.run()
        return float(len(self._slots) * _SIMULATIONS)

    def time_shares(self) -> dict[str, float]:
        """Return each part's share of the time, in [0, 1]."""
        total = sum(self._search.seconds_by_part.values())
        return {part: seconds / total for part, seconds in self._search.seconds_by_part.items()}


@kernel
def _play_openings(game: Any, states: Any, next_state: Any, plies: int) -> None:
    """Play random plies from each state, stopping before the game ends."""
    for i in range(states.shape[0]):
        for ply in range(plies):
            action = rules.random_action(game, states[i], streams.random_bits(np.uint64(i), ply))
            rules.apply(game, states[i], action, next_state)
            if rules.outcome(game, next_state) != ONGOING:
                break
            copy_row(next_state, states[i])


class RandomMoves:
    """Random games played with the rules alone: an upper bound on the speed of any search."""

    def __init__(self, name: str) -> None:
        self._game: Game = parse_game(name)
        self._start = compiled_rules.start(self._game)
        self._mask = np.empty(rules.action_count(self._game), np.bool_)

    def make_moves(self) -> float:
        """Make random moves, computing the outcome and legal actions; return the move count."""
        _make_moves(self._game, self._start, self._start.copy(), self._mask, _POSITIONS)
        return float(_POSITIONS)


@kernel
def _make_moves(game: Any, start: Any, state: Any, mask: Any, positions: int) -> None:
    copy_row(start, state)
    for position in range(positions):
        rules.legal(game, state, mask)
        drawn = rules.random_action(game, state, streams.random_bits(np.uint64(1), position))
        rules.apply(game, state, drawn, state)
        if rules.outcome(game, state) != ONGOING:
            copy_row(start, state)


_STATES = 1024
_COUNT = 256


def measure_playouts(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare the speed of playouts with that of generating the same random numbers alone."""
    for name in GAMES:
        subject = _Playouts(name)
        rate, limit_rate = measure_median_rates(subject.play, subject.draw, 5 * rounds)
        once, generic = measure_median_rates(
            subject.play, subject.play_quarter_with_default_playout, rounds
        )
        two, one = measure_median_rates(subject.play_on_two_threads, subject.play, rounds)
        note = (
            f"{once / generic:.1f} times the generic playout, 2 threads {two / one:.2f} times one"
        )
        limit_of = "random numbers alone, drawn and stored"
        yield BenchmarkResult(
            f"playout/{name}", "playouts/s", rate, limit_rate, limit_of, note=note
        )


class _Playouts:
    def __init__(self, name: str) -> None:
        self._game = parse_game(name)
        self._states = np.repeat(compiled_rules.start(self._game)[None], _STATES, axis=0)
        self._out = self._states[0].copy()
        self._trace = np.empty(1 + MAX_PLIES, np.int32)
        self._lengths = np.empty(_STATES, np.int64)
        self._seed = 0
        _measure_lengths(self._game, self._states, self._out, self._trace, self._lengths)

    def play(self, threads: int = 1) -> float:
        """Play new games, since branch predictors learn repeated ones; return their number."""
        self._seed += 1
        numbers = np.arange(_STATES)
        keys = streams.stream_keys(self._seed, 0, numbers, np.zeros_like(numbers), streams.PLAYOUT)
        compiled_rules.playout_batch(self._game, self._states, keys, _COUNT, threads)
        return float(_STATES * _COUNT)

    def play_on_two_threads(self) -> float:
        """Play the same number of games on two threads."""
        return self.play(threads=2)

    def play_quarter_with_default_playout(self) -> float:
        """Play a quarter of the games with the default playout of `Rules`."""
        self._seed += 1
        key, start = np.uint64(self._seed), self._states[0]
        _play_generic(self._game, start, key, _STATES * _COUNT // 4, self._out, self._trace)
        return float(_STATES * _COUNT // 4)

    def draw(self) -> float:
        """Generate and store the random numbers of the same playouts without playing them."""
        self._seed += 1
        _draw(self._lengths, np.uint64(self._seed), _COUNT, self._trace)
        return float(_STATES * _COUNT)


_generic_playout = inlined(Rules.playout)


@kernel
def _play_generic(game: Any, state: Any, key: Any, count: Any, out: Any, moves: Any) -> None:
    for number in range(count):
        _generic_playout(game, state, streams.fold_in(key, number), out, moves)


@kernel
def _measure_lengths(game: Any, states: Any, out: Any, moves: Any, lengths: Any) -> None:
    for i in range(states.shape[0]):
        rules.playout(game, states[i], streams.fold_in(np.uint64(0), i), out, moves)
        lengths[i] = moves[0]


@kernel
def _draw(lengths: Any, key: Any, count: Any, moves: Any) -> None:
    for i in range(lengths.shape[0]):
        for number in range(count):
            stream = streams.fold_in(key + np.uint64(i), number)
            random = np.uint64(0)
            for ply in range(lengths[i]):
                random = random_bits_for_ply(stream, ply, random)
                moves[1 + ply] = streams.random_below(random, lengths[i])
            moves[0] = lengths[i]


_STARTS = ("connect_four:4x4", "connect_four:5x5", "othello:4x4", "gobang:5x5:4", "gobang:6x6:4")
_LATE = ("othello:6x6", 16, 20)
"""Game, number of empty cells in its random positions, and number of positions to solve."""


def measure_solving(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the speed of solving initial positions, and all moves of late positions."""
    for name in _STARTS:
        game = parse_game(name)
        yield _measure(_StartSolving(game), RandomMoves(name), f"solve/{name}", rounds)
    name, empty, count = _LATE
    states = _late_states(parse_game(name), empty, count)
    subject = _MoveSolving(parse_game(name), states)
    yield _measure(subject, RandomMoves(name), f"solve/{name}, {empty} empty, every move", rounds)


def _measure(
    subject: _StartSolving | _MoveSolving, limit: RandomMoves, name: str, rounds: int
) -> BenchmarkResult:
    rate, limit_rate = measure_median_rates(subject.solve, limit.make_moves, rounds)
    seconds = statistics.median(subject.seconds[1:])
    note = f"{seconds:.3g} s each"
    return BenchmarkResult(
        name, "positions/s", rate, limit_rate, "rules without a search", note=note
    )


class _StartSolving:
    """Benchmark that solves a game's initial position, with an empty transposition table."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self.seconds: list[float] = []

    def solve(self) -> float:
        """Solve the position; return the number of visited positions."""
        began = perf_counter()
        solver = Solver(self._game)
        solver.value(compiled_rules.start(self._game))
        self.seconds.append(perf_counter() - began)
        return float(solver.node_count)


class _MoveSolving:
    """Benchmark that solves all moves in several positions, each with an empty table."""

    def __init__(self, game: Game, states: list[State]) -> None:
        self._game = game
        self._states = states
        self.seconds: list[float] = []

    def solve(self) -> float:
        """Solve all positions; return the number of visited positions."""
        began, nodes = perf_counter(), 0
        for state in self._states:
            solver = Solver(self._game)
            solver.action_values(state[None])
            nodes += solver.node_count
        self.seconds.append((perf_counter() - began) / len(self._states))
        return float(nodes)


def _late_states(game: Game, empty: int, count: int) -> list[State]:
    """Return `count` ongoing states with `empty` empty cells, from random games."""
    random = np.random.default_rng(1)
    states: list[State] = []
    while len(states) < count:
        state = compiled_rules.start(game)
        while (
            compiled_rules.outcome(game, state) == ONGOING
            and compiled_rules.empty_count(game, state) > empty
        ):
            legal = np.flatnonzero(compiled_rules.legal(game, state))
            state = compiled_rules.apply(game, state, int(random.choice(legal)))
        if compiled_rules.outcome(game, state) == ONGOING:
            states.append(state)
    return states
