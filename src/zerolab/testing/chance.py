"""Checks that random actions and playouts are uniform, and that playouts are legal games."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.memory import copy_row
from zerolab.rules import compiled_rules, rules
from zerolab.rules.rules import DRAW, LOSS, MAX_PLIES, ONGOING, WIN, Game
from zerolab.testing.samples import evenly_spaced_samples, expect, garbage_state

_DRAWS_PER_ACTION = 200
_PLAYOUTS = 500
_MIN_EXPECTED = 20
_LOG_RARITY = 25.0
"""Correct games exceed a bound with a probability below exp(-_LOG_RARITY)."""


def check_random_action(game: Game) -> None:
    """Check that `random_action` returns only legal actions, all with equal probability."""
    for sample in evenly_spaced_samples(game, 10):
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

    They must also return the outcome for the first player to move.
    """
    ranks = np.zeros((rules.action_count(game) + 1, rules.action_count(game)), np.int64)
    for sample in evenly_spaced_samples(game, 10):
        before = sample.state.copy()
        results, repeated = np.empty((2, _PLAYOUTS), np.int64)
        moves = np.empty((_PLAYOUTS, 1 + MAX_PLIES), np.int32)
        keys = _keys(_PLAYOUTS)
        _play_out(game, sample.state, keys, garbage_state(game), moves, results)
        _play_out(game, sample.state, keys, garbage_state(game), moves, repeated)
        expect(np.array_equal(before, sample.state), sample, "playout changes the state")
        is_reproducible = np.array_equal(results, repeated)
        expect(is_reproducible, sample, "playout depends on more than its stream")
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
    """Check the mean outcome of playouts against games played with `legal` and `apply`."""
    mask = np.empty(rules.action_count(game), np.bool_)
    # Bound on the difference between two means of values in [-1, 1] [Hoeffding1963].
    bound = math.sqrt(4 * _LOG_RARITY / _PLAYOUTS)
    for sample in evenly_spaced_samples(game, 3):
        results, naive = np.empty((2, _PLAYOUTS), np.int64)
        moves = np.empty((_PLAYOUTS, 1 + MAX_PLIES), np.int32)
        _play_out(game, sample.state, _keys(_PLAYOUTS), garbage_state(game), moves, results)
        naive_keys = _keys(_PLAYOUTS, seed=1)
        _play_naively(game, sample.state, naive_keys, mask, garbage_state(game), naive)
        expect(
            abs(results.mean() - naive.mean()) <= bound,
            sample,
            f"playouts have a mean outcome of {results.mean():.2f}, but random games"
            f" {naive.mean():.2f}",
        )


def _keys(count: int, seed: int = 0) -> NDArray[np.uint64]:
    zeros = np.zeros(count, np.int64)
    return streams.stream_keys(seed, 0, np.arange(count), zeros, streams.PLAYOUT)


def _chi_square_bound(degrees_of_freedom: int) -> float:
    """Return a bound that a chi-square variable exceeds with probability below exp(-_LOG_RARITY).

    Lemma 1 of Laurent and Massart (2000), doi:10.1214/aos/1015957395.
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
    """Replay `moves`; write outcomes for the first player to move, or ONGOING for illegal games.

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
                action = streams.below(streams.random_bits(keys[i], number), mask.shape[0])
                number += 1
            rules.apply(game, out, action, out)
            sign = -sign
