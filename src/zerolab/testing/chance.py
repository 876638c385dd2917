"""Laws of chance: uniform random actions, and playouts that are played as the interface says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import calls
from zerolab.rules import interface as rules
from zerolab.rules.interface import DRAW, LOSS, ONGOING, WIN, Game
from zerolab.testing.samples import MAX_PLIES, require, spread, unwritten_state

_DRAWS_AN_ACTION = 200
_PLAYOUTS = 500
_RARE = 25.0
"""Chance alone breaks a bound with a probability under exp(-_RARE)."""


def check_random_action(game: Game) -> None:
    """Check that `random_action` returns legal actions only, all of them equally often."""
    for sample in spread(game, 10):
        mask = calls.legal_mask(game, sample.state)
        drawn = np.empty(int(mask.sum()) * _DRAWS_AN_ACTION, np.int64)
        before = sample.state.copy()
        _draw_actions(game, sample.state, _keys(len(drawn)), drawn)
        unchanged = np.array_equal(before, sample.state)
        require(unchanged, sample, "random_action changes the state")
        illegal = sorted(set(drawn.tolist()) - set(np.flatnonzero(mask).tolist()))
        require(not illegal, sample, f"random_action returns {illegal}, which are not legal")
        counts = np.bincount(drawn, minlength=len(mask))[mask]
        statistic = float(((counts - _DRAWS_AN_ACTION) ** 2).sum() / _DRAWS_AN_ACTION)
        bound = _chi_square_bound(len(counts) - 1)
        require(
            statistic <= bound,
            sample,
            f"random_action is not uniform: {len(drawn)} draws fell {counts.tolist()} on the legal "
            f"actions (chi-square {statistic:.0f}, expected under {bound:.0f})",
        )


def check_playout(game: Game) -> None:
    """Check that `playout` uses draw i of its stream at ply i, and whose result it returns."""
    for sample in spread(game, 10):
        before = sample.state.copy()
        played, expected = np.empty((2, _PLAYOUTS), np.int64)
        keys = _keys(_PLAYOUTS)
        _play_out(game, sample.state, keys, unwritten_state(game), played)
        _step_out(game, sample.state, keys, unwritten_state(game), expected)
        require(np.array_equal(before, sample.state), sample, "playout changes the state")
        unknown = sorted(set(played.tolist()) - {WIN, DRAW, LOSS})
        require(not unknown, sample, f"playout returns {unknown}; expected -1, 0 or 1")
        wrong = int((played != expected).sum())
        require(
            wrong == 0,
            sample,
            f"{wrong} of {_PLAYOUTS} playouts differ from games of random_action, draw i of the "
            "stream choosing ply i, with the result for the mover of the first state",
        )


def check_playout_mean(game: Game) -> None:
    """Check that playouts end, in the mean, as random games of `legal` and `apply` do."""
    mask = np.empty(rules.actions(game), np.bool_)
    # Hoeffding's inequality for the difference of two means of values in [-1, 1].
    bound = math.sqrt(4 * _RARE / _PLAYOUTS)
    for sample in spread(game, 3):
        played, naive = np.empty((2, _PLAYOUTS), np.int64)
        _play_out(game, sample.state, _keys(_PLAYOUTS), unwritten_state(game), played)
        others = _keys(_PLAYOUTS, seed=1)
        _random_plays(game, sample.state, others, mask, unwritten_state(game), naive)
        require(
            abs(played.mean() - naive.mean()) <= bound,
            sample,
            f"the mean of playouts is {played.mean():.2f}, of random games {naive.mean():.2f}",
        )


def _keys(count: int, seed: int = 0) -> NDArray[np.uint64]:
    zeros = np.zeros(count, np.int64)
    return streams.streams(seed, 0, np.arange(count), zeros, streams.PLAYOUT)


def _chi_square_bound(freedom: int) -> float:
    """Return what a chi-square variable exceeds with a probability under exp(-_RARE).

    Laurent and Massart 2000, Lemma 1.
    """
    return freedom + 2 * math.sqrt(freedom * _RARE) + 2 * _RARE


@kernel
def _draw_actions(game: Any, state: Any, keys: Any, drawn: Any) -> None:
    for i in range(drawn.shape[0]):
        drawn[i] = rules.random_action(game, state, streams.bits(keys[i], 0))


@kernel
def _play_out(game: Any, state: Any, keys: Any, out: Any, results: Any) -> None:
    for i in range(results.shape[0]):
        results[i] = rules.playout(game, state, keys[i], out)


@kernel
def _step_out(game: Any, state: Any, keys: Any, out: Any, results: Any) -> None:
    """Play out as the interface describes it, for a bounded number of plies."""
    for i in range(results.shape[0]):
        out[:] = state
        result = ONGOING
        for ply in range(MAX_PLIES):
            result = rules.outcome(game, out)
            if result != ONGOING:
                result = result if ply % 2 == 0 else -result
                break
            action = rules.random_action(game, out, streams.bits(keys[i], ply))
            rules.apply(game, out, action, out)
        results[i] = result


@kernel
def _random_plays(game: Any, state: Any, keys: Any, mask: Any, out: Any, results: Any) -> None:
    """Play to the end by drawing among all actions until one is legal."""
    for i in range(results.shape[0]):
        out[:] = state
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
                action = streams.below(streams.bits(keys[i], number), mask.shape[0])
                number += 1
            rules.apply(game, out, action, out)
            sign = -sign
