"""Window rows computed from stored examples."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.store.examples import Examples
from zerolab.training.window_facts import later_features, states_and_facts

ALL_VECTOR_COLUMNS = {"policies", "reply_policies", "played_actions", "action_values", "features"}
FEATURES = np.arange(12, dtype=np.float16).reshape(6, 2)


def invented_examples():
    """Return a won game of three plies, a drawn one of two, and the end of a third game.

    The second ply of the first game was not fully searched.
    """
    policies = np.array([[1, 0], [0.5, 0.5], [0.25, 0.75], [0, 1], [0.125, 0.875], [1, 0]])
    return Examples(
        states=np.arange(12, dtype=np.uint64).reshape(6, 2),
        policies=policies.astype(np.float16),
        root_values=np.array([0.5, -0.5, 0.75, 0, 0.25, 1], np.float16),
        root_draws=np.array([0, 0.25, 0, 1, 0.5, 0], np.float16),
        action_values=np.where(policies == 0, np.nan, -policies).astype(np.float16),
        surprises=np.array([1, 9, 0, 2, 1, 0], np.float16),
        outcomes=np.array([1, -1, 1, 0, 0, -1], np.int8),
        plies_left=np.array([3, 2, 1, 2, 1, 4], np.int16),
        games=np.array([7, 7, 7, 8, 8, 9], np.int32),
        plies=np.array([0, 1, 2, 0, 1, 5], np.int16),
        actions=np.array([0, 1, 1, 1, 0, 0], np.int16),
        full=np.array([True, False, True, True, True, True]),
    )


def test_columns_agree_with_hand_computed_values():
    states, facts = states_and_facts(invented_examples(), 0.5, ALL_VECTOR_COLUMNS, FEATURES)
    full_rows = [0, 2, 3, 4, 5]
    np.testing.assert_array_equal(states, invented_examples().states[full_rows])
    nan = np.nan
    expected = {
        "policies": [[1, 0], [0.25, 0.75], [0, 1], [0.125, 0.875], [1, 0]],
        # The reply to the first move was not fully searched; final moves have no reply.
        "reply_policies": [[nan, nan], [nan, nan], [0.125, 0.875], [nan, nan], [nan, nan]],
        "played_actions": [[1, 0], [0, 1], [0, 1], [1, 0], [1, 0]],
        "action_values": [[-1, nan], [-0.25, -0.75], [nan, -1], [-0.125, -0.875], [-1, nan]],
        "features": [[0, 1], [4, 5], [6, 7], [8, 9], [10, 11]],
        "values": [0.125, 0.5, 0, 0, -0.0625],
        "draws": [0.875, 0.5, 1, 1, 0.9375],
        "root_values": [0.5, 0.75, 0, 0.25, 1],
        "root_draws": [0, 0, 1, 0.5, 0],
        "surprises": [1, 0, 2, 1, 0],
        "sampling_weights": [1, 1, 1, 1, 1],
        "plies_left": [3, 1, 2, 1, 4],
        "plies": [0, 2, 0, 1, 5],
    }
    for name, column in facts.columns().items():
        np.testing.assert_array_equal(column, expected[name], err_msg=name)
        assert column.dtype == (np.float16 if name in ALL_VECTOR_COLUMNS else np.float32), name


def test_values_are_outcomes_without_discount():
    _, facts = states_and_facts(invented_examples(), 1.0, ALL_VECTOR_COLUMNS)
    assert facts.values.tolist() == [1, 1, 0, 0, -1]
    assert facts.draws.tolist() == [0, 0, 1, 1, 0]


def test_sampling_weights_are_relative_to_the_mean_of_the_searched_moves():
    _, facts = states_and_facts(
        invented_examples(), 1.0, (), surprise_weight=0.75
    )  # the mean is 0.8
    assert facts.sampling_weights.tolist() == [
        0.25 + 0.9375, 0.25, 0.25 + 1.875, 0.25 + 0.9375, 0.25,
    ]  # fmt: skip
    assert facts.sampling_weights.mean() == 1
    expected = invented_examples()
    expected.surprises[:] = 0
    _, facts = states_and_facts(expected, 1.0, (), surprise_weight=0.75)
    assert (facts.sampling_weights == 1).all()


def test_replies_are_from_the_next_ply_of_the_same_game():
    """A row after a gap is not a reply."""
    examples = invented_examples()
    gap = examples.map_columns(lambda column: np.delete(column, 1, axis=0))
    _, facts = states_and_facts(gap, 1.0, {"reply_policies"})
    assert np.isnan(facts.reply_policies[0]).all()


def test_later_features_are_from_the_same_game():
    """NaN after the end of the game; moves without full searches also have features."""
    features = later_features(invented_examples(), FEATURES, (2, 0, 1, 9)).reshape(6, 4, 2)
    nan = [np.nan, np.nan]
    np.testing.assert_array_equal(features[:, 0], [[4, 5], nan, nan, nan, nan, nan])
    np.testing.assert_array_equal(features[:, 1], FEATURES)
    np.testing.assert_array_equal(features[:, 2], [[2, 3], [4, 5], nan, [8, 9], nan, nan])
    assert np.isnan(features[:, 3]).all()
    gap = invented_examples().map_columns(lambda column: np.delete(column, 1, axis=0))
    features = later_features(gap, np.delete(FEATURES, 1, axis=0), (1,))
    np.testing.assert_array_equal(features, [nan, nan, [8, 9], nan, nan])


@pytest.mark.parametrize("name", sorted(ALL_VECTOR_COLUMNS))
def test_unneeded_columns_are_empty(name):
    _, facts = states_and_facts(invented_examples(), 1.0, ALL_VECTOR_COLUMNS - {name}, FEATURES)
    assert facts.columns()[name].shape == (5, 0)
    assert all(
        column.shape == (5, 2)
        for column in facts.columns().values()
        if column.ndim == 2 and column.size
    )
