"""Counting sequences at the edges: no depth, games that end, depths beyond every game."""

from __future__ import annotations

import pytest

from zerolab.rules.catalogue import parse_game
from zerolab.rules.python import Count, perft


def test_depth_zero_counts_nothing() -> None:
    assert list(perft(parse_game("othello:6x6"), 0)) == []


def test_first_ply_counts_legal_actions() -> None:
    assert list(perft(parse_game("gobang:3x5:3"), 1)) == [Count(depth=1, leaves=15, ended=0)]


def test_ended_games_are_not_continued() -> None:
    counts = list(perft(parse_game("gobang:3x3:3"), 6))
    assert counts[4] == Count(5, 9 * 8 * 7 * 6 * 5, 1440)
    assert counts[5].leaves == (counts[4].leaves - counts[4].ended) * 4


def test_depths_beyond_the_longest_game_count_nothing() -> None:
    counts = list(perft(parse_game("gobang:3x3:3"), 12))
    assert counts[8].leaves == counts[8].ended == 127872
    assert counts[9:] == [Count(depth, 0, 0) for depth in (10, 11, 12)]


@pytest.mark.parametrize("game", ["othello:4x4", "connect_four:4x4", "gobang:3x3:3"])
def test_deeper_counts_start_with_the_shallower_ones(game: str) -> None:
    deep = list(perft(parse_game(game), 6))
    assert list(perft(parse_game(game), 4)) == deep[:4]
