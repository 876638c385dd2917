"""Distinct games: what repeats another one, and that repetitions are no evidence of strength."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.ratings.bayes import rate
from zerolab.ratings.results import GameResult, Score, distinct_games, score_of
from zerolab.store.games import GameRecord

GAMES = [
    GameRecord(0, "a", "b", (0, 1), 1),
    GameRecord(1, "b", "a", (0, 1), 1),  # the same moves with the other colours
    GameRecord(2, "a", "b", (0, 1), 1),  # repeats game 0
    GameRecord(3, "a", "c", (0, 1), 1),  # against someone else
    GameRecord(4, "a", "b", (0, 2), 0),
    GameRecord(5, "b", "a", (0, 1), 1),  # repeats game 1
]


def test_the_same_players_colours_and_actions_make_a_repetition():
    assert [game.number for game in distinct_games(GAMES)] == [0, 1, 3, 4]


def test_games_whose_actions_are_unknown_all_count():
    unknown = [GameResult("a", "b", 1)] * 3
    assert distinct_games([*unknown, *GAMES[:1]]) == [*unknown, GAMES[0]]


def test_scores_are_seen_from_a_player():
    assert score_of("a", GAMES) == Score(3, 1, 2)
    assert score_of("b", [game for game in GAMES if "b" in game[1:3]]) == Score(2, 1, 2)


def test_a_rating_shows_all_games_and_is_made_from_distinct_ones():
    ratings, once = rate(GAMES), rate(distinct_games(GAMES))
    assert ratings.difference("a", "b") == once.difference("a", "b")
    assert ratings.model.elos.tolist() == once.model.elos.tolist()
    shown = {each.player: each for each in ratings.players}
    assert (shown["a"].games, shown["a"].distinct_games) == (6, 4)
    assert shown["b"].score_rate == 2.5 / 5


@pytest.mark.parametrize("times", [2, 50])
def test_repetitions_change_no_interval(times):
    games = [GameRecord(n, *("ab", "ba")[n % 2], (n,), (1, 0, -1, 1)[n % 4]) for n in range(10)]
    once, often = (rate(each).difference("a", "b") for each in (games, games * times))
    assert often == once


def repetitive_match(random, draws):
    """Return 40 games of two equal players, who know ten lines alone."""
    outcomes = random.choice([1, 0, -1], 10, p=[(1 - draws) / 2, draws, (1 - draws) / 2])
    lines = random.permutation([*range(10), *random.integers(0, 10, 30)]).tolist()
    sides = ("a", "b"), ("b", "a")
    return [
        GameRecord(n, *sides[line % 2], (line,), int(outcomes[line]) * (-1) ** line)
        for n, line in enumerate(lines)
    ]


@pytest.mark.parametrize("draws", [0.0, 0.3])
def test_equal_players_with_ten_distinct_games_of_forty_rarely_seem_unequal(draws):
    """About 5 % pass 0.95, three standard deviations allowed; counting all games, a quarter do."""
    random = np.random.default_rng(3)
    matches = [repetitive_match(random, draws) for _ in range(600)]
    passed = np.mean([rate(games).difference("a", "b").los >= 0.95 for games in matches])
    assert passed < 0.05 + 3 * (0.05 * 0.95 / len(matches)) ** 0.5
    counted = [[game._replace(actions=None) for game in games] for games in matches[:200]]
    deceived = np.mean([rate(games).difference("a", "b").los >= 0.95 for games in counted])
    assert deceived > 0.15
