"""Optional evaluator outputs: draw probabilities and action values."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import DetailedHashEvaluator, HashEvaluator, Rules
from search.naive import search as naive_search
from search.test_search import run, some_positions
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.search import roots
from zerolab.search.evaluator import UniformEvaluator, evaluate
from zerolab.search.methods import child_fpu_value, node_fpu_value
from zerolab.search.puct import ActionValuesFpu, ParentFpu, Puct
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

SLOTS = np.arange(4)


CASES = {
    "draws": (
        {"draw_value": 0.383, "fpu": {"name": "fixed", "value": -0.5}, "discount": 0.95},
        lambda node, child: -0.5,
    ),
    "draws and action values": (
        {"draw_value": -0.5, "fpu": "action_values"},
        lambda node, child: child.first_value + np.float32(-0.5) * node.draws,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_naive_search(case):
    options, node_fpu_value = CASES[case]
    settings = validate(
        SearchSettings, {"simulations": 80, "selection": {"name": "puct", "c": 1.3}, **options}
    )
    positions = some_positions("connect_four:5x5", 4, plies=24)
    search = run(positions[0].game, settings, DetailedHashEvaluator(5), positions)
    visits, values = search.root_visits_and_values(SLOTS)
    naive_rules = Rules(1.3, node_fpu_value, settings.discount, settings.draw_value)
    for i, position in enumerate(positions):
        root = naive_search(position, DetailedHashEvaluator(5), 80, naive_rules)
        for action, child in root.children.items():
            assert visits[i, action] == child.visits
            value = -settings.discount * child.value if child.visits else 0
            assert values[i, action] == pytest.approx(value, abs=1e-5)
        assert search.root_values(SLOTS)[i] == pytest.approx(root.value, abs=1e-5)
        if settings.draw_value:
            assert search.root_draw_probabilities(SLOTS)[i] == pytest.approx(root.draws, abs=1e-5)


def test_parent_urgency_includes_the_worth_of_draws():
    position = Position.start("connect_four:5x5")
    settings = validate(SearchSettings, {"draw_value": 0.5, "fpu": "parent"})
    tree = Search(position.game, settings, DetailedHashEvaluator(5), 1)._tree
    tree.value[0, 0], tree.draw_probability[0, 0] = 0.25, 0.5
    assert node_fpu_value(ParentFpu(reduction=0.125), tree, 0, 0) == 0.25 + 0.5 * 0.5 - 0.125


def detailed_search(**options):
    """Return a finished search of four positions with draws and action values."""
    values = {"simulations": 80, "draw_value": -0.5, "fpu": "action_values", **options}
    settings = validate(SearchSettings, values)
    positions = some_positions("connect_four:5x5", 4, plies=6)
    return run(positions[0].game, settings, DetailedHashEvaluator(5), positions)


def test_children_without_visits_keep_their_values_without_draws():
    """Q of a child that loses all visits; the assumed Q of a child that never had any."""
    search = detailed_search(discount=0.75, simulations=8)
    tree, fpu = search._tree, ActionValuesFpu()
    former = tree.visits.copy(), tree.value.copy()
    compared = {True: 0, False: 0}
    roots.scale_visits(Puct(), fpu, tree, SLOTS, 0.3)
    for b in SLOTS:
        shared = node_fpu_value(fpu, tree, b, 0)
        for child in range(1, 1 + tree.child_count[b, 0]):
            visits, value = former[0][b, child], former[1][b, child]
            if tree.visits[b, child] == 0:
                q = child_fpu_value(fpu, tree, b, child, shared) - shared
                assert q == pytest.approx(-0.75 * value if visits else -value, abs=1e-6)
                compared[bool(visits)] += 1
    assert min(compared.values()) > 0


def test_node_values_are_means_of_evaluations_and_child_values_with_draws():
    """N * V = V of the evaluator + sum over actions of N(s, a) * Q(s, a), without discount."""
    search = detailed_search()
    for b in SLOTS:
        root = search.node(b, ())
        for path in ((), (root.children[0].action,)):
            node = search.node(b, path)
            position = Position(search.game, search.root_states(SLOTS)[b])
            for action in path:
                position = position.play(action)
            _, values, draws, _ = evaluate(search.evaluator, position.state[None], {"draws"})
            total = values[0] - 0.5 * draws[0]
            total += sum(child.visits * child.value for child in node.children)
            assert node.visits * node.value == pytest.approx(total, abs=1e-4)
        assert search.result(b).root_value != pytest.approx(root.value, abs=1e-3)


@pytest.mark.parametrize("setting", [{"draw_value": 0.1}, {"fpu": "action_values"}])
@pytest.mark.parametrize("evaluator", [HashEvaluator(5), UniformEvaluator(5)])
def test_missing_evaluator_outputs_are_refused(setting, evaluator):
    game = Position.start("connect_four:5x5").game
    with pytest.raises(UserError, match="expected a network with"):
        Search(game, validate(SearchSettings, setting), evaluator, 1)


def test_draw_value_is_refused_with_playouts():
    with pytest.raises(UserError, match=r"draw_value = 0\.1: playouts"):
        validate(SearchSettings, {"draw_value": 0.1, "leaf_evaluator": "playout"})


@pytest.mark.parametrize("draw_value", [-1.5, 1.01])
def test_draw_value_outside_its_range_is_refused(draw_value):
    with pytest.raises(UserError, match="draw_value"):
        validate(SearchSettings, {"draw_value": draw_value})


def test_only_requested_outputs_are_returned():
    states = Position.start("connect_four:5x5").state[None]
    evaluator = DetailedHashEvaluator(5)
    assert evaluate(evaluator, states, ())[2:] == (None, None)
    draws, action_values = evaluate(evaluator, states, {"draws"})[2:]
    assert draws.shape == (1,)
    assert action_values is None
    both = evaluate(evaluator, np.repeat(states, 3, 0), {"draws", "action_values"})
    assert both.take(slice(1, 3)).action_values.shape == (2, 5)
