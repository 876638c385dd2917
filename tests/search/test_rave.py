"""RAVE compared with a plain implementation and on a hand-made tree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import rules
from zerolab.rules.position import Position
from zerolab.rules.rules import MAX_PLIES
from zerolab.search.methods import update_statistics, with_simulations, write_policy
from zerolab.search.rave import Rave, RaveValuesRoot
from zerolab.search.search_settings import SearchSettings
from zerolab.search.tree import UNSEEN_OUTCOME, empty_forest, tree_arrays

# Each pair of game and leaf evaluator needs its own kernels. Hand-made trees below also have leaves
# without playout moves.
GAME = "othello:4x4"


class Node:
    def __init__(self, position, prior):
        self.position = position
        self.prior = prior
        self.visits = 0
        self.value = np.float32(0)
        self.later = 0
        self.later_mean = np.float32(0)
        self.children = {}


def choose(node, c, k):
    """Return the first action with the highest (1 - beta) U + beta U_rave."""
    beta = np.float32(math.sqrt(k / (3 * node.visits + k)))
    total = 1 + sum(child.later for child in node.children.values())

    def score(action):
        child = node.children[action]
        u = -child.value + np.float32(c * math.sqrt(node.visits)) * child.prior / np.float32(
            1 + child.visits
        )
        u_rave = child.later_mean + np.float32(c * math.sqrt(total)) * child.prior / np.float32(
            1 + child.later
        )
        return (np.float32(1) - beta) * u + beta * u_rave

    return max(node.children, key=score)


def later_actions(actions, t, all_movers):
    """Return the actions from ply `t` on, of the mover at `t` or of both players."""
    return set(actions[t:] if all_movers else actions[t::2])


def naive_search(position, evaluator, simulations, c, k, key, *, all_movers, playout_moves):
    root = Node(position, np.float32(1))
    for number in range(simulations + 1):
        path, actions = [root], []
        while path[-1].children:
            actions.append(choose(path[-1], c, k))
            path.append(path[-1].children[actions[-1]])
        leaf = path[-1]
        value, playout_actions = leaf.position.outcome, []
        if value is None:
            priors, values = evaluator.evaluate(leaf.position.state[None])
            value = values[0]
            total = np.float32(0)
            for action in leaf.position.legal_actions:
                total += priors[0, action]
            for action in leaf.position.legal_actions:
                leaf.children[action] = Node(leaf.position.play(action), priors[0, action] / total)
            if leaf is not root:
                remaining = simulations - number + 1
                value, playout_actions = one_playout(leaf.position, streams.fold_in(key, remaining))
        value = np.float32(value)
        credited = [*actions, *playout_actions] if playout_moves else actions
        for t, node in enumerate(path):
            signed = value if (len(path) - 1 - t) % 2 == 0 else -value
            node.visits += 1
            node.value += (signed - node.value) / np.float32(node.visits)
            for action in later_actions(credited, t, all_movers):
                if child := node.children.get(action):
                    child.later += 1
                    child.later_mean += (signed - child.later_mean) / np.float32(child.later)
    return root


@kernel
def play_out(game, state, key, out, moves):
    return rules.playout(game, state, streams.fold_in(key, 0), out, moves)


def one_playout(position, key):
    moves = np.zeros(1 + MAX_PLIES, np.int32)
    state = np.ascontiguousarray(position.state)
    result = play_out(position.game, state, np.uint64(key), state.copy(), moves)
    return result, moves[1 : 1 + moves[0]].tolist()


def require_same_tree(search, b, node, expected):
    tree = search._tree
    assert tree.visits[b, node] == expected.visits
    assert tree.value[b, node] == pytest.approx(expected.value, abs=1e-6)
    first = tree.first_child[b, node]
    if not expected.children:
        assert first == 0
        return
    for child in range(first, first + tree.child_count[b, node]):
        twin = expected.children.pop(int(tree.action[b, child]))
        count, mean = tree.statistics[b, child, [COUNT, MEAN]]
        assert count == twin.later
        assert mean == pytest.approx(twin.later_mean, abs=1e-6)
        require_same_tree(search, b, child, twin)
    assert not expected.children


@pytest.mark.parametrize("all_movers", [False, True])
@pytest.mark.parametrize("playout_moves", [False, True])
def test_agrees_with_the_definition(all_movers, playout_moves):
    positions = some_positions(GAME, 2)
    game = positions[0].game
    options = {"all_movers": all_movers, "playout_moves": playout_moves}
    settings = SearchSettings.model_validate(
        {
            "simulations": 50,
            "selection": {"name": "rave", "c": 1.3, "equivalence": 30, **options},
            "leaf_evaluator": "playout",
        }
    )
    evaluator = HashEvaluator(rules.action_count(game))
    search = run(game, settings, evaluator, positions)
    keys = streams.stream_keys(0, 0, np.arange(2), np.arange(2), streams.PLAYOUT)
    for b, position in enumerate(positions):
        expected = naive_search(position, evaluator, 50, 1.3, 30, keys[b], **options)
        require_same_tree(search, b, 0, expected)


COUNT, TOTAL, MEAN = 0, 1, 4


def advanced_search(inherited_visits, **reading):
    """Return a search with noise after its first moves, the slots of ongoing games and keys."""
    positions = some_positions(GAME, 4)
    settings = SearchSettings.model_validate(
        {
            "simulations": 50,
            "selection": {"name": "rave", "c": 1.3, "equivalence": 30} | reading,
            "leaf_evaluator": "playout",
            "noise": {"fraction": 0.25, "inherited_visits": inherited_visits},
        }
    )
    search = run(positions[0].game, settings, HashEvaluator(17), positions)
    slots = np.arange(4)
    search.advance(slots, search.root_visits(slots).argmax(axis=1))
    slots = slots[search.root_outcomes(slots) == rules.ONGOING]
    return search, slots, streams.stream_keys(0, 1, slots, slots, streams.PLAYOUT)


@pytest.mark.parametrize(
    ("weight", "reading"), [(0.1, {}), (0.5, {}), (0.8, {}), (0.5, {"reading": "literal"})]
)
def test_counts_are_discounted_like_visits_and_keep_their_means(weight, reading):
    """In the literal reading, a child's visits are not among its counts."""
    search, slots, keys = advanced_search(weight, **reading)
    tree = search._tree
    former = tree.visits.copy(), tree.statistics.copy()
    search.start_search(slots, keys, keys)
    for b in slots:
        first = tree.first_child[b, 0]
        children = slice(first, first + tree.child_count[b, 0])
        share = tree.visits[b, 0] / former[0][b, 0]
        counts, means = tree.statistics[b, children, COUNT], tree.statistics[b, children, MEAN]
        former_counts = former[1][b, children, COUNT]
        visits = 0 if reading else tree.visits[b, children]
        assert (np.abs(counts - np.maximum(visits, share * former_counts)) < 1).all()
        assert counts.sum() < former_counts.sum()
        assert (means == np.where(counts > 0, former[1][b, children, MEAN], 0)).all()
        nodes = slice(1, tree.node_count[b])
        assert reading or (tree.statistics[b, nodes, COUNT] >= tree.visits[b, nodes]).all()


def test_totals_are_sums_after_visits_are_discounted():
    search, slots, keys = advanced_search(0.5)
    search.start_search(slots, keys, keys)
    search.run()
    tree = search._tree
    for b in slots:
        for node in range(tree.node_count[b]):
            if first := tree.first_child[b, node]:
                children = slice(first, first + tree.child_count[b, node])
                total = tree.statistics[b, children, COUNT].sum()
                assert tree.statistics[b, node, TOTAL] == total


def hand_made_tree():
    """Return a tree in which actions 0, 1, 2 are legal at the root and after 0, 0-1 and 0-1-2."""
    tree = tree_arrays(empty_forest(1, 13, 2, 5))
    tree.parent[0, 0] = -1
    tree.outcome[0] = UNSEEN_OUTCOME
    for node, first in ((0, 1), (1, 4), (5, 7), (9, 10)):
        tree.first_child[0, node] = first
        tree.child_count[0, node] = 3
        tree.parent[0, first : first + 3] = node
        tree.action[0, first : first + 3] = [0, 1, 2]
    return tree


def counters(tree):
    """Return {node: (count, mean)} of all credited nodes."""
    return {
        int(node): tuple(tree.statistics[0, node, [COUNT, MEAN]].tolist())
        for node in np.flatnonzero(tree.statistics[0, :, COUNT])
    }


@kernel
def learn(rule, tree, leaf, value, moves):
    update_statistics(rule, tree, 0, leaf, value, moves)


def playout_moves(*actions):
    moves = np.zeros(1 + MAX_PLIES, np.int32)
    moves[: 1 + len(actions)] = [len(actions), *actions]
    return moves


# The path 0, 1, 2 ends at node 9, whose value is 0.5 for its mover, the second player.
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rave(playout_moves=False), {1: (1, -0.5), 3: (1, -0.5), 5: (1, 0.5), 9: (1, -0.5)}),
        (
            Rave(playout_moves=False, all_movers=True),
            {
                1: (1, -0.5), 2: (1, -0.5), 3: (1, -0.5),
                5: (1, 0.5), 6: (1, 0.5),
                9: (1, -0.5),
            },
        ),
        # Playout 0, 1, 0, in which the second player moves first.
        (
            Rave(),
            {
                1: (1, -0.5), 2: (1, -0.5), 3: (1, -0.5),
                4: (1, 0.5), 5: (1, 0.5),
                8: (1, -0.5), 9: (1, -0.5),
                10: (1, 0.5),
            },
        ),
        (
            Rave(all_movers=True),
            {
                1: (1, -0.5), 2: (1, -0.5), 3: (1, -0.5),
                4: (1, 0.5), 5: (1, 0.5), 6: (1, 0.5),
                7: (1, -0.5), 8: (1, -0.5), 9: (1, -0.5),
                10: (1, 0.5), 11: (1, 0.5),
            },
        ),
    ],
    ids=["same mover", "all movers", "same mover, playout", "all movers, playout"],
)  # fmt: skip
def test_counters_on_a_hand_made_tree(rule, expected):
    tree = hand_made_tree()
    rule = rule._replace(equivalence=1.0)
    learn(rule, tree, 9, np.float32(0.5), playout_moves(0, 1, 0))
    assert counters(tree) == expected


@pytest.mark.parametrize("all_movers", [False, True])
def test_repeated_action_counts_once_per_state(all_movers):
    """Action 0 occurs twice on the path to node 7; the root credits the first occurrence."""
    tree = hand_made_tree()
    rule = Rave(equivalence=1.0, all_movers=all_movers)
    learn(rule, tree, 7, np.float32(1), playout_moves())
    later = {2: (1, -1), 4: (1, 1)} if all_movers else {}
    assert counters(tree) == {1: (1, -1), 5: (1, 1), 7: (1, -1)} | later


# The value of the leaf is 0.5 for its mover.
@pytest.mark.parametrize(
    ("leaf", "in_tree_only", "moves", "expected"),
    [
        # Path 0, 1, 2: the root counts 1 and 2, the state after 0 counts 2.
        (9, True, (0, 1, 0), {2: (1, -0.5), 3: (1, -0.5), 6: (1, 0.5)}),
        # Playout 0, 1, 0: all of its actions occurred in the tree.
        (9, False, (0, 1, 0), {2: (1, -0.5), 3: (1, -0.5), 6: (1, 0.5)}),
        # Path 0, playout 2, 1, 2: the leaf does not count its own move 2, nor the second 2.
        (1, False, (2, 1, 2), {2: (1, -0.5), 3: (1, -0.5), 5: (1, 0.5)}),
        # Path 0, 1, 0: the second 0 counts nowhere.
        (7, False, (), {2: (1, -0.5)}),
    ],
)
def test_literal_reading_on_a_hand_made_tree(leaf, in_tree_only, moves, expected):
    tree = hand_made_tree()
    rule = Rave(reading="literal", playout_moves=not in_tree_only)
    learn(with_simulations(rule, 10), tree, leaf, np.float32(0.5), playout_moves(*moves))
    assert counters(tree) == expected


@kernel
def write_root_policy(tree, weights):
    write_policy(RaveValuesRoot(), None, tree, None, 0, weights)


def test_policy_of_rave_values_is_proportional_to_them():
    tree = hand_made_tree()
    tree.visits[0, 1:4] = [3, 1, 0]
    weights = np.zeros(3)
    write_root_policy(tree, weights)
    assert weights.tolist() == [3, 1, 0]  # visits, because no action has a value
    tree.statistics[0, 1:3, COUNT] = [4, 1]
    tree.statistics[0, 1:4, MEAN] = [-0.5, 0.5, 0.0]
    write_root_policy(tree, weights)
    assert weights.tolist() == [0.25, 0.75, 0]


def test_literal_reading_needs_assumed_values_of_visited_actions():
    selection = {"name": "rave", "reading": "literal"}
    with pytest.raises(ValueError, match=r'fpu = "action_values": .* expected another rule'):
        SearchSettings.model_validate({"selection": selection, "fpu": "action_values"})
    SearchSettings.model_validate({"selection": "rave", "fpu": "action_values"})
    SearchSettings.model_validate({"selection": selection, "fpu": "parent"})


def test_policy_of_rave_values_needs_rave():
    with pytest.raises(ValueError, match='expected selection = "rave"'):
        SearchSettings.model_validate({"root": "rave_values"})


def test_state_total_is_the_sum_of_action_counts():
    tree = hand_made_tree()
    for value in (0.5, -1.0):
        learn(Rave(equivalence=1.0), tree, 9, np.float32(value), playout_moves())
    assert tree.statistics[0, [0, 1, 5], TOTAL].tolist() == [4, 2, 2]
    assert tree.statistics[0, 3, [COUNT, MEAN]].tolist() == [2, pytest.approx(0.25)]


def test_counts_exceed_the_float32_integer_range():
    tree = hand_made_tree()
    tree.statistics[0, :, [COUNT, TOTAL]] = 2.0**24
    for _ in range(8):
        learn(Rave(equivalence=1.0), tree, 9, np.float32(0.5), playout_moves())
    assert tree.statistics[0, 1, COUNT] == 2**24 + 8
    assert tree.statistics[0, 0, TOTAL] == 2**24 + 16


def test_equivalence_zero_is_bitwise_equal_to_puct():
    positions = some_positions(GAME, 3)
    game = positions[0].game
    evaluator = HashEvaluator(rules.action_count(game))
    puct, rave = (
        run(
            game,
            SearchSettings.model_validate(
                {"simulations": 80, "selection": selection, "leaf_evaluator": "playout"}
            ),
            evaluator,
            positions,
        )._tree
        for selection in ({"name": "puct", "c": 1.1}, {"name": "rave", "c": 1.1, "equivalence": 0})
    )
    assert (puct.node_count == rave.node_count).all()
    for b, used in enumerate(puct.node_count):
        for field in ("visits", "value", "prior", "action", "parent"):
            assert (getattr(puct, field)[b, :used] == getattr(rave, field)[b, :used]).all()


def test_equivalence_defaults_to_the_number_of_simulations():
    start = Position.start("othello:6x6")
    trees = [
        run(
            start.game,
            SearchSettings.model_validate(
                {"simulations": 70, "selection": selection, "leaf_evaluator": "playout"}
            ),
            HashEvaluator(37),
            [start],
        )._tree.visits
        for selection in (
            "rave",
            {"name": "rave", "equivalence": 70},
            {"name": "rave", "equivalence": 7},
        )
    ]
    assert (trees[0] == trees[1]).all()
    assert (trees[0] != trees[2]).any()
