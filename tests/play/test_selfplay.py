"""Self-play: what is recorded, and on what it does not depend."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play import selfplay as episodes
from zerolab.play.selfplay import merge_episodes, play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.interface import UniformEvaluator
from zerolab.search.settings import SearchSettings

SEARCH = SearchSettings.model_validate(
    {"simulations": 12, "noise": {"fraction": 0.25}, "leaf_evaluator": {"name": "network"}}
)


def play(name, evaluator=None, seed=3, iteration=2, **settings):
    game = parse_game(name)
    chosen = evaluator or HashEvaluator(rules.actions(game))
    return play_episodes(game, SelfPlaySettings(**settings), SEARCH, chosen, seed, iteration)


@pytest.mark.parametrize("name", ["othello:4x4", "connect_four:5x5", "gobang:4x4:3"])
def test_the_examples_are_the_games(name):
    """Replaying the moves gives the stored states, and results from each mover's view."""
    plies = play(name, episodes=9, sampled_plies=4).plies
    assert set(plies.games) == set(range(9))
    for number in range(9):
        mine = plies.games == number
        assert (plies.plies[mine] == np.arange(mine.sum())).all()
        position = Position.start(name)
        values = []
        for state, policy, action, value in zip(
            plies.states[mine], plies.policies[mine], plies.actions[mine], plies.values[mine],
            strict=True,
        ):  # fmt: skip
            assert (position.state == state).all()
            assert policy[~position.legal_mask].sum() == 0
            assert policy.sum() == pytest.approx(1, abs=2e-3)
            values.append(value if position.first_to_move else -value)
            position = position.play(int(action))
        assert position.outcome is not None
        assert set(values) == {position.first_player_outcome}


def test_draws_are_zero_for_both():
    plies = play("gobang:3x3:3", UniformEvaluator(9), episodes=60).plies
    assert set(np.unique(plies.values)) == {-1, 0, 1}


def test_late_targets_are_the_moves_played_after_the_sampled_plies():
    plies = play("connect_four:5x5", episodes=6, sampled_plies=4).plies
    late = plies.plies >= 4
    assert (plies.policies[late, plies.actions[late]] == 1).all()
    assert (plies.policies[~late].max(axis=1) < 1).any()
    spread = play("connect_four:5x5", episodes=6, sampled_plies=4, late_targets="visits")
    late = spread.plies.plies >= 4
    assert (spread.plies.policies[late].max(axis=1) < 1).any()


def test_results_depend_on_seed_and_iteration_alone():
    """Not on how many games run at once, nor on threads."""
    name = "othello:4x4"
    one = play(name, episodes=10, parallel_games=1, threads=1)
    for other in (
        play(name, episodes=10, parallel_games=256, threads=1),
        play(name, episodes=10, parallel_games=4, threads=3),
    ):
        for a, b in zip(one.plies, other.plies, strict=True):
            assert (a == b).all()
    changed = play(name, episodes=10, iteration=3)
    assert not np.array_equal(one.plies.actions, changed.plies.actions)


def test_a_mistake_in_a_group_stops_all_and_is_told():
    class Broken:
        def evaluate(self, states):
            raise FloatingPointError("broken")

    with pytest.raises(FloatingPointError, match="broken"):
        play("connect_four:5x5", Broken(), episodes=10, threads=2)


def test_value_targets_by_hand():
    """(Q + 1) / 2 of visited actions, normalised; where all of them lose, the visits."""
    searched = episodes._Searched(
        visits=np.array([[1, 1, 2, 0], [9, 1, 0, 0], [3, 0, 1, 0]], np.int32),
        values=np.array([[0.5, -0.5, 0, 0], [0.5, -1, 0, 0], [-1, 0, -1, 0]], np.float32),
        sampled=np.ones(3, bool),
        actions=np.zeros(3, np.int64),
    )
    expected = [[1 / 2, 1 / 6, 1 / 3, 0], [1, 0, 0, 0], [3 / 4, 0, 1 / 4, 0]]
    assert episodes._value_targets(searched) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("late", ["move", "visits", "values"])
def test_early_and_late_targets_are_chosen_apart(late):
    """The games are the same; early targets are values, those from ply 4 on what `late` says."""
    settings = {"episodes": 6, "sampled_plies": 4}
    values = play("connect_four:5x5", **settings, early_targets="values", late_targets="values")
    visits = play("connect_four:5x5", **settings, early_targets="visits", late_targets=late)
    mixed = play("connect_four:5x5", **settings, early_targets="values", late_targets=late)
    from_threshold = visits.plies.plies >= 4
    assert (visits.plies.actions == mixed.plies.actions).all()
    early, later = ~from_threshold, from_threshold
    assert (mixed.plies.policies[early] == values.plies.policies[early]).all()
    assert (mixed.plies.policies[later] == visits.plies.policies[later]).all()
    assert (mixed.plies.policies[early] != visits.plies.policies[early]).any()


def test_an_iteration_played_in_parts_is_the_iteration():
    """As several workers play it, each a range of game numbers."""
    name, settings = "othello:4x4", {"episodes": 10, "threads": 2}
    game = parse_game(name)
    evaluator = HashEvaluator(rules.actions(game))

    def part(numbers):
        chosen = SelfPlaySettings(**settings)
        return play_episodes(game, chosen, SEARCH, evaluator, 3, 2, numbers=numbers, name="a@1")

    whole = part(None)
    merged = merge_episodes([part(range(6, 10)), part(range(1)), part(range(1, 6))])
    for one, other in zip(whole.plies, merged.plies, strict=True):
        assert (one == other).all()
    assert whole.games == merged.games
    assert [game.number for game in whole.games] == list(range(10))
    assert whole.counts["simulations"] == merged.counts["simulations"]


def test_the_records_are_the_examples():
    episodes = play("connect_four:5x5", episodes=5)
    for record in episodes.games:
        mine = episodes.plies.games == record.number
        assert tuple(episodes.plies.actions[mine]) == record.actions
        assert episodes.plies.values[mine][0] == record.result
        assert record.first == record.second == "self-play"


@pytest.mark.parametrize("count", [0, 3])
def test_so_many_plies_are_sampled(count):
    """Later moves are the most visited ones, so the first ply differs between games or does not."""
    plies = play("connect_four:5x5", episodes=30, sampled_plies=count, late_targets="visits").plies
    later = plies.plies >= count
    played = plies.policies[np.arange(len(plies.actions)), plies.actions]
    assert (played[later] == plies.policies[later].max(axis=1)).all()
    assert (played[~later] < plies.policies[~later].max(axis=1)).any() == (count > 0)
