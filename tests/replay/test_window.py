"""The window: what batches hold, under which symmetries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from replay.made import made_facts
from zerolab.replay.window import Window
from zerolab.replay.window_rules import Iterations, Newest
from zerolab.rules import encoding, python, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position


def filled(name, iterations=1, size=10, keep=5):
    """Return a window of random positions whose policy is all on one legal action."""
    random = np.random.default_rng(2)
    position = Position.start(name)
    window = Window(position.game, Iterations(iterations=keep))
    for _ in range(iterations):
        states, policies, values = [], [], []
        for n in range(size):
            policy = np.zeros(rules.actions(position.game), np.float16)
            policy[random.choice(position.legal_actions)] = 1
            states.append(position.state)
            policies.append(policy)
            values.append((n % 3) - 1)
            position = position.play(int(policy.argmax()))
        window.add(np.array(states), made_facts(size, policies=policies, values=values))
    return window, np.array(states), np.array(policies), np.array(values)


@pytest.mark.parametrize("name", ["othello:6x6", "connect_four:5x5", "gobang:4x5:3"])
def test_every_image_is_served_once_with_its_policy(name):
    window, states, policies, values = filled(name, size=6)
    game = window.game
    count = encoding.symmetries(game)
    expected = Counter()
    _, action_table = python.symmetry_tables(game)
    for state, policy, value in zip(states, policies, values, strict=True):
        for symmetry in range(count):
            image = python.transform(game, state, symmetry)
            action = action_table[symmetry][policy.argmax()]
            expected[python.encode(game, image).tobytes(), action, value] += 1
    served = Counter()
    batches = list(window.batches(np.random.default_rng(1), 6, count, "all"))
    for batch in batches:
        columns = batch.planes, batch.facts.policies, batch.facts.values
        for planes, policy, value in zip(*columns, strict=True):
            assert policy.sum() == 1
            served[planes[None].tobytes(), policy.argmax(), value] += 1
    assert served == expected
    assert len(batches) == count


@pytest.mark.parametrize("name", ["othello:4x4", "connect_four:4x4"])
def test_all_columns_per_action_are_turned_alike_and_no_others(name):
    """Every column is a permutation of the first, row by row; gaps stay gaps."""
    game = parse_game(name)
    actions, size = rules.actions(game), 40
    random = np.random.default_rng(5)
    policies = random.permuted(np.tile(np.arange(actions), (size, 1)), axis=1)
    values = np.where(policies == 3, np.nan, -policies)
    facts = made_facts(
        size, policies=policies, replies=policies + 100, moves=policies == 5, action_values=values,
        **{name: np.arange(size) for name in ("values", "draws", "plies_left", "root_values")},
    )  # fmt: skip
    window = Window(game, Iterations())
    window.add(np.array([python.start(game)] * size), facts)
    (batch,) = window.batches(random, size, 1, "random")
    turned = batch.facts
    assert {column.dtype for column in turned.columns().values()} == {np.dtype(np.float32)}
    _, images = python.symmetry_tables(game)
    for row, number in enumerate(turned.values.astype(int)):
        given = policies[number]
        seen = [image for image in images if (turned.policies[row][image] == given).all()]
        assert len(seen) == 1
    np.testing.assert_array_equal(turned.replies, turned.policies + 100)
    np.testing.assert_array_equal(turned.moves, turned.policies == 5)
    expected = np.where(turned.policies == 3, np.nan, -turned.policies)
    np.testing.assert_array_equal(turned.action_values, expected)
    for column in (turned.draws, turned.plies_left, turned.root_values):
        np.testing.assert_array_equal(column, turned.values)
    assert sorted(turned.values) == list(range(size))


def test_one_random_image_a_sample_and_another_order_each_epoch():
    window, *_ = filled("othello:6x6", size=8)
    batches = list(window.batches(np.random.default_rng(1), 4, 100, "random"))
    assert len(batches) == 100
    first = {batch.planes[:, 0].tobytes() for batch in batches}
    assert len(first) > 50


def test_without_symmetries_states_are_served_as_they_are():
    window, states, *_ = filled("gobang:5x5:4", size=6)
    (batch,) = window.batches(np.random.default_rng(1), 6, 1, "none")
    plain = {planes.tobytes() for planes in python.encode_batch(window.game, states)}
    assert {planes.tobytes() for planes in batch.planes} == plain


def test_the_oldest_iteration_leaves_the_window():
    window, *_ = filled("gobang:6x6:4", iterations=7, size=3, keep=5)
    assert len(window) == 15


def test_a_window_smaller_than_a_batch_is_one_batch():
    window, *_ = filled("gobang:5x5:4", size=3)
    (batch,) = window.batches(np.random.default_rng(1), 64, 1, "none")
    assert len(batch.planes) == 3


def test_examples_are_copied_not_referred_to():
    window, *_ = filled("gobang:5x5:4", size=3)
    (batch,) = window.batches(np.random.default_rng(1), 3, 1, "none")
    batch.planes[:] = 7
    (again,) = window.batches(np.random.default_rng(1), 3, 1, "none")
    assert np.abs(again.planes).max() <= 1


@pytest.mark.parametrize("share", [None, 0.75])
def test_features_do_not_turn_and_are_merged_as_far_as_they_are_known(share):
    position = Position.start("connect_four:4x4")
    states = np.array([position.state, position.play(1).state, position.state])
    features = [[1, np.nan], [2, 8], [3, 5]]
    merging = Newest(weight=share) if share else None
    window = Window(position.game, Iterations(iterations=1), merging)
    window.add(states, made_facts(3, values=[1, 2, 3], features=features))
    (batch,) = window.batches(np.random.default_rng(1), len(window), 1, "random")
    found = dict(zip(batch.facts.values, batch.facts.features, strict=True))
    expected = (
        {1: [1, np.nan], 2: [2, 8], 3: [3, 5]} if share is None else {2.5: [2.5, 5], 2: [2, 8]}
    )
    assert found.keys() == expected.keys()
    for value, row in expected.items():
        np.testing.assert_array_equal(found[value], row)
    assert batch.facts.features.dtype == np.float32
