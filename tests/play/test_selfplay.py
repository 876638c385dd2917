"""Self-play: what is recorded, and on what it does not depend."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.selfplay import merge_results, play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import SearchSettings

SEARCH = SearchSettings.model_validate({"simulations": 12, "noise": {"fraction": 0.25}})


def play(name, evaluator=None, seed=3, iteration=2, **settings):
    game = parse_game(name)
    chosen = evaluator or HashEvaluator(rules.actions(game))
    return play_episodes(game, SelfPlaySettings(**settings), SEARCH, chosen, seed, iteration)


def assert_equal(one, other):
    for name, column in one.columns().items():
        np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)


@pytest.mark.parametrize("name", ["othello:4x4", "connect_four:5x5", "gobang:4x4:3"])
def test_the_examples_are_the_games(name):
    """Replaying the moves gives the stored states, and results from each mover's view."""
    examples = play(name, episodes=9, temperature_plies=4).examples
    assert set(examples.games) == set(range(9))
    assert examples.full.all()
    for number in range(9):
        mine = examples.games == number
        assert (examples.plies[mine] == np.arange(mine.sum())).all()
        assert (examples.plies_left[mine] == np.arange(mine.sum())[::-1] + 1).all()
        position = Position.start(name)
        outcomes = []
        for state, policy, values, action, outcome in zip(
            examples.states[mine], examples.policies[mine], examples.action_values[mine],
            examples.actions[mine], examples.outcomes[mine], strict=True,
        ):  # fmt: skip
            assert (position.state == state).all()
            assert policy[~position.legal_mask].sum() == 0
            assert policy.sum() == pytest.approx(1, abs=2e-3)
            assert (np.isnan(values) == (policy == 0)).all()
            outcomes.append(outcome if position.first_to_move else -outcome)
            position = position.play(int(action))
        assert position.outcome is not None
        assert set(outcomes) == {position.first_player_outcome}


def test_draws_are_zero_for_both():
    examples = play("gobang:3x3:3", UniformEvaluator(9), episodes=60).examples
    assert set(np.unique(examples.outcomes)) == {-1, 0, 1}


def test_values_of_the_root_and_its_actions_agree():
    """Without a kept tree, the root's value averages the evaluations of its node and actions."""
    search = SEARCH.model_copy(update={"reuse_tree": False})
    game = parse_game("connect_four:5x5")
    evaluator = HashEvaluator(rules.actions(game))
    found = play_episodes(game, SelfPlaySettings(episodes=4), search, evaluator, 3, 2).examples
    _, own = evaluator.evaluate(found.states)
    by_action = np.nansum(found.policies * found.action_values, axis=1, dtype=np.float64)
    expected = (12 * by_action + own) / 13
    np.testing.assert_allclose(found.root_values, expected, atol=3e-3)


def test_results_depend_on_seed_and_iteration_alone():
    """Not on how many games run at once, nor on threads."""
    name = "othello:4x4"
    one = play(name, episodes=10, parallel_games=1, threads=1)
    for other in (
        play(name, episodes=10, parallel_games=256, threads=1),
        play(name, episodes=10, parallel_games=4, threads=3),
    ):
        assert_equal(one.examples, other.examples)
    changed = play(name, episodes=10, iteration=3)
    assert not np.array_equal(one.examples.actions, changed.examples.actions)


def test_a_mistake_in_a_group_stops_all_and_is_told():
    class Broken:
        def evaluate(self, states):
            raise FloatingPointError("broken")

    with pytest.raises(FloatingPointError, match="broken"):
        play("connect_four:5x5", Broken(), episodes=10, threads=2)


def test_an_iteration_played_in_parts_is_the_iteration():
    """As several workers play it, each a range of game numbers."""
    name, settings = "othello:4x4", {"episodes": 10, "threads": 2}
    game = parse_game(name)
    evaluator = HashEvaluator(rules.actions(game))

    def part(numbers):
        chosen = SelfPlaySettings(**settings)
        return play_episodes(game, chosen, SEARCH, evaluator, 3, 2, numbers=numbers, name="a@1")

    whole = part(None)
    merged = merge_results([part(range(6, 10)), part(range(1)), part(range(1, 6))])
    assert_equal(whole.examples, merged.examples)
    assert whole.games == merged.games
    assert [game.number for game in whole.games] == list(range(10))
    assert whole.counts["simulations"] == merged.counts["simulations"]


def test_the_records_are_the_examples():
    episodes = play("connect_four:5x5", episodes=5)
    for record in episodes.games:
        mine = episodes.examples.games == record.number
        assert tuple(episodes.examples.actions[mine]) == record.actions
        assert episodes.examples.outcomes[mine][0] == record.result
        assert record.first == record.second == "self-play"


@pytest.mark.parametrize("count", [0, 3])
def test_so_many_plies_are_sampled(count):
    """Later moves are the most visited ones, so the first ply differs between games or does not."""
    found = play("connect_four:5x5", episodes=30, temperature_plies=count).examples
    later = found.plies >= count
    played = found.policies[np.arange(len(found.actions)), found.actions]
    assert (played[later] == found.policies[later].max(axis=1)).all()
    assert (played[~later] < found.policies[~later].max(axis=1)).any() == (count > 0)
