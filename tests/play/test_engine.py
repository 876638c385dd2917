"""The engine: reproducibility, slots, observers and interruption; and simple players."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import ClassVar

import numpy as np
import pytest
import torch

from play.scripted import Scripted, highest, lowest, scripted
from search.naive import HashEvaluator
from zerolab.agents.agent import Agent
from zerolab.agents.baselines import PerfectPlayer, RandomPlayer
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.agents.specs import parse_agent
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.networks import inference
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.play import engine
from zerolab.play.engine import EngineSetup, EngineThread, play_pairings, useful_thread_count
from zerolab.play.observers import GameRecorder
from zerolab.play.pairings import Pairing
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import ONGOING
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("connect_four:4x4")
GAMES = 80  # four for each ordered pair of agents


def searcher(evaluator, simulations=12):
    settings = SearchSettings(simulations=simulations)
    name = f"search {simulations}"
    return Agent(name, lambda: SearchPlayer(GAME, name, settings, evaluator, 3), game=GAME)


def agents():
    evaluator = HashEvaluator(4)
    return [
        Agent("random", lambda: RandomPlayer(GAME)),
        parse_agent("mcts:9", GAME),
        searcher(evaluator),
        Agent("greedy", lambda: PolicyPlayer(GAME, "greedy", evaluator, 2), max_games_per_player=3),
        scripted(GAME, "scripted", highest),
    ]


def schedule(games):
    names = [agent.name for agent in agents()]
    pairs = [(a, b) for a in names for b in names if a != b]
    return [Pairing(n, *pairs[n % len(pairs)], 1000 + n, (n % 4,)) for n in range(games)]


def play(games, chosen_agents=None, slots=16, threads=1, **observers):
    recorder = GameRecorder()
    setup = EngineSetup(
        GAME,
        chosen_agents or agents(),
        seed=5,
        iteration=0,
        threads=threads,
        slots_per_thread=slots,
    )
    batches = [batch for n in range(threads) if (batch := games[n::threads])]
    play_pairings(setup, batches, game_observers=[recorder], **observers)
    return recorder.games


@pytest.fixture(scope="module")
def reference():
    return play(schedule(GAMES), slots=64)


def test_games_follow_rules_and_openings(reference):
    assert [played.number for played in reference] == list(range(GAMES))
    for played, scheduled in zip(reference, schedule(GAMES), strict=True):
        assert played.actions[:1] == scheduled.opening
        position = Position.start(GAME)
        for action in played.actions:
            position = position.play(action)
        assert position.first_player_outcome == played.result


@pytest.mark.parametrize(("slots", "threads"), [(1, 1), (4, 3), (1000, 2)])
def test_games_do_not_depend_on_slots_or_threads(reference, slots, threads):
    assert play(schedule(GAMES), slots=slots, threads=threads) == reference


@pytest.mark.parametrize(
    ("device", "has_networks", "games", "expected"),
    [
        ("cpu", True, 100, 8),
        ("cpu", True, 3, 3),
        ("cpu", True, 0, 1),
        ("cuda", True, 100, 1),
        ("cuda", False, 100, 8),
    ],
)
def test_one_thread_plays_games_with_networks_on_a_gpu(
    monkeypatch, device, has_networks, games, expected
):
    monkeypatch.setattr(inference, "default_device", lambda: torch.device(device))
    assert useful_thread_count(8, games, has_networks) == expected


def test_games_do_not_depend_on_order(reference):
    shuffled = list(np.random.default_rng(0).permutation(np.arange(GAMES)))
    games = schedule(GAMES)
    assert play([games[n] for n in shuffled]) == reference


def test_games_do_not_depend_on_other_games(reference):
    assert play(schedule(GAMES)[30:50], slots=8) == reference[30:50]


class Watcher:
    """An observer that records every decided move."""

    def __init__(self):
        self.decisions = {}

    def on_moves_chosen(self, moves):
        for row, action in enumerate(moves.actions.tolist()):
            game = int(moves.game_numbers[row]), int(moves.plies[row])
            self.decisions[game] = (moves.states[row].copy(), tuple(moves.histories[row]), action)


def test_observers_get_every_decided_move_with_its_position(reference):
    watcher = Watcher()
    play(schedule(GAMES), move_observers=[watcher])
    expected = {(game.number, ply) for game in reference for ply in range(1, len(game.actions))}
    assert set(watcher.decisions) == expected  # ply 0 is the opening
    for (number, ply), (state, history, action) in watcher.decisions.items():
        assert history == reference[number].actions[:ply]
        assert action == reference[number].actions[ply]
        position = Position.start(GAME)
        for each in history:
            position = position.play(each)
        assert (position.state == state).all()


def test_ply_limit_gives_one_decision_per_opening(reference):
    """The decision after an opening equals the next move of the whole game."""
    whole = [game for game in reference if game.first == "search 12"]
    openings = [
        Pairing(game.number, game.first, game.second, 1000 + game.number, game.actions[:2], 1)
        for game in whole
    ]
    decided = play(openings)
    assert [game.actions for game in decided] == [game.actions[:3] for game in whole]
    assert {game.result for game in decided} == {ONGOING}


def test_agent_on_both_sides_has_one_slot_per_game():
    players = []

    class Counting(Scripted):
        def start(self, games):
            super().start(games)
            self.games = games
            players.append(self)

    both = Agent("both", lambda: Counting(GAME, "both", lowest))
    games = [Pairing(n, "both", "both", n) for n in range(6)]
    played = play(games, [both], slots=3)
    assert [player.games for player in players] == [3]
    assert len(players[0].reported) == sum(len(game.actions) for game in played)


def test_every_purpose_has_its_key():
    shapes = []

    class Keyed(Scripted):
        def choose(self, slots, states, keys):
            shapes.append(keys.shape)
            return super().choose(slots, states, keys)

    purposes = (streams.SELF_PLAY_MOVE, streams.ROOT_NOISE)
    setup = EngineSetup(GAME, [Agent("k", lambda: Keyed(GAME, "k", lowest))], 0, 0, 1, 4, purposes)
    play_pairings(setup, [[Pairing(0, "k", "k", 0)]])
    assert set(shapes) == {(1, 2)}


class BatchRecorder(HashEvaluator):
    """An evaluator that records its batch sizes."""

    def __init__(self, actions):
        super().__init__(actions)
        self.sizes = []

    def evaluate(self, states):
        self.sizes.append(len(states))
        return super().evaluate(states)


def test_agents_of_one_network_share_batches():
    """Two searches with one evaluator call it once per step, which doubles its batches."""
    games = [
        Pairing(n, *(("search 12", "search 9") if n % 2 else ("search 9", "search 12")), n)
        for n in range(40)
    ]
    shared, one, other = BatchRecorder(4), BatchRecorder(4), BatchRecorder(4)
    together = play(games, [searcher(shared, 12), searcher(shared, 9)], slots=40)
    separate = play(games, [searcher(one, 12), searcher(other, 9)], slots=40)
    assert together == separate
    assert sum(shared.sizes) == sum(one.sizes) + sum(other.sizes)
    assert len(shared.sizes) < 0.7 * (len(one.sizes) + len(other.sizes))


def test_agent_max_games_limits_slots():
    slot_counts = []

    class Counting(Scripted):
        def start(self, games):
            super().start(games)
            slot_counts.append(games)

    limited = [
        Agent(name, lambda: Counting(GAME, "counting", lowest), max_games_per_player=2)
        for name in "ab"
    ]
    games = [Pairing(n, "ab"[n % 2], "ba"[n % 2], n) for n in range(20)]
    assert len(play(games, limited, slots=10)) == 20
    assert slot_counts == [2, 2]


class Program(Scripted):
    """A player with resources that must be closed."""

    closed: ClassVar[list] = []

    def close(self):
        self.closed.append(self.name)

    def interrupt(self):
        pass


def test_programs_are_closed_after_games_and_errors():
    def fail(position):
        raise UserError("no more moves")

    Program.closed.clear()
    for pick in (lowest, fail):
        chosen_agents = [Agent(name, lambda n=name, p=pick: Program(GAME, n, p)) for name in "ab"]
        with nullcontext() if pick is lowest else pytest.raises(UserError, match="no more"):
            play([Pairing(0, "a", "b", 0)], chosen_agents, slots=2)
    assert Program.closed == ["a", "b"] * 2


def test_interrupt_reaches_program_and_progress_names_it(monkeypatch):
    """Ctrl-C raises KeyboardInterrupt in the progress callback."""
    monkeypatch.setattr(engine, "_SLOW_SECONDS", 0.0)
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.01)
    interrupted = threading.Event()

    class Hanging(Program):
        def choose(self, slots, states, keys):
            assert interrupted.wait(60)
            return super().choose(slots, states, keys)

        def interrupt(self):
            interrupted.set()

    def progress(done, note):
        assert done == 0
        if note == "waiting for hanging":
            raise KeyboardInterrupt

    chosen_agents = [Agent("hanging", lambda: Hanging(GAME, "hanging", lowest)), agents()[0]]
    with pytest.raises(KeyboardInterrupt):
        play([Pairing(0, "hanging", "random", 0)], chosen_agents, progress=progress)


def test_stop_event_ends_games_early():
    stop = threading.Event()
    finished = []

    def finish(game):
        finished.append(game)
        stop.set()

    EngineThread(EngineSetup(GAME, agents(), 5, 0, 1, 4), schedule(200), [], finish, stop).play()
    assert 1 <= len(finished) < 50


def play_one(player, position, key=0):
    player.start(1)
    for action in position.history:
        player.advance(np.zeros(1, int), np.array([action]))
    keys = np.array([key], np.uint64)
    return int(player.choose(np.zeros(1, int), position.state[None], keys)[0])


class Fixed:
    """An evaluator with the same priors for every position."""

    def __init__(self, priors):
        self.priors = np.array(priors, np.float32)

    def evaluate(self, states):
        count = len(states)
        return np.repeat(self.priors[None], count, axis=0), np.zeros(count, np.float32)


def test_greedy_plays_highest_legal_prior():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.5, 0.2, 0.3, 0.0]))
    full_column = Position.start(GAME).play(0).play(0).play(0).play(0)
    assert play_one(player, Position.start(GAME)) == 0
    assert play_one(player, full_column) == 2


def test_greedy_breaks_ties_at_random():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.4, 0.1, 0.4, 0.1]))
    actions = [play_one(player, Position.start(GAME), key) for key in range(400)]
    assert set(actions) == {0, 2}
    assert 150 < actions.count(0) < 250


def test_greedy_without_legal_priors_plays_any_move():
    player = PolicyPlayer(GAME, "greedy", Fixed([1.0, 0.0, 0.0, 0.0]))
    full_column = Position.start(GAME).play(0).play(0).play(0).play(0)
    assert {play_one(player, full_column, key) for key in range(100)} == {1, 2, 3}


def test_greedy_samples_first_plies_from_priors():
    player = PolicyPlayer(GAME, "greedy", Fixed([0.5, 0.25, 0.125, 0.125]), temperature_plies=1)
    counts = np.bincount([play_one(player, Position.start(GAME), key) for key in range(4000)])
    assert np.abs(counts / 4000 - [0.5, 0.25, 0.125, 0.125]).max() < 0.03
    later = Position.start(GAME).play(0)
    assert {play_one(player, later, key) for key in range(50)} == {0}


class Exhaustive:
    """Exact outcomes of moves by exhaustive search, without a preference for fast wins."""

    def __init__(self):
        self.known = {}

    def action_values(self, states):
        rows = []
        for state in states:
            legal = compiled_rules.legal(TINY, state)
            rows.append(
                [-self.value(state, a) if legal[a] else ILLEGAL_VALUE for a in range(len(legal))]
            )
        return np.array(rows, np.int32)

    def value(self, state, action):
        after = compiled_rules.apply(TINY, state, action)
        outcome = compiled_rules.outcome(TINY, after)
        if outcome != 2:
            return outcome
        key = after.tobytes()
        if key not in self.known:
            legal = np.flatnonzero(compiled_rules.legal(TINY, after))
            self.known[key] = max(-self.value(after, int(each)) for each in legal)
        return self.known[key]


TINY = parse_game("gobang:3x3:3")


def test_perfect_play_wins_and_blocks():
    player = PerfectPlayer(Exhaustive())
    open_row = Position.start(TINY).play(0).play(3).play(1).play(4)
    assert play_one(player, open_row) == 2
    threatened = Position.start(TINY).play(0).play(4).play(1)
    assert play_one(player, threatened) == 2


def test_perfect_play_breaks_ties_at_random():
    """After a first move in the centre, only the corners draw."""
    centre = Position.start(TINY).play(4)
    player = PerfectPlayer(Exhaustive())
    assert {play_one(player, centre, key) for key in range(60)} == {0, 2, 6, 8}
