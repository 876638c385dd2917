"""From stored examples to the rows of the window, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.store.examples import Examples
from zerolab.training.facts import later_features, window_rows

EVERY = {"policies", "replies", "moves", "action_values", "features"}
FEATURES = np.arange(12, dtype=np.float16).reshape(6, 2)


def made_examples():
    """A won game of three plies, a drawn one of two, and the end of a game begun elsewhere.

    The second ply of the first game was not fully searched.
    """
    policies = np.array([[1, 0], [0.5, 0.5], [0.25, 0.75], [0, 1], [0.125, 0.875], [1, 0]])
    return Examples(
        states=np.arange(12, dtype=np.uint64).reshape(6, 2),
        policies=policies.astype(np.float16),
        root_values=np.array([0.5, -0.5, 0.75, 0, 0.25, 1], np.float16),
        root_draws=np.array([0, 0.25, 0, 1, 0.5, 0], np.float16),
        action_values=np.where(policies == 0, np.nan, -policies).astype(np.float16),
        outcomes=np.array([1, -1, 1, 0, 0, -1], np.int8),
        plies_left=np.array([3, 2, 1, 2, 1, 4], np.int16),
        games=np.array([7, 7, 7, 8, 8, 9], np.int32),
        plies=np.array([0, 1, 2, 0, 1, 5], np.int16),
        actions=np.array([0, 1, 1, 1, 0, 0], np.int16),
        full=np.array([True, False, True, True, True, True]),
    )


def test_every_column_by_hand():
    states, facts = window_rows(made_examples(), 0.5, EVERY, FEATURES)
    kept = [0, 2, 3, 4, 5]
    np.testing.assert_array_equal(states, made_examples().states[kept])
    nan = np.nan
    expected = {
        "policies": [[1, 0], [0.25, 0.75], [0, 1], [0.125, 0.875], [1, 0]],
        # The reply to the first move was not fully searched; the last moves of games have none.
        "replies": [[nan, nan], [nan, nan], [0.125, 0.875], [nan, nan], [nan, nan]],
        "moves": [[1, 0], [0, 1], [0, 1], [1, 0], [1, 0]],
        "action_values": [[-1, nan], [-0.25, -0.75], [nan, -1], [-0.125, -0.875], [-1, nan]],
        "features": [[0, 1], [4, 5], [6, 7], [8, 9], [10, 11]],
        "values": [0.125, 0.5, 0, 0, -0.0625],
        "draws": [0.875, 0.5, 1, 1, 0.9375],
        "root_values": [0.5, 0.75, 0, 0.25, 1],
        "root_draws": [0, 0, 1, 0.5, 0],
        "plies_left": [3, 1, 2, 1, 4],
        "plies": [0, 2, 0, 1, 5],
    }
    for name, column in facts.columns().items():
        np.testing.assert_array_equal(column, expected[name], err_msg=name)
        assert column.dtype == (np.float16 if name in EVERY else np.float32), name


def test_without_discount_values_are_the_outcomes():
    _, facts = window_rows(made_examples(), 1.0, EVERY)
    assert facts.values.tolist() == [1, 1, 0, 0, -1]
    assert facts.draws.tolist() == [0, 0, 1, 1, 0]


def test_a_reply_is_the_next_ply_of_the_same_game():
    """If a row between two is missing, the later one is no reply."""
    examples = made_examples()
    gap = examples.map(lambda each: np.delete(each, 1, axis=0))
    _, facts = window_rows(gap, 1.0, {"replies"})
    assert np.isnan(facts.replies[0]).all()


def test_later_features_are_those_of_the_same_game():
    """NaN where the game is over; moves that are not learnt from have features, too."""
    found = later_features(made_examples(), FEATURES, (2, 0, 1, 9)).reshape(6, 4, 2)
    nan = [np.nan, np.nan]
    np.testing.assert_array_equal(found[:, 0], [[4, 5], nan, nan, nan, nan, nan])
    np.testing.assert_array_equal(found[:, 1], FEATURES)
    np.testing.assert_array_equal(found[:, 2], [[2, 3], [4, 5], nan, [8, 9], nan, nan])
    assert np.isnan(found[:, 3]).all()
    gap = made_examples().map(lambda each: np.delete(each, 1, axis=0))
    found = later_features(gap, np.delete(FEATURES, 1, axis=0), (1,))
    np.testing.assert_array_equal(found, [nan, nan, [8, 9], nan, nan])


@pytest.mark.parametrize("name", sorted(EVERY))
def test_columns_that_nobody_needs_take_no_memory(name):
    _, facts = window_rows(made_examples(), 1.0, EVERY - {name}, FEATURES)
    assert facts.columns()[name].shape == (5, 0)
    assert all(
        column.shape == (5, 2)
        for column in facts.columns().values()
        if column.ndim == 2 and column.size
    )
