"""Games in lanes: the layout of batches changes nothing, and slots are shared out rightly."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest

from play.scripted import Scripted, highest, lowest
from search.naive import HashEvaluator
from zerolab.agents.interface import Agent
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.kinds.random import RandomPlayer
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.agents.search_player import SearchPlayer
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.oracles.interface import ILLEGAL
from zerolab.play.engine import ScheduledGame, Task, play_schedule
from zerolab.rules import host
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.settings import SearchSettings

GAME = parse_game("connect_four:4x4")


def agents():
    evaluator = HashEvaluator(4)

    def searcher():
        return SearchPlayer(GAME, "search", SearchSettings(simulations=12), evaluator, 3)

    return [
        Agent("random", lambda: RandomPlayer(GAME)),
        parse_agent("mcts:9", GAME),
        Agent("search", searcher),
        Agent("greedy", lambda: PolicyPlayer(GAME, "greedy", evaluator, 2), max_games=3),
        Agent("scripted", lambda: Scripted(GAME, "scripted", highest)),
    ]


def schedule(games):
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    return [ScheduledGame(n, *pairs[n % len(pairs)], 1000 + n, (n % 4,)) for n in range(games)]


def play(lanes, schedule):
    finished = []
    task = Task(GAME, agents(), seed=5, iteration=0, lanes=lanes)
    play_schedule(task, schedule, finished.append, threading.Event())
    return sorted(finished)


@pytest.fixture(scope="module")
def reference():
    return play(64, schedule(200))


def test_every_game_is_played_by_the_rules(reference):
    assert [played.number for played in reference] == list(range(200))
    for played, scheduled in zip(reference, schedule(200), strict=True):
        assert played.actions[:1] == scheduled.opening
        position = Position.start(GAME)
        for action in played.actions:
            position = position.play(action)
        assert position.first_player_outcome == played.result


@pytest.mark.parametrize("lanes", [1, 4, 1000])
def test_the_number_of_lanes_changes_nothing(reference, lanes):
    assert play(lanes, schedule(200)) == reference


def test_neither_does_the_order(reference):
    shuffled = list(np.random.default_rng(0).permutation(np.arange(200)))
    games = schedule(200)
    assert play(16, [games[n] for n in shuffled]) == reference


def test_nor_do_the_other_games(reference):
    games = schedule(200)
    assert play(8, games[60:90]) == reference[60:90]


def test_a_player_never_has_more_games_than_slots():
    most = []

    class Counting(Scripted):
        def start(self, games):
            super().start(games)
            most.append(games)

    names = ("one", "other")
    limited = [
        Agent(name, lambda: Counting(GAME, "counting", lowest), max_games=2) for name in names
    ]
    finished = []
    schedule = [ScheduledGame(n, n % 2, 1 - n % 2, n) for n in range(20)]
    task = Task(GAME, limited, seed=0, iteration=0, lanes=10)
    play_schedule(task, schedule, finished.append, threading.Event())
    assert most == [2, 2]
    assert len(finished) == 20


def test_players_are_closed_when_games_are_over_or_fail():
    closed = []

    def fail(position):
        raise UserError("no more moves")

    class Program(Scripted):
        def close(self):
            closed.append(self.name)

    for pick in (lowest, fail):
        some = [Agent(name, lambda n=name, p=pick: Program(GAME, n, p)) for name in "ab"]
        task = Task(GAME, some, seed=0, iteration=0, lanes=2)
        with nullcontext() if pick is lowest else pytest.raises(UserError, match="no more"):
            play_schedule(task, [ScheduledGame(0, 0, 1, 0)], lambda _: None, threading.Event())
    assert closed == ["a", "b"] * 2


def test_a_stop_ends_early():
    stop = threading.Event()
    finished = []

    def finish(played):
        finished.append(played)
        stop.set()

    play_schedule(Task(GAME, agents(), 5, 0, lanes=4), schedule(200), finish, stop)
    assert 1 <= len(finished) < 50


def play_one(player, position, key=0):
    player.start(1)
    for action in position.history:
        player.advance(np.zeros(1, int), np.array([action]))
    keys = np.array([key], np.uint64)
    return int(player.choose(np.zeros(1, int), position.state[None], keys)[0])


class Fixed:
    """Says the same about every position."""

    def __init__(self, priors):
        self.priors = np.array(priors, np.float32)

    def evaluate(self, states):
        count = len(states)
        return np.repeat(self.priors[None], count, axis=0), np.zeros(count, np.float32)


def test_greedy_plays_the_highest_legal_prior():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.5, 0.2, 0.3, 0.0]))
    full = Position.start(GAME).play(0).play(0).play(0).play(0)
    assert play_one(player, Position.start(GAME)) == 0
    assert play_one(player, full) == 2


def test_greedy_decides_equal_priors_by_lot():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.4, 0.1, 0.4, 0.1]))
    chosen = [play_one(player, Position.start(GAME), key) for key in range(400)]
    assert set(chosen) == {0, 2}
    assert 150 < chosen.count(0) < 250


def test_greedy_without_any_legal_prior_plays_all_alike():
    player = PolicyPlayer(GAME, "greedy", Fixed([1.0, 0.0, 0.0, 0.0]))
    full = Position.start(GAME).play(0).play(0).play(0).play(0)
    assert {play_one(player, full, key) for key in range(100)} == {1, 2, 3}


def test_greedy_samples_the_first_plies_in_proportion():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.5, 0.25, 0.125, 0.125]), sampled_plies=1)
    counts = np.bincount([play_one(player, Position.start(GAME), key) for key in range(4000)])
    assert np.abs(counts / 4000 - [0.5, 0.25, 0.125, 0.125]).max() < 0.03
    later = Position.start(GAME).play(0)
    assert {play_one(player, later, key) for key in range(50)} == {0}


class Exhaustive:
    """Values of moves by looking at all games to come: a win now is worth 1, a win later too."""

    def __init__(self):
        self.known = {}

    def action_values(self, states):
        rows = []
        for state in states:
            legal = host.legal(TINY, state)
            rows.append([-self.value(state, a) if legal[a] else ILLEGAL for a in range(len(legal))])
        return np.array(rows, np.int32)

    def value(self, state, action):
        after = host.apply(TINY, state, action)
        outcome = host.outcome(TINY, after)
        if outcome != 2:
            return outcome
        key = after.tobytes()
        if key not in self.known:
            legal = np.flatnonzero(host.legal(TINY, after))
            self.known[key] = max(-self.value(after, int(each)) for each in legal)
        return self.known[key]


TINY = parse_game("gobang:3x3:3")


def test_perfect_play_takes_the_win_and_blocks():
    player = PerfectPlayer(Exhaustive())
    two = Position.start(TINY).play(0).play(3).play(1).play(4)
    assert play_one(player, two) == 2
    threatened = Position.start(TINY).play(0).play(4).play(1)
    assert play_one(player, threatened) == 2


def test_perfect_play_decides_equal_moves_by_lot():
    """From the centre and any corner, only corners hold the draw as the second move."""
    centre = Position.start(TINY).play(4)
    player = PerfectPlayer(Exhaustive())
    assert {play_one(player, centre, key) for key in range(60)} == {0, 2, 6, 8}
