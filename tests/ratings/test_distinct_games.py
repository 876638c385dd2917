"""Distinct games: detection of repetitions, which are no evidence of strength."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.ratings.bayes import rate
from zerolab.ratings.results import GameResult, MatchScore, distinct_games, score_of
from zerolab.store.games import GameRecord

GAMES = [
    GameRecord(0, "a", "b", (0, 1), 1),
    GameRecord(1, "b", "a", (0, 1), 1),  # the same moves with reversed colours
    GameRecord(2, "a", "b", (0, 1), 1),  # repeats game 0
    GameRecord(3, "a", "c", (0, 1), 1),  # another opponent
    GameRecord(4, "a", "b", (0, 2), 0),
    GameRecord(5, "b", "a", (0, 1), 1),  # repeats game 1
]


def test_repetition_has_same_players_colours_and_actions():
    assert [game.number for game in distinct_games(GAMES)] == [0, 1, 3, 4]


def test_games_without_actions_are_all_distinct():
    unknown = [GameResult("a", "b", 1)] * 3
    assert distinct_games([*unknown, *GAMES[:1]]) == [*unknown, GAMES[0]]


def test_score_of_counts_for_one_player():
    assert score_of("a", GAMES) == MatchScore(3, 1, 2)
    assert score_of("b", [game for game in GAMES if "b" in game[1:3]]) == MatchScore(2, 1, 2)


def test_rating_counts_all_games_but_uses_distinct_ones():
    ratings, once = rate(GAMES), rate(distinct_games(GAMES))
    assert ratings.elo_difference("a", "b") == once.elo_difference("a", "b")
    assert ratings.model.elos.tolist() == once.model.elos.tolist()
    rated = {each.player: each for each in ratings.player_ratings}
    assert (rated["a"].games, rated["a"].distinct_games) == (6, 4)
    assert rated["b"].score_rate == 2.5 / 5


@pytest.mark.parametrize("times", [2, 50])
def test_repetitions_do_not_change_interval(times):
    games = [GameRecord(n, *("ab", "ba")[n % 2], (n,), (1, 0, -1, 1)[n % 4]) for n in range(10)]
    once, often = (rate(each).elo_difference("a", "b") for each in (games, games * times))
    assert often == once


def repetitive_match(random, draws):
    """Return 40 games of two equal players with only ten distinct lines."""
    outcomes = random.choice([1, 0, -1], 10, p=[(1 - draws) / 2, draws, (1 - draws) / 2])
    lines = random.permutation([*range(10), *random.integers(0, 10, 30)]).tolist()
    sides = ("a", "b"), ("b", "a")
    return [
        GameRecord(n, *sides[line % 2], (line,), int(outcomes[line]) * (-1) ** line)
        for n, line in enumerate(lines)
    ]


@pytest.mark.parametrize("draws", [0.0, 0.3])
def test_repetitions_do_not_raise_error_rate(draws):
    """About 5 % of matches pass 0.95; if repetitions counted, about a quarter would."""
    random = np.random.default_rng(3)
    matches = [repetitive_match(random, draws) for _ in range(300)]
    passed = np.mean([rate(games).elo_difference("a", "b").los >= 0.95 for games in matches])
    assert passed < 0.05 + 3 * (0.05 * 0.95 / len(matches)) ** 0.5
    without_actions = [[game._replace(actions=None) for game in games] for games in matches[:100]]
    passed_with_repetitions = np.mean(
        [rate(games).elo_difference("a", "b").los >= 0.95 for games in without_actions]
    )
    assert passed_with_repetitions > 0.15
