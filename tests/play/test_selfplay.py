"""Self-play: examples, records, reproducibility and errors."""

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
    network = evaluator or HashEvaluator(rules.action_count(game))
    return play_episodes(game, SelfPlaySettings(**settings), SEARCH, network, seed, iteration)


def assert_equal(one, other):
    for name, column in one.columns().items():
        np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)


@pytest.mark.parametrize("name", ["othello:4x4", "connect_four:5x5", "gobang:4x4:3"])
def test_examples_agree_with_games(name):
    """Replay the moves, and compare states and outcomes from each mover's perspective."""
    examples = play(name, episodes=9, temperature_plies=4).examples
    assert set(examples.games) == set(range(9))
    assert examples.full.all()
    for number in range(9):
        in_game = examples.games == number
        assert (examples.plies[in_game] == np.arange(in_game.sum())).all()
        assert (examples.plies_left[in_game] == np.arange(in_game.sum())[::-1] + 1).all()
        position = Position.start(name)
        outcomes = []
        for state, policy, values, action, outcome in zip(
            examples.states[in_game], examples.policies[in_game], examples.action_values[in_game],
            examples.actions[in_game], examples.outcomes[in_game], strict=True,
        ):  # fmt: skip
            assert (position.state == state).all()
            assert policy[~position.legal_mask].sum() == 0
            assert policy.sum() == pytest.approx(1, abs=2e-3)
            assert (np.isnan(values) == (policy == 0)).all()
            outcomes.append(outcome if position.first_to_move else -outcome)
            position = position.play(int(action))
        assert position.outcome is not None
        assert set(outcomes) == {position.first_player_outcome}


def test_draws_have_outcome_zero():
    examples = play("gobang:3x3:3", UniformEvaluator(9), episodes=60).examples
    assert set(np.unique(examples.outcomes)) == {-1, 0, 1}


def test_root_value_agrees_with_action_values():
    """Without tree reuse, the root value averages the evaluations of the root and its actions."""
    search = SEARCH.model_copy(update={"reuse_tree": False})
    game = parse_game("connect_four:5x5")
    evaluator = HashEvaluator(rules.action_count(game))
    examples = play_episodes(game, SelfPlaySettings(episodes=4), search, evaluator, 3, 2).examples
    _, root_evaluations = evaluator.evaluate(examples.states)
    by_action = np.nansum(examples.policies * examples.action_values, axis=1, dtype=np.float64)
    expected = (12 * by_action + root_evaluations) / 13
    np.testing.assert_allclose(examples.root_values, expected, atol=3e-3)


def test_results_depend_only_on_seed_and_iteration():
    """The numbers of parallel games and threads do not matter."""
    name = "othello:4x4"
    one = play(name, episodes=10, parallel_games=1, threads=1)
    for other in (
        play(name, episodes=10, parallel_games=256, threads=1),
        play(name, episodes=10, parallel_games=4, threads=3),
    ):
        assert_equal(one.examples, other.examples)
    changed = play(name, episodes=10, iteration=3)
    assert not np.array_equal(one.examples.actions, changed.examples.actions)


def test_error_in_thread_stops_self_play_and_is_raised():
    class Broken:
        def evaluate(self, states):
            raise FloatingPointError("broken")

    with pytest.raises(FloatingPointError, match="broken"):
        play("connect_four:5x5", Broken(), episodes=10, threads=2)


def test_parts_of_iteration_merge_to_whole():
    """Several workers each play a range of game numbers."""
    name, settings = "othello:4x4", {"episodes": 10, "threads": 2}
    game = parse_game(name)
    evaluator = HashEvaluator(rules.action_count(game))

    def part(numbers):
        selfplay = SelfPlaySettings(**settings)
        return play_episodes(game, selfplay, SEARCH, evaluator, 3, 2, numbers=numbers, name="a@1")

    whole = part(None)
    merged = merge_results([part(range(6, 10)), part(range(1)), part(range(1, 6))])
    assert_equal(whole.examples, merged.examples)
    assert whole.games == merged.games
    assert [game.number for game in whole.games] == list(range(10))
    assert whole.search_counts["simulations"] == merged.search_counts["simulations"]


def test_records_agree_with_examples():
    episodes = play("connect_four:5x5", episodes=5)
    for record in episodes.games:
        in_game = episodes.examples.games == record.number
        assert tuple(episodes.examples.actions[in_game]) == record.actions
        assert episodes.examples.outcomes[in_game][0] == record.result
        assert record.first == record.second == "self-play"


@pytest.mark.parametrize("count", [0, 3])
def test_only_temperature_plies_are_sampled(count):
    """Moves after the first `temperature_plies` plies are the most visited ones."""
    examples = play("connect_four:5x5", episodes=30, temperature_plies=count).examples
    later = examples.plies >= count
    played = examples.policies[np.arange(len(examples.actions)), examples.actions]
    assert (played[later] == examples.policies[later].max(axis=1)).all()
    assert (played[~later] < examples.policies[~later].max(axis=1)).any() == (count > 0)
