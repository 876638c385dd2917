"""Search results compared with the naive search, and nodes of the displayed tree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from search.naive import HashEvaluator, Rules
from search.naive import search as naive_search
from search.test_search import run, some_positions
from zerolab.rules.position import Position
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings


def naive_line(root):
    """Return the line of most visited actions; ties go to the first."""
    line = []
    while any(child.visits for child in root.children.values()):
        action, root = max(root.children.items(), key=lambda item: item[1].visits)
        line.append(action)
    return tuple(line)


@pytest.mark.parametrize("simulations", [1, 7, 60])
def test_agrees_with_the_naive_search(simulations):
    positions = some_positions("connect_four:5x5", 4)
    settings = SearchSettings(simulations=simulations)
    search = run(positions[0].game, settings, HashEvaluator(5), positions)
    for slot, position in enumerate(positions):
        root = naive_search(position, HashEvaluator(5), simulations, Rules(1.0))
        result = search.result(slot)
        assert result.principal_variation == naive_line(root)
        assert result.best_action == result.principal_variation[0]
        assert result.root_value == pytest.approx(root.value, abs=1e-6)
        assert result.policy.sum() == pytest.approx(1)
        for action in range(5):
            child = root.children.get(action)
            assert result.visits[action] == (child.visits if child else 0)
            assert result.action_values[action] == pytest.approx(
                -child.value if child else 0, abs=1e-6
            )
            assert result.priors[action] == pytest.approx(child.prior if child else 0, abs=1e-6)


def test_unsearched_root_has_an_empty_result():
    (position,) = some_positions("connect_four:5x5", 1)
    search = Search(position.game, SearchSettings(), HashEvaluator(5), 1)
    search.set_root(np.zeros(1, np.int64), position.state[None])
    result = search.result(0)
    assert result.principal_variation == ()
    assert result.policy.tolist() == [0] * 5
    assert result.root_value == 0


def test_best_action_is_the_choice_of_the_root_rule():
    """These searches choose by Q_rave, which need not prefer the most visited action."""
    positions = some_positions("othello:4x4", 8)
    settings = SearchSettings.model_validate(
        {
            "simulations": 40,
            "selection": {"name": "rave", "c": 1.3, "equivalence": 30},
            "leaf_evaluator": "playout",
            "root": "rave_values",
        }
    )
    search = run(positions[0].game, settings, HashEvaluator(17), positions)
    slots = np.arange(8)
    weights = search.move_weights(slots, np.zeros(8, np.bool_))
    best = [search.result(b).best_action for b in slots]
    assert (weights[slots, best] == weights.max(axis=1)).all()
    assert (best != search.root_visits(slots).argmax(axis=1)).any()


_SLOT = np.zeros(1, np.int64)
_KEYS = np.array([7], np.uint64)


def _searched(simulations: int = 400) -> Search:
    position = Position.start("connect_four:5x5").play("2")
    settings = SearchSettings.model_validate(
        {
            "simulations": simulations,
            "selection": {"name": "puct", "c": 1.7},
        }
    )
    search = Search(position.game, settings, HashEvaluator(5), 1)
    search.set_root(_SLOT, position.state[None])
    search.start_search(_SLOT, _KEYS, _KEYS)
    search.run()
    return search


def test_node_visits_are_one_plus_child_visits() -> None:
    search = _searched()
    for path in ([], [3], [4, 0], [0, 4]):
        node = search.node(0, path)
        assert node is not None
        assert node.visits == 1 + sum(child.visits for child in node.children), path
        assert list(node.children) == sorted(node.children, key=lambda child: -child.visits)


def test_child_values_are_negated_node_values() -> None:
    search = _searched()
    root = search.node(0, [])
    assert root is not None
    for child in root.children:
        node = search.node(0, [child.action])
        assert node is not None
        assert node.visits == child.visits
        assert node.value == pytest.approx(-child.value, abs=1e-5)


def test_bonus_follows_the_puct_formula() -> None:
    """[Wang2021b, Alg. 4]: U = c P sqrt(N(s)) / (1 + N(s, a))."""
    root = _searched().node(0, [])
    assert root is not None
    for child in root.children:
        expected = 1.7 * child.prior * math.sqrt(root.visits) / (1 + child.visits)
        assert child.bonus == pytest.approx(expected, rel=1e-4)


def test_unvisited_paths_have_no_node() -> None:
    search = _searched(simulations=3)
    assert search.node(0, [0, 0, 0, 0]) is None
    assert search.node(0, [77]) is None
