"""Virtual loss: several leaves per tree and step."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import DetailedHashEvaluator, HashEvaluator
from search.naive_virtual_loss import search as naive_search
from search.test_mcts_solver import proven_positions
from search.test_search import check_tree, run, some_positions
from zerolab.agents.network_players import SearchPlayer
from zerolab.oracles.solver import Solver
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:5x5"
SLOT = np.zeros(1, np.int64)


def settings(leaves, **others):
    return SearchSettings.model_validate(
        {"simulations": 90, "leaves_per_step": leaves, "cache": 0, **others}
    )


@pytest.mark.parametrize("leaves", [2, 5, 40])
def test_agrees_with_the_naive_search(leaves):
    positions = some_positions(NAME, 4, plies=12)
    search = run(
        positions[0].game,
        settings(leaves, selection={"name": "puct", "c": 1.3}),
        HashEvaluator(5),
        positions,
    )
    visits, values = search.root_visits_and_values(np.arange(4))
    for i, position in enumerate(positions):
        root = naive_search(position, HashEvaluator(5), 90, leaves, 1.3)
        for action, child in zip(position.legal_actions, root.children, strict=True):
            assert visits[i, action] == child.visits
            if child.visits:
                expected = -child.total / child.visits
                assert values[i, action] == pytest.approx(expected, abs=1e-5)
        assert search.root_values(np.array([i]))[0] == pytest.approx(root.total / 91, abs=1e-5)


def exact_means(tree, b, evaluator, discount):
    """Return the exact mean values of all nodes, computed from their evaluations."""
    totals = np.zeros(tree.node_count[b])
    for node in reversed(range(tree.node_count[b])):
        outcome, visits = tree.outcome[b, node], tree.visits[b, node]
        first, count = tree.first_child[b, node], tree.child_count[b, node]
        if visits and outcome != ONGOING:
            totals[node] = outcome * visits
        elif visits:
            assert first, "a visited leaf was expanded"
            leaf_value = evaluator.evaluate(tree.states[b, node][None])[1][0]
            totals[node] = leaf_value - discount * totals[first : first + count].sum()
    return totals / np.maximum(tree.visits[b, : len(totals)], 1)


@pytest.mark.parametrize("leaves", [3, 64])
@pytest.mark.parametrize("saving", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_virtual_losses_leave_no_trace_in_visits_and_means(leaves, saving, discount):
    positions = some_positions(NAME, 3, plies=10)
    options = {"cache": 1000} if saving else {"deduplicate": False}
    search_settings = settings(leaves, discount=discount, **options)
    search = run(positions[0].game, search_settings, HashEvaluator(5), positions)
    assert (search.root_visits(np.arange(3)).sum(axis=1) == 90).all()
    tree = search._tree
    for b in range(3):
        check_tree(search, b)
        expected = exact_means(tree, b, HashEvaluator(5), discount)
        assert tree.value[b, : len(expected)] == pytest.approx(expected, abs=1e-5)
    if not saving:  # every leaf is evaluated once
        expanded = sum((tree.first_child[b, : tree.node_count[b]] != 0).sum() for b in range(3))
        assert search.work_counts["evaluated"] == expanded


def test_batches_are_filled_and_results_repeat():
    position = some_positions("connect_four:6x7", 1)[0]
    evaluator = HashEvaluator(rules.action_count(position.game))
    search_settings = settings(16, simulations=400)
    search = run(position.game, search_settings, evaluator, [position])
    assert max(evaluator.calls) == 16
    assert np.median(evaluator.calls) == 16
    repeated = run(position.game, search_settings, HashEvaluator(7), [position])
    assert (search.root_visits(SLOT) == repeated.root_visits(SLOT)).all()
    assert search.root_values(SLOT) == repeated.root_values(SLOT)


@pytest.mark.parametrize("cache", [0, 4096])
def test_trees_do_not_influence_each_other(cache):
    positions = some_positions(NAME, 40, plies=9)
    search_settings = settings(4, cache=cache)
    together = run(positions[0].game, search_settings, HashEvaluator(5), positions)
    for i in (0, 7, 39):
        alone = run(positions[0].game, search_settings, HashEvaluator(5), [positions[i]])
        assert (alone.root_visits(SLOT)[0] == together.root_visits(np.array([i]))[0]).all()


def test_other_trees_neither_evaluate_nor_make_room_for_a_tree():
    """The first search fills the cache and lets the memory of both trees grow."""
    position = some_positions("connect_four:6x7", 1)[0]
    start, key = position.state[None], np.array([7], np.uint64)
    visits = []
    for earlier in ([], [0]):
        search = Search(
            position.game, settings(16, simulations=400, cache=1 << 16), HashEvaluator(7), 2
        )
        for slot in (*earlier, 1):
            search.set_root(np.array([slot]), start)
            search.start_search(np.array([slot]), key, key)
            search.run()
        visits.append(search.root_visits(np.array([1]))[0].tolist())
    assert search._tree.states.shape[1] > 2048
    assert visits[0] == visits[1]


def test_growing_trees_keep_their_waiting_leaves():
    position = some_positions("connect_four:6x7", 1)[0]
    search = run(position.game, settings(50, simulations=1500), HashEvaluator(7), [position])
    assert search._tree.node_count[0] > 1024
    assert search.root_visits(SLOT).sum() == 1500
    check_tree(search, 0)


# Shared by two tests, so that their kernels are compiled once. No simulation of the first test
# reaches the end of a game.
DRAWS_AND_PROOFS = {"draw_value": 0.3, "proven_values": True}


def test_draw_probabilities_are_means():
    positions = some_positions("connect_four:6x7", 2, plies=2)
    evaluator = DetailedHashEvaluator(7)
    search = run(positions[0].game, settings(8, **DRAWS_AND_PROOFS), evaluator, positions)
    assert search.work_counts["proven"] == 0
    tree = search._tree
    for b in range(2):
        for node in range(tree.node_count[b]):
            first, count = tree.first_child[b, node], tree.child_count[b, node]
            if first:
                leaf_draws = evaluator.evaluate_with_extras(tree.states[b, node][None], {"draws"})[
                    2
                ][0]
                below = slice(first, first + count)
                total = leaf_draws + (tree.draw_probability[b, below] * tree.visits[b, below]).sum()
                expected = total / tree.visits[b, node]
                assert tree.draw_probability[b, node] == pytest.approx(expected, abs=1e-5)


def test_proven_values_stay_exact():
    positions = some_positions("connect_four:4x4", 80, plies=15)
    search_settings = settings(8, simulations=400, **DRAWS_AND_PROOFS)
    search = run(positions[0].game, search_settings, DetailedHashEvaluator(4), positions)
    states, results, _ = proven_positions(search)
    solver = Solver(positions[0].game)
    assert [np.sign(solver.value(state)) for state in states] == results.tolist()
    assert len(states) > 100
    tree = search._tree
    roots = np.flatnonzero(tree.proven_result[:, 0] != ONGOING)
    assert (tree.value[roots, 0] == tree.proven_result[roots, 0]).all()
    assert len(roots) > 10


def test_single_game_player_evaluates_several_leaves_per_step():
    position = some_positions("connect_four:6x7", 1)[0]
    calls = {}
    for simulations in (300, 3000):
        evaluator = HashEvaluator(7)
        player = SearchPlayer(
            position.game, "name", SearchSettings(simulations=simulations, cache=0), evaluator
        )
        player.enable_virtual_loss()
        player.start(1)
        player.choose(SLOT, compiled_rules.start(position.game)[None], np.zeros(1, np.uint64))
        calls[simulations] = max(evaluator.calls)
    assert calls == {300: 1, 3000: 75}


def test_planning_root_rules_evaluate_one_leaf_per_step():
    with pytest.raises(ValueError, match="leaves_per_step = 2"):
        settings(2, root={"name": "gumbel"})
    gumbel = SearchSettings.model_validate({"simulations": 2000, "root": "gumbel"})
    position = some_positions(NAME, 1)[0]
    player = SearchPlayer(position.game, "name", gumbel, HashEvaluator(5))
    player.enable_virtual_loss()
    player.start(1)
    assert isinstance(player.search, Search)
    assert player.search.settings.leaves_per_step == 1


def test_leaves_per_step_shrink_with_playouts_per_leaf():
    leaves = {}
    for playouts in (1, 16, 1000):
        leaf = {"name": "playout", "playouts": playouts}
        search_settings = SearchSettings.model_validate(
            {"simulations": 20_000, "leaf_evaluator": leaf}
        )
        player = SearchPlayer(parse_game(NAME), "name", search_settings, HashEvaluator(5))
        player.enable_virtual_loss()
        leaves[playouts] = player.new_search(1).settings.leaves_per_step
    assert leaves == {1: 256, 16: 256, 1000: 4}
