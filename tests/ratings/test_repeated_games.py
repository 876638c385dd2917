"""Repeated games, which are no evidence of strength, and ratings of players who repeat them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab.ratings.bayes import rate
from zerolab.ratings.results import (
    EffectiveScore,
    GameResult,
    MatchScore,
    combined_effective_games,
    distinct_games,
    effective_game_count,
    effective_score_of,
    score_of,
)
from zerolab.ratings.sprt import cumulative_pair_counts
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


def test_games_that_end_differently_are_distinct():
    resigned = [GAMES[0], GAMES[0]._replace(result=-1), GAMES[0]]
    assert distinct_games(resigned) == resigned[:2]
    assert effective_game_count(resigned) == 3**2 / (2**2 + 1)
    pairs = [game for first in resigned for game in (first, GAMES[1]._replace(actions=None))]
    assert cumulative_pair_counts("a", pairs)[-1].sum() == pytest.approx(3**2 / (2**2 + 1))


def test_games_without_actions_are_all_distinct():
    unknown = [GameResult("a", "b", 1)] * 3
    assert distinct_games([*unknown, *GAMES[:1]]) == [*unknown, GAMES[0]]


def test_score_of_counts_for_one_player():
    assert score_of("a", GAMES) == MatchScore(3, 1, 2)
    assert score_of("b", [game for game in GAMES if "b" in game[1:3]]) == MatchScore(2, 1, 2)


def test_rating_shows_all_games_and_their_effective_number():
    """a plays b five times, in lines of two, two and one games; and c once."""
    rated = {each.player: each for each in rate(GAMES).player_ratings}
    assert (rated["a"].games, rated["a"].effective_games) == (6, 5**2 / (2**2 + 2**2 + 1) + 1)
    assert rated["b"].score_rate == 2.5 / 5


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=1))
def test_effective_numbers_agree_with_their_definition(lines):
    """Line n always ends with result n % 3 - 1; a negative result is a win of the second player."""
    games = [
        GameRecord(number, *("ab" if is_first else "ba"), (line,), line % 3 - 1)
        for number, (is_first, line) in enumerate(lines)
    ]
    effective = effective_game_count(games)
    assert effective == len(lines) ** 2 / sum(count**2 for count in Counter(lines).values())
    assert 1 <= effective <= len(distinct_games(games))
    assert effective_game_count(games * 7) == pytest.approx(effective)
    score, effective_score = score_of("a", games), effective_score_of("a", games)
    assert effective_score.total(score) == pytest.approx(effective)
    decisive = [game for game in games if game.result]
    assert effective_score.decisive(score) == pytest.approx(effective_game_count(decisive))
    parts = [[game for game in games if game.first == player] for player in "ab"]
    counts = [effective_game_count(part) for part in parts]
    assert combined_effective_games([*map(len, parts)], counts) == pytest.approx(effective)
    assert effective_score_of("b", games) == effective_score[::-1]


def test_games_that_do_not_exist_have_no_effective_number():
    assert effective_game_count([]) == 0
    assert effective_score_of("a", []) == EffectiveScore(0, 0, 0)
    assert EffectiveScore(0, 0, 0).total(MatchScore(0, 0, 0)) == 0


def stochastic_match(random, count, wins):
    """Return games in which a wins a share of games in 20 lines and loses in countless others."""
    records = []
    for number in range(count):
        has_won = random.random() < wins
        first = number % 2 == 0
        line = int(random.integers(0, 20) if has_won else random.integers(20, 1 << 40))
        sides, result = ("ab" if first else "ba"), 1 if has_won == first else -1
        records.append(GameRecord(number, *sides, (line,), result))
    return records


@pytest.mark.parametrize("count", [200, 2000])
def test_rating_of_stochastic_players_follows_their_score(count):
    """If only distinct games counted, a would seem weaker the more games are played."""
    games = stochastic_match(np.random.default_rng(4), count, 0.8)
    difference = rate(games).elo_difference("a", "b")
    assert difference.interval.low < 400 * math.log10(0.8 / 0.2) < difference.interval.high
    score_rate = score_of("a", games).score_rate
    assert difference.elo == pytest.approx(400 * math.log10(score_rate / (1 - score_rate)), rel=0.1)
    # 1 / sum(p^2) for 40 won lines with p = 0.8 / 40 each, and lost lines that are not repeated
    assert effective_game_count(games) < 1.1 * 40 / 0.8**2


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


def test_uneven_repetitions_do_not_raise_error_rate():
    """Lines are played in the ratios 1, 1/2, 1/3, and so on.

    With the number of distinct games instead of the effective number, a fifth would pass.
    """
    random = np.random.default_rng(5)
    shares = 1 / np.arange(1, 101)
    passed = 0
    for _ in range(300):
        outcomes = random.choice([1, -1], 100)
        lines = random.choice(100, 200, p=shares / shares.sum()).tolist()
        games = [
            GameRecord(n, "a", "b", (line,), int(outcomes[line])) for n, line in enumerate(lines)
        ]
        passed += rate(games, advantage=0).elo_difference("a", "b").los >= 0.95
    assert passed / 300 < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


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
