"""Matches: colours, results, independence of players."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.arena.match import play_match
from zerolab.arena.players import RandomPlayer, SearchPlayer, mcts_player
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.settings import SearchSettings


class Scripted:
    """Plays the legal action of the lowest or highest number, and keeps a diary."""

    def __init__(self, name, pick):
        self.name = name
        self.pick = pick
        self.heard = []

    def start(self, games):
        self.positions = [Position.start("gobang:3x3:3")] * games

    def reset(self, slots):
        for slot in slots:
            self.positions[slot] = Position.start("gobang:3x3:3")

    def choose(self, slots, states, keys):
        for slot, state in zip(slots, states, strict=True):
            assert (self.positions[slot].state == state).all()
        return np.array([self.pick(self.positions[slot].legal_actions) for slot in slots])

    def advance(self, slots, actions):
        for slot, action in zip(slots, actions, strict=True):
            self.positions[slot] = self.positions[slot].play(int(action))
            self.heard.append(int(action))


def test_colours_alternate_and_results_are_the_games():
    game = parse_game("gobang:3x3:3")
    match = play_match(game, Scripted("low", min), Scripted("high", max), 5, seed=1)
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
    a, b = Scripted("low", min), Scripted("high", max)
    match = play_match(game, a, b, 2, seed=1)
    assert sorted(a.heard) == sorted(b.heard)
    assert len(a.heard) == sum(len(played.actions) for played in match.games)


def test_a_match_repeats_itself_and_depends_on_its_seed():
    game = parse_game("connect_four:5x5")
    one, same, other = (
        play_match(game, mcts_player(game, 30), RandomPlayer(game), 10, seed) for seed in (4, 4, 5)
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
    match = play_match(game, mcts_player(game, 200), mcts_player(game, 10), 60, seed=1)
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
