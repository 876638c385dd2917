"""Batches of playouts and perft counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.compiled_rules import PerftCount, perft
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game, State
from zerolab.testing.random_games import ongoing_sample_positions, random_games

NAMES = ["othello:4x4", "hex:3x3"]  # with and without its own `playout`


@kernel
def _playout(game: Any, state: Any, key: Any, number: Any, out: Any, moves: Any) -> Any:
    return rules.playout(game, state, streams.fold_in(key, number), out, moves)


def _keys(count: int) -> NDArray[np.uint64]:
    numbers = np.arange(count)
    return streams.stream_keys(3, 0, numbers, np.zeros_like(numbers), streams.PLAYOUT)


def _states(game: Game) -> NDArray[np.uint64]:
    return np.array([sample.state for sample in ongoing_sample_positions(game)])


@pytest.mark.parametrize("name", NAMES)
def test_batch_agrees_with_single_playouts(name: str) -> None:
    game = parse_game(name)
    states = _states(game)
    keys = _keys(len(states))
    moves = np.empty(1 + MAX_PLIES, np.int32)
    expected = [
        np.float32(sum(_playout(game, state, key, j, state.copy(), moves) for j in range(5)) / 5)
        for state, key in zip(states, keys, strict=True)
    ]
    assert compiled_rules.playout_batch(game, states, keys, count=5).tolist() == expected


def test_playouts_do_not_depend_on_threads_or_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game("othello:4x4")
    states = _states(game)
    keys = _keys(len(states))
    expected = compiled_rules.playout_batch(game, states, keys, count=20)
    monkeypatch.setattr(rules, "_PLAYOUTS_PER_THREAD", 1)
    for threads in (2, 3, len(states) + 5):
        assert np.array_equal(
            compiled_rules.playout_batch(game, states, keys, 20, threads), expected
        )
    subset = np.arange(0, len(states), 3)[::-1]
    assert np.array_equal(
        compiled_rules.playout_batch(game, states[subset], keys[subset], 20), expected[subset]
    )
    assert len(compiled_rules.playout_batch(game, states[:0], keys[:0], threads=2)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_playout_of_finished_game_is_its_outcome(name: str) -> None:
    game = parse_game(name)
    ends = [played[-1] for played in random_games(game)]
    states = np.array([end.state for end in ends])
    means = compiled_rules.playout_batch(game, states, _keys(len(states)), count=2)
    assert means.tolist() == [end.outcome for end in ends]


@pytest.mark.parametrize("name", NAMES)
def test_means_converge_to_exact_expectation(name: str) -> None:
    game, count = parse_game(name), 20_000
    states = [state for state in _states(game) if _empty(game, state) <= 4][:6]
    assert states
    means = compiled_rules.playout_batch(game, np.array(states), _keys(len(states)), count)
    bound = math.sqrt(2 * 25 / count)  # Hoeffding bound, exceeded with probability 2 exp(-25)
    for state, mean in zip(states, means, strict=True):
        assert mean == pytest.approx(float(_expectation(game, state)), abs=bound)


def _empty(game: Game, state: State) -> int:
    return int((compiled_rules.encode(game, state)[0] == 0).sum())


def _expectation(game: Game, state: State) -> Fraction:
    """Return the mean outcome for the side to move when all moves are uniformly random."""
    outcome = compiled_rules.outcome(game, state)
    if outcome != ONGOING:
        return Fraction(outcome)
    legal = np.flatnonzero(compiled_rules.legal(game, state)).tolist()
    total = sum(_expectation(game, compiled_rules.apply(game, state, action)) for action in legal)
    return Fraction(-total, len(legal))


@pytest.mark.parametrize("argument", ["count", "threads"])
def test_numbers_below_one_are_refused(argument: str) -> None:
    game = parse_game("gobang:3x3:3")
    states = compiled_rules.start(game)[None]
    with pytest.raises(UserError, match=f"{argument} = 0: expected at least 1"):
        compiled_rules.playout_batch(game, states, _keys(1), **{argument: 0})


def test_every_state_needs_a_key() -> None:
    game = parse_game("gobang:3x3:3")
    with pytest.raises(ValueError, match="2 keys for states"):
        compiled_rules.playout_batch(game, compiled_rules.start(game)[None], _keys(2))


def test_perft_of_depth_zero_is_empty() -> None:
    assert list(perft(parse_game("othello:6x6"), 0)) == []


def test_perft_counts_legal_actions_at_first_ply() -> None:
    assert list(perft(parse_game("gobang:3x5:3"), 1)) == [
        PerftCount(depth=1, leaf_count=15, ended_leaf_count=0)
    ]


def test_perft_does_not_continue_ended_games() -> None:
    counts = list(perft(parse_game("gobang:3x3:3"), 6))
    assert counts[4] == PerftCount(5, 9 * 8 * 7 * 6 * 5, 1440)
    assert counts[5].leaf_count == (counts[4].leaf_count - counts[4].ended_leaf_count) * 4


def test_perft_beyond_longest_game_is_zero() -> None:
    counts = list(perft(parse_game("gobang:3x3:3"), 12))
    assert counts[8].leaf_count == counts[8].ended_leaf_count == 127872
    assert counts[9:] == [PerftCount(depth, 0, 0) for depth in (10, 11, 12)]


@pytest.mark.parametrize("game", ["othello:4x4", "connect_four:4x4", "gobang:3x3:3"])
def test_deeper_perft_starts_with_shallower_counts(game: str) -> None:
    deep = list(perft(parse_game(game), 6))
    assert list(perft(parse_game(game), 4)) == deep[:4]
