"""Leaf evaluators: playouts, mixtures, and convergence to the exact expectation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules import rules
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.methods import MixedValue, RandomPlayout, leaf_evaluator_for_kernels, leaf_value
from zerolab.search.search_settings import SearchSettings

GAME = "othello:4x4"


def searched(positions, evaluator, leaf, simulations=60):
    settings = {"simulations": simulations, "leaf_evaluator": leaf}
    return run(positions[0].game, validate(SearchSettings, settings), evaluator, positions)


def require_same_trees(one, other):
    for field in ("node_count", "visits", "value", "prior", "statistics"):
        assert np.array_equal(getattr(one._tree, field), getattr(other._tree, field)), field


@pytest.mark.parametrize(("weight", "plain"), [(0.0, "network"), (1.0, "playout")])
def test_mixture_with_one_component_is_bitwise_equal_to_it(weight, plain):
    positions = some_positions(GAME, 3)
    evaluator = HashEvaluator(rules.action_count(positions[0].game))
    mixed = searched(positions, evaluator, {"name": "mixed", "weight": weight})
    require_same_trees(mixed, searched(positions, evaluator, plain))


def test_mixture_weights_network_and_playout():
    position = Position.start(GAME)
    network, playout, mixed = (
        searched([position], HashEvaluator(17), leaf, simulations=1)._tree.value[0, 1:17].sum()
        for leaf in ("network", "playout", {"name": "mixed", "weight": 0.75})
    )
    assert abs(playout) == 1
    assert mixed == pytest.approx(0.25 * network + 0.75 * playout)


def test_unexpanded_root_has_no_playout():
    """N simulations run N playouts; the root mean also includes a zero for the root."""
    position = Position.start(GAME)
    search = searched([position], UniformEvaluator(17), "playout", simulations=1)
    child = search._tree.value[0, 1:17].sum()
    assert search.root_values(np.zeros(1, int))[0] == pytest.approx(-child / 2)


@kernel
def leaf_values(rule, game, state, keys, scratch, moves, out):
    for i in range(keys.shape[0]):
        out[i] = leaf_value(rule, game, state, np.float32(0.25), keys[i], scratch, moves)


def values_of(rule, position, count, moves=None):
    keys = streams.stream_keys(3, 0, np.arange(count), np.zeros(count, int), streams.PLAYOUT)
    out = np.empty(count, np.float64)
    state = np.ascontiguousarray(position.state)
    moves = np.zeros(1 + rules.MAX_PLIES, np.int32) if moves is None else moves
    leaf_values(rule, position.game, state, keys, state.copy(), moves, out)
    return out


def expectation(position):
    """Return the exact expected outcome of random play for the side to move."""
    if position.outcome is not None:
        return Fraction(position.outcome)
    legal = position.legal_actions
    return -sum(expectation(position.play(action)) for action in legal) / len(legal)


# Wins, losses and draws are within reach; the Othello position includes a forced pass.
ENDGAMES = [
    ("connect_four:4x4", "3 0 1 2 1 3 3 3 1"),
    ("othello:4x4", "c4 b4 a2 d4 pass"),
]


def position_after(name, moves):
    position = Position.start(name)
    for move in moves.split():
        position = position.play(move)
    return position


@pytest.mark.parametrize(("name", "moves"), ENDGAMES)
def test_playouts_converge_to_the_exact_expectation(name, moves):
    position = position_after(name, moves)
    exact = float(expectation(position))
    values = values_of(RandomPlayout(), position, 40_000)
    assert abs(exact) < 0.95
    assert values.std() > 0.1
    assert values.mean() == pytest.approx(exact, abs=4 * values.std() / 200)


def test_mixture_returns_the_moves_of_its_playout():
    position = position_after(*ENDGAMES[0])
    moves, mixed_moves = np.zeros((2, 1 + rules.MAX_PLIES), np.int32)
    values_of(RandomPlayout(), position, 1, moves)
    values_of(MixedValue(0.0), position, 1, mixed_moves)
    assert moves[0] > 0
    assert mixed_moves.tolist() == moves.tolist()


@pytest.mark.parametrize("rule", [RandomPlayout(9), MixedValue(1.0, 9)], ids=["playout", "mixed"])
def test_several_playouts_are_averaged(rule):
    position = position_after(*ENDGAMES[0])
    single, averaged = (
        values_of(RandomPlayout(), position, 20_000),
        values_of(rule, position, 20_000),
    )
    assert (averaged == values_of(leaf_evaluator_for_kernels(rule), position, 20_000)).all()
    assert set(np.round(9 * averaged).astype(int)) <= set(range(-9, 10))
    assert averaged.mean() == pytest.approx(single.mean(), abs=0.03)
    assert averaged.var() == pytest.approx(single.var() / 9, rel=0.1)


@pytest.mark.parametrize(
    ("leaf", "line"),
    [
        ({"name": "mixed", "weight": 1.5}, "leaf_evaluator.weight = 1.5: expected at most 1"),
        ({"name": "mixed", "weight": -0.1}, "leaf_evaluator.weight = -0.1: expected at least 0"),
        ({"name": "playout", "playouts": 0}, "leaf_evaluator.playouts = 0: expected at least 1"),
        ({"name": "playouts"}, 'leaf_evaluator.name = "playouts": expected one of'),
    ],
)
def test_invalid_settings_are_refused(leaf, line):
    with pytest.raises(UserError, match=line):
        validate(SearchSettings, {"leaf_evaluator": leaf})


@pytest.mark.parametrize("selection", ["puct", "rave"])
def test_results_do_not_depend_on_threads(selection):
    positions = some_positions(GAME, 30)
    settings = validate(
        SearchSettings,
        {
            "simulations": 20,
            "selection": selection,
            "leaf_evaluator": {"name": "playout", "playouts": 100},
        },
    )
    one, three = (
        run(positions[0].game, settings, HashEvaluator(17), positions, threads=threads)
        for threads in (1, 3)
    )
    require_same_trees(one, three)
    assert one.work_counts == three.work_counts
