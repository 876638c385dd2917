"""Positions of random games, checks of random actions and playouts, and comparison with a twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.memory import copy_row
from zerolab.rules import compiled_rules, rules
from zerolab.rules.compiled_rules import PerftCount, perft
from zerolab.rules.rules import DRAW, LOSS, MAX_PLIES, ONGOING, WIN, Game, State

_GAMES = 8


class SamplePosition(NamedTuple):
    """A position of a random game, and the actions that led to it."""

    game: Game
    state: State  # uint64[words], read only
    outcome: int
    history: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.game} after the actions {list(self.history)}"


def expect(condition: object, where: SamplePosition | Game, message: str) -> None:
    """Raise AssertionError, naming the position or game, unless `condition` is true."""
    if not condition:
        raise AssertionError(f"{where}: {message}")


@lru_cache(maxsize=64, typed=True)
def random_games(game: Game) -> tuple[tuple[SamplePosition, ...], ...]:
    """Return the positions of eight random games, which are the same in every call."""
    return tuple(tuple(_random_game(game, seed)) for seed in range(_GAMES))


def sample_positions(game: Game) -> Iterator[SamplePosition]:
    """Yield every position of the random games."""
    for samples in random_games(game):
        yield from samples


def ongoing_sample_positions(game: Game) -> Iterator[SamplePosition]:
    """Yield the ongoing positions of the random games."""
    return (sample for sample in sample_positions(game) if sample.outcome == ONGOING)


def _random_game(game: Game, seed: int) -> Iterator[SamplePosition]:
    random = np.random.default_rng(seed)
    state = compiled_rules.start(game)
    sample = SamplePosition(game, state, compiled_rules.outcome(game, state), ())
    yield sample
    while sample.outcome == ONGOING:
        expect(len(sample.history) < MAX_PLIES, game, f"not over after {MAX_PLIES} random plies")
        mask = np.zeros(rules.action_count(game), np.bool_)
        compiled_rules.write_legal(game, sample.state, mask)
        choices = np.flatnonzero(mask)
        expect(len(choices), sample, "the game is ongoing, but no action is legal")
        action = int(random.choice(choices))
        state = compiled_rules.apply(game, sample.state, action)
        sample = SamplePosition(
            game, state, compiled_rules.outcome(game, state), (*sample.history, action)
        )
        yield sample


def _evenly_spaced_samples(game: Game, count: int) -> list[SamplePosition]:
    """Return about `count` ongoing positions, distributed evenly over the random games."""
    ongoing = list(ongoing_sample_positions(game))
    return ongoing[:: max(1, len(ongoing) // count)]


def garbage_state(game: Game) -> State:
    """Return a state, uint64[words], with arbitrary content that rules must overwrite."""
    return np.full(rules.word_count(game), 0xDEAD_BEEF_DEAD_BEEF, np.uint64)


class TwinPosition(Protocol):
    """A position of an independent implementation, which should be as simple as possible."""

    def legal_actions(self) -> Sequence[int]:
        """Return the legal actions of an ongoing game in ascending order."""
        ...

    def play(self, action: int) -> TwinPosition:
        """Return the position after an action, without changing this one."""
        ...

    def result(self) -> int | None:
        """Return the result for the player who moved first: 1, 0 or -1; None if ongoing."""
        ...

    def board(self) -> NDArray[Any] | None:
        """Return an array [rows, columns]: 1 for the first player's pieces, -1 for the second's.

        Returns None to skip the comparison of boards.
        """
        ...


def check_against_twin(
    game: Game, start: Callable[[], TwinPosition], max_leaves: int = 500
) -> None:
    """Compare random games move by move, and perft counts of up to about `max_leaves` leaves."""
    for samples in random_games(game):
        twin = start()
        for sample in samples:
            if sample.history:
                twin = twin.play(sample.history[-1])
            _compare(sample, twin)
    _compare_counts(game, start, max_leaves)


def _compare(sample: SamplePosition, twin: TwinPosition) -> None:
    game, sign = sample.game, 1 if len(sample.history) % 2 == 0 else -1
    result = twin.result()
    expected = ONGOING if result is None else sign * result
    is_equal = sample.outcome == expected
    expect(is_equal, sample, f"the outcome is {sample.outcome}, but the twin's is {expected}")
    if sample.outcome == ONGOING:
        legal = np.flatnonzero(compiled_rules.legal(game, sample.state)).tolist()
        twin_legal = list(twin.legal_actions())
        is_equal = legal == twin_legal
        expect(is_equal, sample, f"the legal actions are {legal}, but the twin's are {twin_legal}")
    board = twin.board()
    if board is not None:
        pieces = sign * compiled_rules.encode(game, sample.state)[0]
        different = np.argwhere(pieces != board).tolist()
        expect(
            not different,
            sample,
            f"plane 0 and the twin's board have different pieces in the cells {different}",
        )


def _compare_counts(game: Game, start: Callable[[], TwinPosition], max_leaves: int) -> None:
    level: list[TwinPosition] = [start()]
    branching = len(level[0].legal_actions())
    for count in perft(game, depth=20):
        level = [
            twin.play(action)
            for twin in level
            if twin.result() is None
            for action in twin.legal_actions()
        ]
        ended = sum(twin.result() is not None for twin in level)
        expected = PerftCount(count.depth, len(level), ended)
        expect(count == expected, game, f"perft returns {count}, but the twin has {expected}")
        if not level or len(level) * branching > max_leaves:
            return


_DRAWS_PER_ACTION = 200
_PLAYOUTS = 500
_MIN_EXPECTED = 20
_LOG_RARITY = 25.0
"""A correct game exceeds a bound with a probability of at most 2 * exp(-_LOG_RARITY)."""


def check_random_action(game: Game) -> None:
    """Check that `random_action` returns only legal actions, all with equal probability."""
    for sample in _evenly_spaced_samples(game, 10):
        mask = compiled_rules.legal(game, sample.state)
        actions = np.empty(int(mask.sum()) * _DRAWS_PER_ACTION, np.int64)
        before = sample.state.copy()
        _draw_actions(game, sample.state, _keys(len(actions)), actions)
        is_unchanged = np.array_equal(before, sample.state)
        expect(is_unchanged, sample, "random_action changes the state")
        illegal = sorted(set(actions.tolist()) - set(np.flatnonzero(mask).tolist()))
        expect(not illegal, sample, f"random_action returns {illegal}, which are not legal")
        counts = np.bincount(actions, minlength=len(mask))[mask]
        statistic = float(((counts - _DRAWS_PER_ACTION) ** 2).sum() / _DRAWS_PER_ACTION)
        bound = _chi_square_bound(len(counts) - 1)
        expect(
            statistic <= bound,
            sample,
            f"random_action is not uniform: {len(actions)} draws return the legal actions "
            f"{counts.tolist()} times (chi-square {statistic:.0f}, expected below {bound:.0f})",
        )


def check_playout(game: Game) -> None:
    """Check that playouts are legal, uniformly random, complete and reproducible.

    They must also return the outcome for the mover of the position in which they start.
    """
    ranks = np.zeros((rules.action_count(game) + 1, rules.action_count(game)), np.int64)
    for sample in _evenly_spaced_samples(game, 10):
        before = sample.state.copy()
        results, repeated = np.empty((2, _PLAYOUTS), np.int64)
        moves = np.empty((_PLAYOUTS, 1 + MAX_PLIES), np.int32)
        keys = _keys(_PLAYOUTS)
        _play_out(game, sample.state, keys, garbage_state(game), moves, results)
        _play_out(game, sample.state, keys, garbage_state(game), moves, repeated)
        expect(np.array_equal(before, sample.state), sample, "playout changes the state")
        is_reproducible = np.array_equal(results, repeated)
        expect(is_reproducible, sample, "playout depends on more than the state and the stream")
        invalid = sorted(set(results.tolist()) - {WIN, DRAW, LOSS})
        expect(not invalid, sample, f"playout returns {invalid}; expected -1, 0 or 1")
        replayed = np.empty(_PLAYOUTS, np.int64)
        _replay(game, sample.state, moves, garbage_state(game), ranks, replayed)
        wrong = int((results != replayed).sum())
        expect(
            wrong == 0,
            sample,
            f"{wrong} of {_PLAYOUTS} playouts do not match `moves`; expected complete legal games "
            "and the outcome for the mover of the first state",
        )
    for count in range(2, len(ranks)):
        _require_uniform(game, count, ranks[count, :count])


def _require_uniform(game: Game, count: int, ranks: NDArray[np.int64]) -> None:
    """Check that playouts choose each of `count` legal actions with equal probability."""
    expected = ranks.sum() / count
    if expected < _MIN_EXPECTED:
        return
    statistic = float(((ranks - expected) ** 2).sum() / expected)
    bound = _chi_square_bound(count - 1)
    expect(
        statistic <= bound,
        game,
        f"playouts are not uniform: out of {count} legal actions, the first, second, ... are chosen"
        f" {ranks.tolist()} times (chi-square {statistic:.0f}, expected below {bound:.0f})",
    )


def check_playout_mean(game: Game) -> None:
    """Compare the mean outcome of playouts with that of games played with `legal` and `apply`."""
    mask = np.empty(rules.action_count(game), np.bool_)
    # Bound on the difference between two means of values in [-1, 1] [Hoeffding1963].
    bound = math.sqrt(4 * _LOG_RARITY / _PLAYOUTS)
    for sample in _evenly_spaced_samples(game, 3):
        results, naive = np.empty((2, _PLAYOUTS), np.int64)
        moves = np.empty((_PLAYOUTS, 1 + MAX_PLIES), np.int32)
        _play_out(game, sample.state, _keys(_PLAYOUTS), garbage_state(game), moves, results)
        naive_keys = _keys(_PLAYOUTS, seed=1)
        _play_naively(game, sample.state, naive_keys, mask, garbage_state(game), naive)
        expect(
            abs(results.mean() - naive.mean()) <= bound,
            sample,
            f"playouts have a mean outcome of {results.mean():.2f}, but random games have one of"
            f" {naive.mean():.2f}",
        )


def _keys(count: int, seed: int = 0) -> NDArray[np.uint64]:
    zeros = np.zeros(count, np.int64)
    return streams.stream_keys(seed, 0, np.arange(count), zeros, streams.PLAYOUT)


def _chi_square_bound(degrees_of_freedom: int) -> float:
    """Return a bound that a chi-square variable exceeds with probability below exp(-_LOG_RARITY).

    See Lemma 1 of Laurent and Massart (2000), doi:10.1214/aos/1015957395.
    """
    spread = 2 * math.sqrt(degrees_of_freedom * _LOG_RARITY)
    return degrees_of_freedom + spread + 2 * _LOG_RARITY


@kernel
def _draw_actions(game: Any, state: Any, keys: Any, actions: Any) -> None:
    for i in range(actions.shape[0]):
        actions[i] = rules.random_action(game, state, streams.random_bits(keys[i], 0))


@kernel
def _play_out(game: Any, state: Any, keys: Any, out: Any, moves: Any, results: Any) -> None:
    for i in range(results.shape[0]):
        results[i] = rules.playout(game, state, keys[i], out, moves[i])


@kernel
def _replay(game: Any, state: Any, moves: Any, out: Any, ranks: Any, results: Any) -> None:
    """Replay `moves`; write outcomes for the mover of `state`, or ONGOING for illegal games.

    `ranks[n, r]` counts the choices of action r out of n legal actions.
    """
    mask = np.empty(ranks.shape[1], np.bool_)
    for i in range(results.shape[0]):
        copy_row(state, out)
        results[i] = ONGOING
        plies = moves[i, 0]
        for ply in range(plies):
            if rules.outcome(game, out) != ONGOING:
                break
            rules.legal(game, out, mask)
            action = moves[i, 1 + ply]
            if action < 0 or action >= mask.shape[0] or not mask[action]:
                break
            ranks[mask.sum(), mask[:action].sum()] += 1
            rules.apply(game, out, action, out)
            if ply == plies - 1 and rules.outcome(game, out) != ONGOING:
                results[i] = rules.outcome(game, out) * (1 if plies % 2 == 0 else -1)


@kernel
def _play_naively(game: Any, state: Any, keys: Any, mask: Any, out: Any, results: Any) -> None:
    """Play random games, drawing from all actions until the drawn action is legal."""
    for i in range(results.shape[0]):
        copy_row(state, out)
        number = 0
        sign = 1
        while True:
            result = rules.outcome(game, out)
            if result != ONGOING:
                results[i] = sign * result
                break
            rules.legal(game, out, mask)
            action = -1
            while action < 0 or not mask[action]:
                action = streams.random_below(streams.random_bits(keys[i], number), mask.shape[0])
                number += 1
            rules.apply(game, out, action, out)
            sign = -sign
