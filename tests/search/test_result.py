"""What a search says about one position, against the naive search."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator, Rules
from search.naive import search as naive_search
from search.test_search import run, some_positions
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings


def naive_line(root):
    """Return the most visited actions in turn, of equals the first."""
    line = []
    while any(child.visits for child in root.children.values()):
        action, root = max(root.children.items(), key=lambda item: item[1].visits)
        line.append(action)
    return tuple(line)


@pytest.mark.parametrize("simulations", [1, 7, 60])
def test_agrees_with_the_naive_search(simulations):
    positions = some_positions("connect_four:5x5", 4)
    settings = SearchSettings(simulations=simulations)
    made = run(positions[0].game, settings, HashEvaluator(5), positions)
    for slot, position in enumerate(positions):
        root = naive_search(position, HashEvaluator(5), simulations, Rules(1.0))
        result = made.result(slot)
        assert result.principal_variation == naive_line(root)
        assert result.best_action == result.principal_variation[0]
        assert result.value == pytest.approx(root.value, abs=1e-6)
        assert result.policy.sum() == pytest.approx(1)
        for action in range(5):
            child = root.children.get(action)
            assert result.visits[action] == (child.visits if child else 0)
            assert result.values[action] == pytest.approx(-child.value if child else 0, abs=1e-6)
            assert result.priors[action] == pytest.approx(child.prior if child else 0, abs=1e-6)


def test_a_root_that_has_not_been_searched_has_nothing_to_show():
    (position,) = some_positions("connect_four:5x5", 1)
    made = Search(position.game, SearchSettings(), HashEvaluator(5), 1)
    made.set_root(np.zeros(1, np.int64), position.state[None])
    result = made.result(0)
    assert result.principal_variation == ()
    assert result.policy.tolist() == [0] * 5
    assert result.value == 0
