"""Replay window: contents, canonical images and batches under symmetries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.example_facts import example_facts
from zerolab.replay.window import Window, WindowContents, canonical_columns, systematic_sample
from zerolab.replay.window_rules import (
    IterationsWindow,
    LinearGrowthWindow,
    NewestMerging,
    NoMerging,
    PowerLawWindow,
)
from zerolab.rules import compiled_rules, encoding, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

SIZES = (
    IterationsWindow(iterations=2),
    LinearGrowthWindow(first=5, final=9, begin=2, end=4),
    PowerLawWindow(c=6, alpha=0.5, beta=0.5),
)


def positions(ids, iteration):
    """Return position columns whose `values` encode iteration and index."""
    return {
        "states": np.array(ids, np.uint64).reshape(-1, 1),
        "policies": np.full((len(ids), 2), iteration, np.float16),
        "values": np.arange(len(ids), dtype=np.float32) + 100 * iteration,
    }


def listed(contents):
    """Return (state, value) of all rows, oldest first."""
    states, values = contents.columns["states"], contents.columns["values"]
    return [(int(states[slot, 0]), float(values[slot])) for slot in contents.order]


class NaiveWindow:
    """Plain window: a list of [state, value, iteration], oldest first."""

    def __init__(self, size, weight):
        self.size, self.weight = size, weight
        self.rows, self.iteration, self.total = [], 0, 0

    def add(self, columns):
        self.iteration += 1
        self.total += len(columns["states"])
        self.merged = 0
        for (state,), value in zip(columns["states"].tolist(), columns["values"], strict=True):
            old = [row for row in self.rows if row[0] == state] if self.weight else []
            for row in old:
                self.merged += 1
                self.rows.remove(row)
            merged_value = (1 - self.weight) * old[0][1] + self.weight * value if old else value
            self.rows.append([state, merged_value, self.iteration])
        oldest = self.size.oldest_iteration(self.iteration)
        self.rows = [row for row in self.rows if row[2] >= oldest]
        limit = self.size.max_positions(self.iteration, self.total)
        self.rows = self.rows if limit is None else self.rows[-limit:]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weight", [0, 0.8])
@given(played=st.lists(st.lists(st.integers(0, 14), max_size=12), min_size=1, max_size=8))
@settings(max_examples=40)
def test_contents_equal_a_plain_list(size, weight, played):
    contents = WindowContents(size, NewestMerging(weight=weight) if weight else NoMerging())
    naive = NaiveWindow(size, weight)
    for iteration, ids in enumerate(played, 1):
        columns = positions(ids, iteration)
        contents.add(columns)
        naive.add(columns)
        listed_rows = listed(contents)
        assert [state for state, _ in listed_rows] == [row[0] for row in naive.rows]
        np.testing.assert_allclose(
            [x for _, x in listed_rows], [row[1] for row in naive.rows], 1e-5
        )
        assert contents.latest_merged_count == naive.merged
        assert contents.added_count == naive.total
        assert contents.latest_updated_count == sum(row[2] == iteration for row in naive.rows)


@pytest.mark.parametrize("size", SIZES)
@given(played=st.lists(st.lists(st.integers(0, 14), max_size=12), min_size=1, max_size=8))
@settings(max_examples=40)
def test_window_is_restored_from_the_first_needed_iteration(size, played):
    whole = WindowContents(size, NoMerging())
    for iteration, ids in enumerate(played, 1):
        whole.add(positions(ids, iteration))
    counts = [len(ids) for ids in played]
    first = size.first_needed_iteration(len(played), sum(counts), lambda number: counts[number - 1])
    restored = WindowContents(size, NoMerging())
    restored.resume_after(first - 1, sum(counts[: first - 1]))
    for iteration in range(first, len(played) + 1):
        restored.add(positions(played[iteration - 1], iteration))
    assert listed(restored) == listed(whole)
    assert (restored.iteration, restored.added_count, restored.latest_updated_count) == (
        whole.iteration,
        whole.added_count,
        whole.latest_updated_count,
    )


def test_repeated_openings_stay_in_a_merged_window():
    contents = WindowContents(LinearGrowthWindow(first=3, final=3, begin=1, end=2), NewestMerging())
    for iteration in range(1, 6):
        contents.add(positions([7, 100 + iteration, 200 + iteration], iteration))
    assert [state for state, _ in listed(contents)] == [7, 105, 205]


def test_memory_of_a_full_window_is_constant():
    contents = WindowContents(IterationsWindow(iterations=3), NoMerging())
    capacities = []
    for iteration in range(1, 20):
        contents.add(positions(range(1000), iteration))
        capacities.append(contents.columns["states"].shape[0])
    assert capacities[-1] == capacities[4] <= 6000


def some_positions(name):
    random = np.random.default_rng(3)
    positions = []
    for _ in range(6):
        position = Position.start(name)
        while position.outcome is None and len(positions) % 9 != 8:
            positions.append(position)
            position = position.play(int(random.choice(position.legal_actions)))
    return positions


@pytest.mark.parametrize("name", ["othello:4x6", "connect_four:5x5", "gobang:4x4:3"])
def test_all_images_have_the_same_canonical_row(name):
    positions = some_positions(name)
    game, actions = positions[0].game, rules.action_count(positions[0].game)
    count = encoding.symmetry_count(game)
    _, moved = compiled_rules.symmetry_tables(game)
    policies = np.random.default_rng(1).random((len(positions), actions)).astype(np.float16)
    images = [
        {
            "states": np.array(
                [compiled_rules.transform(game, position.state, s) for position in positions]
            ),
            "policies": np.take_along_axis(
                policies, np.argsort(moved[[s] * len(policies)]), axis=1
            ),
            "values": np.arange(len(positions), dtype=np.float32),
            "empty": np.empty((len(positions), 0), np.float16),
        }
        for s in range(count)
    ]
    rows = [canonical_columns(game, image) for image in images]
    for row, image in zip(rows, images, strict=True):
        assert (row["states"] == rows[0]["states"]).all()
        assert row["values"] is image["values"]
        assert row["empty"].shape == image["empty"].shape
    asymmetric = [
        len({compiled_rules.transform(game, position.state, s).tobytes() for s in range(count)})
        == count
        for position in positions
    ]
    assert sum(asymmetric) > 3
    for row in rows:
        assert (row["policies"] == rows[0]["policies"])[asymmetric].all()


@pytest.mark.parametrize("name", ["othello:4x6", "connect_four:5x5", "gobang:4x4:3"])
def test_moves_and_images_commute(name):
    positions = some_positions(name)
    game = positions[0].game
    played = [int(position.legal_actions[-1]) for position in positions]
    moves = np.zeros((len(positions), rules.action_count(game)), np.float16)
    moves[np.arange(len(played)), played] = 1
    states = np.array([position.state for position in positions])
    row = canonical_columns(game, {"states": states, "played_actions": moves})
    successors = np.array(
        [compiled_rules.apply(game, s, a) for s, a in zip(states, played, strict=True)]
    )
    image_moves = row["played_actions"].argmax(axis=1)
    image_successors = np.array(
        [
            compiled_rules.apply(game, s, int(a))
            for s, a in zip(row["states"], image_moves, strict=True)
        ]
    )
    expected, actual = (
        canonical_columns(game, {"states": batch})["states"]
        for batch in (successors, image_successors)
    )
    assert (expected == actual).all()


def filled_window(name, iterations=1, size=10, keep=5):
    """Return a window and the states, one-hot policies and values of its last iteration."""
    random = np.random.default_rng(2)
    position = Position.start(name)
    window = Window(position.game, IterationsWindow(iterations=keep))
    for _ in range(iterations):
        states, policies, values = [], [], []
        for n in range(size):
            policy = np.zeros(rules.action_count(position.game), np.float16)
            policy[random.choice(position.legal_actions)] = 1
            states.append(position.state)
            policies.append(policy)
            values.append((n % 3) - 1)
            position = position.play(int(policy.argmax()))
        window.add(np.array(states), example_facts(size, policies=policies, values=values))
    return window, np.array(states), np.array(policies), np.array(values)


@pytest.mark.parametrize("name", ["othello:6x6", "connect_four:5x5", "gobang:4x5:3"])
def test_every_image_is_served_once_with_its_policy(name):
    window, states, policies, values = filled_window(name, size=6)
    game = window.game
    count = encoding.symmetry_count(game)
    expected = Counter()
    _, action_table = compiled_rules.symmetry_tables(game)
    for state, policy, value in zip(states, policies, values, strict=True):
        for symmetry in range(count):
            image = compiled_rules.transform(game, state, symmetry)
            action = action_table[symmetry][policy.argmax()]
            expected[compiled_rules.encode(game, image).tobytes(), action, value] += 1
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
def test_symmetries_permute_all_action_columns_equally(name):
    """Each action column stays a fixed function of the policies, including missing values."""
    game = parse_game(name)
    actions, size = rules.action_count(game), 40
    random = np.random.default_rng(5)
    policies = random.permuted(np.tile(np.arange(actions), (size, 1)), axis=1)
    values = np.where(policies == 3, np.nan, -policies)
    facts = example_facts(
        size, policies=policies, reply_policies=policies + 100, played_actions=policies == 5,
        action_values=values,
        **{name: np.arange(size) for name in ("values", "draws", "plies_left", "root_values")},
    )  # fmt: skip
    window = Window(game, IterationsWindow())
    window.add(np.array([compiled_rules.start(game)] * size), facts)
    (batch,) = window.batches(random, size, 1, "random")
    served = batch.facts
    assert {column.dtype for column in served.columns().values()} == {np.dtype(np.float32)}
    _, images = compiled_rules.symmetry_tables(game)
    for row, number in enumerate(served.values.astype(int)):
        original = policies[number]
        matching_images = [
            image for image in images if (served.policies[row][image] == original).all()
        ]
        assert len(matching_images) == 1
    np.testing.assert_array_equal(served.reply_policies, served.policies + 100)
    np.testing.assert_array_equal(served.played_actions, served.policies == 5)
    expected = np.where(served.policies == 3, np.nan, -served.policies)
    np.testing.assert_array_equal(served.action_values, expected)
    for column in (served.draws, served.plies_left, served.root_values):
        np.testing.assert_array_equal(column, served.values)
    assert sorted(served.values) == list(range(size))


@given(st.lists(st.floats(0.0078125, 8, width=16), min_size=1, max_size=30), st.floats(0, 0.999))
def test_systematic_sample_rounds_expected_counts(weights, offset):
    weights = np.array(weights, np.float32)
    indices = systematic_sample(weights, offset)
    assert len(indices) == len(weights)
    assert (np.diff(indices) >= 0).all()
    counts = np.bincount(indices, minlength=len(weights))
    expected = weights * (len(weights) / weights.sum(dtype=np.float64))
    assert (np.abs(counts - expected) < 1 + 1e-6).all()


@pytest.mark.parametrize("symmetries", ["all", "random", "none"])
def test_positions_are_used_in_proportion_to_their_sampling_weights(symmetries):
    weights = np.array([0.5, 0.5, 0.25, 2.75])
    game = parse_game("connect_four:4x4")
    window = Window(game, IterationsWindow(), has_sampling_weights=True)
    states = np.array([compiled_rules.start(game)] * 4)
    window.add(states, example_facts(4, sampling_weights=weights, values=range(4)))
    count = window.batches_per_epoch(4, symmetries)
    passes = 400
    batches = list(window.batches(np.random.default_rng(1), 4, passes * count, symmetries))
    served = np.concatenate([batch.facts.values for batch in batches]).astype(int)
    assert len(served) == 4 * passes * count
    means = np.bincount(served) / (passes * count)
    assert means == pytest.approx(weights, abs=4 * 0.5 / np.sqrt(passes))
    by_pass = served.reshape(passes, -1)
    assert set((by_pass == 3).sum(axis=1) / count) == {2, 3}


def test_random_images_and_orders_vary_between_epochs():
    window, *_ = filled_window("othello:6x6", size=8)
    batches = list(window.batches(np.random.default_rng(1), 4, 100, "random"))
    assert len(batches) == 100
    first = {batch.planes[:, 0].tobytes() for batch in batches}
    assert len(first) > 50


def test_states_are_served_unchanged_without_symmetries():
    window, states, *_ = filled_window("gobang:5x5:4", size=6)
    (batch,) = window.batches(np.random.default_rng(1), 6, 1, "none")
    plain = {planes.tobytes() for planes in compiled_rules.encode_batch(window.game, states)}
    assert {planes.tobytes() for planes in batch.planes} == plain


def test_oldest_iteration_leaves_the_window():
    window, *_ = filled_window("gobang:6x6:4", iterations=7, size=3, keep=5)
    assert len(window) == 15


def test_window_smaller_than_a_batch_is_one_batch():
    window, *_ = filled_window("gobang:5x5:4", size=3)
    (batch,) = window.batches(np.random.default_rng(1), 64, 1, "none")
    assert len(batch.planes) == 3


def test_batches_are_copies():
    window, *_ = filled_window("gobang:5x5:4", size=3)
    (batch,) = window.batches(np.random.default_rng(1), 3, 1, "none")
    batch.planes[:] = 7
    (second,) = window.batches(np.random.default_rng(1), 3, 1, "none")
    assert np.abs(second.planes).max() <= 1


@pytest.mark.parametrize("share", [None, 0.75])
def test_features_are_not_transformed_and_merge_without_missing_values(share):
    position = Position.start("connect_four:4x4")
    states = np.array([position.state, position.play(1).state, position.state])
    features = [[1, np.nan], [2, 8], [3, 5]]
    merging = NewestMerging(weight=share) if share else None
    window = Window(position.game, IterationsWindow(iterations=1), merging)
    window.add(states, example_facts(3, values=[1, 2, 3], features=features))
    (batch,) = window.batches(np.random.default_rng(1), len(window), 1, "random")
    served = dict(zip(batch.facts.values, batch.facts.features, strict=True))
    expected = (
        {1: [1, np.nan], 2: [2, 8], 3: [3, 5]} if share is None else {2.5: [2.5, 5], 2: [2, 8]}
    )
    assert served.keys() == expected.keys()
    for value, row in expected.items():
        np.testing.assert_array_equal(served[value], row)
    assert batch.facts.features.dtype == np.float32
