"""Matches: colours, results, independence of players."""

from __future__ import annotations

import numpy as np
import pytest

from play.scripted import Scripted, highest, lowest, quitter
from search.naive import HashEvaluator
from zerolab.agents.interface import FORFEIT, Agent
from zerolab.agents.kinds.random import RandomPlayer
from zerolab.agents.search_player import SearchPlayer
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.play.match import play_match
from zerolab.play.openings import random_openings
from zerolab.ratings.bayes import rate
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.settings import SearchSettings


def test_colours_alternate_and_results_are_the_games():
    game = parse_game("gobang:3x3:3")
    match = play_match(
        game, Scripted(game, "low", lowest), Scripted(game, "high", highest), 5, seed=1
    )
    assert [g.first for g in match.games] == ["low", "high", "low", "high", "low"]
    for played in match.games:
        position = Position.start(game)
        for action in played.actions:
            position = position.play(action)
        assert position.first_player_outcome == played.result
    # 0 8 1 7 2 wins the top row for the first player; 8 0 7 1 6 the bottom row.
    assert match.games[0].actions == (0, 8, 1, 7, 2)
    assert match.games[1].actions == (8, 0, 7, 1, 6)
    assert match.score == (3, 0, 2)
    assert match.distinct == 2


def test_both_players_hear_every_move():
    game = parse_game("gobang:3x3:3")
    a, b = Scripted(game, "low", lowest), Scripted(game, "high", highest)
    match = play_match(game, a, b, 2, seed=1)
    assert sorted(a.heard) == sorted(b.heard)
    assert len(a.heard) == sum(len(played.actions) for played in match.games)


def test_a_match_repeats_itself_and_depends_on_its_seed():
    game = parse_game("connect_four:5x5")
    one, same, other = (
        play_match(game, parse_agent("mcts:30", game).new_player(), RandomPlayer(game), 10, seed)
        for seed in (4, 4, 5)
    )
    assert one == same
    assert one.games != other.games


def test_equal_players_share_the_points():
    game = parse_game("connect_four:5x5")
    match = play_match(game, RandomPlayer(game), RandomPlayer(game), 2000, seed=1)
    low, high = match.score.interval()
    assert low < 0.5 < high
    first = np.mean([(1 + played.result) / 2 for played in match.games])
    assert first > 0.5  # moving first is an advantage


def test_more_playouts_are_stronger():
    game = parse_game("connect_four:6x7")
    match = play_match(
        game,
        parse_agent("mcts:200", game).new_player(),
        parse_agent("mcts:10", game).new_player(),
        60,
        seed=1,
    )
    assert match.score.interval()[0] > 0.6


def test_players_of_one_match_do_not_share_trees():
    """A player's choices are the same whoever sits opposite with the same moves."""
    game = parse_game("connect_four:5x5")
    evaluator = HashEvaluator(5)

    def player(simulations):
        settings = SearchSettings(simulations=simulations)
        return SearchPlayer(game, f"search {simulations}", settings, evaluator)

    match = play_match(game, player(40), player(15), 2, seed=9)
    twice = play_match(game, player(40), player(15), 2, seed=9)
    assert match == twice
    again = player(40)
    again.start(1)
    position = Position.start(game)
    for ply, action in enumerate(match.games[0].actions):
        if ply % 2 == 0:
            keys = np.zeros(1, np.uint64)
            chosen = again.choose(np.zeros(1, int), position.state[None], keys)[0]
            visits = again.search.visits(np.zeros(1, int))[0]
            assert visits[action] == visits[chosen]
        again.advance(np.zeros(1, int), np.array([action]))
        position = position.play(action)


def test_sampled_plies_make_games_differ():
    game = parse_game("connect_four:6x7")

    def player(plies):
        settings = SearchSettings(simulations=20)
        return SearchPlayer(game, "search", settings, HashEvaluator(7), sampled_plies=plies)

    assert play_match(game, player(0), player(0), 10, seed=1).distinct <= 5
    assert play_match(game, player(6), player(6), 10, seed=1).distinct >= 9


@pytest.mark.parametrize("games", [0, 1])
def test_small_matches(games):
    game = parse_game("gobang:3x3:3")
    match = play_match(game, RandomPlayer(game), RandomPlayer(game), games, seed=1)
    assert match.score.games == games


def test_whoever_gives_up_loses():
    game = parse_game("gobang:3x3:3")
    match = play_match(
        game, Scripted(game, "quitter", quitter(3)), Scripted(game, "low", lowest), 4, seed=1
    )
    # Moving first, the quitter is asked at plies 0, 2 and 4; moving second, at plies 1 and 3.
    assert [played.actions for played in match.games] == [
        (0, 1, 2, 3, FORFEIT),
        (0, 1, 2, FORFEIT),
    ] * 2
    assert [played.result for played in match.games] == [-1, 1, -1, 1]
    assert match.score == (0, 0, 4)


def test_both_colours_share_an_opening():
    game = parse_game("connect_four:6x7")
    match = play_match(game, RandomPlayer(game), RandomPlayer(game), 40, seed=1, openings=5)
    begins = [played.actions[:5] for played in match.games]
    assert begins[::2] == begins[1::2]
    assert len(set(begins)) > 15
    assert all(len(played.actions) > 5 for played in match.games)
    afterwards = [played.actions[5:] for played in match.games]
    assert all(one != other for one, other in zip(afterwards[::2], afterwards[1::2], strict=True))


def test_players_hear_the_opening():
    game = parse_game("gobang:3x3:3")
    low, high = Scripted(game, "low", lowest), Scripted(game, "high", highest)
    match = play_match(game, low, high, 6, seed=3, openings=2)
    assert len(low.heard) == sum(len(played.actions) for played in match.games)


def test_openings_longer_than_games_are_refused():
    game = parse_game("gobang:3x3:3")
    with pytest.raises(UserError, match="openings of 9 plies"):
        play_match(game, RandomPlayer(game), RandomPlayer(game), 2, seed=1, openings=9)


def test_no_opening_is_an_ended_game():
    """Of the games of 3x3, many are over after 6 or 7 plies."""
    game = parse_game("gobang:3x3:3")
    keys = np.arange(500, dtype=np.uint64)
    for opening in random_openings(game, 7, keys):
        position = Position.start(game)
        for action in opening:
            position = position.play(int(action))
        assert position.outcome is None


def test_threads_and_players_given_themselves_play_the_same_games():
    game = parse_game("connect_four:5x5")
    agents = parse_agent("mcts:20", game), Agent("Random", lambda: RandomPlayer(game))
    players = parse_agent("mcts:20", game).new_player(), RandomPlayer(game)
    assert play_match(game, *agents, 12, seed=2) == play_match(game, *players, 12, seed=2)


def test_a_match_in_two_parts_is_the_whole_match():
    game = parse_game("connect_four:5x5")
    a, b = parse_agent("mcts:10", game), parse_agent("mcts:20", game)
    whole = play_match(game, a, b, 12, seed=2, openings=2)
    parts = [play_match(game, a, b, 6, seed=2, openings=2, begin=n) for n in (0, 6)]
    assert parts[0].games + parts[1].games == whole.games


def test_a_player_against_itself_is_its_own_equal():
    """Both sides search; neither may see or reuse what the other draws."""
    game = parse_game("connect_four:5x5")
    match = play_match(
        game, parse_agent("mcts:15", game), parse_agent("mcts:15", game), 1200, seed=7
    )
    low, high = match.score.interval()
    assert low < 0.5 < high
    results = [g._replace(first="ab"[g.number % 2], second="ba"[g.number % 2]) for g in match.games]
    difference = rate(results).difference("a", "b")
    assert difference.low < 0 < difference.high
    assert match.distinct > 1100
