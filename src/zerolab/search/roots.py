"""Functions that set, advance and read the roots of trees, search results, and views of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.rules import rules
from zerolab.rules.rules import LOSS, ONGOING, WIN
from zerolab.search.methods import (
    SearchMethods,
    discount_children,
    forget_children,
    reset_child_value,
    selection_score,
    shared_score_terms,
    write_move_weights,
    write_policy,
)
from zerolab.search.simulation_options import (
    MctsSolver,
    apply_proofs_to_weights,
    clear_proof,
    is_unproven,
)
from zerolab.search.tree import UNSEEN_OUTCOME, TreeArrays, keep_subtree
from zerolab.search.values import action_value, node_value

_DROPPED = -2
"""Parent index of nodes that no longer belong to their tree."""


@kernel
def set_root(game, tree, trees, states):
    """Replace each of n trees with an unexpanded root; `states` is uint64[n, words]."""
    for i in range(trees.shape[0]):
        _set_root(game, tree, trees[i], states[i])


@inlined
def _set_root(game, tree, b, state):
    copy_row(state, tree.states[b, 0])
    tree.outcome[b, 0] = rules.outcome(game, state)
    tree.parent[b, 0] = -1
    tree.first_child[b, 0] = 0
    tree.child_count[b, 0] = 0
    tree.visits[b, 0] = 0
    tree.value[b, 0] = np.float32(0.0)
    clear_proof(tree.solver, tree, b, 0)
    tree.statistics[b, 0] = np.float32(0.0)
    tree.node_count[b] = 1


@inlined
def _searched_child(tree, b, action):
    """Return the root's child reached by an action if the child is expanded, otherwise -1."""
    first = tree.first_child[b, 0]
    if first != 0:
        for child in range(first, first + tree.child_count[b, 0]):
            if tree.action[b, child] == action and tree.first_child[b, child] != 0:
                return child
    return -1


@kernel
def advance(game, tree, trees, actions, keep_subtrees):
    """Play an action at the root of each tree and make the resulting child the new root.

    `trees` and `actions` are int64[n]. A child's subtree is kept if it has been searched and
    `keep_subtrees` is true.
    """
    moved = np.empty(tree.parent.shape[1], np.int32)
    state = np.empty(rules.word_count(game), np.uint64)
    for i in range(trees.shape[0]):
        b = trees[i]
        root = _searched_child(tree, b, actions[i]) if keep_subtrees else -1
        if root > 0:
            keep_subtree(tree, b, root, moved)
        else:
            rules.apply(game, tree.states[b, 0], actions[i], state)
            _set_root(game, tree, b, state)


@inlined
def _unexpand(selection, tree, b, node):
    """Drop the children of a node and their subtrees."""
    first = tree.first_child[b, node]
    if first != 0:
        tree.parent[b, first : first + tree.child_count[b, node]] = _DROPPED
        tree.first_child[b, node] = 0
        forget_children(selection, tree, b, node)


@inlined
def _scale_children(selection, fpu, tree, b, node, total):
    """Scale the children's visits from the sum `total` to a sum of the node's visits minus 1.

    Rounding preserves the sum, and no child gains visits. The subtracted visit is the node's own
    evaluation. The selection rule discounts its statistics accordingly.
    """
    target = np.int64(tree.visits[b, node] - 1)
    first = tree.first_child[b, node]
    before = np.int64(0)
    for child in range(first, first + tree.child_count[b, node]):
        after = before + tree.visits[b, child]
        tree.visits[b, child] = after * target // total - before * target // total
        lost_all = tree.visits[b, child] == 0 and after > before
        if lost_all and is_unproven(tree.solver, tree, b, child):
            reset_child_value(fpu, tree, b, child)
        before = after
    discount_children(selection, tree, b, node, target + 1, total + 1)


@kernel
def scale_visits(selection, fpu, tree, trees, weight):
    """Scale the visits below the roots of some trees by a weight in [0, 1].

    Mean values and proofs are kept, but nodes whose visit count drops to 0 become unvisited.
    """
    moved = np.empty(tree.parent.shape[1], np.int32)
    for i in range(trees.shape[0]):
        b = trees[i]
        visits = tree.visits[b, 0]
        if visits <= 1:
            continue
        tree.visits[b, 0] = 1 + np.int32(weight * (visits - 1))
        for node in range(tree.node_count[b]):
            first = tree.first_child[b, node]
            if first == 0:
                continue
            total = np.int64(tree.visits[b, first : first + tree.child_count[b, node]].sum())
            if tree.parent[b, node] == _DROPPED or tree.visits[b, node] == 0:
                _unexpand(selection, tree, b, node)
            elif total > 0 and is_unproven(tree.solver, tree, b, node):
                _scale_children(selection, fpu, tree, b, node, total)
        keep_subtree(tree, b, 0, moved)


@kernel
def write_root_statistics(tree, trees, visits, values, priors):
    """Write visit counts, mean values and priors of root actions, each [n, actions].

    `visits` is int32; `values` and `priors` are float32. Values are for the side to move at the
    root. Unvisited actions have value 0, and illegal actions also have prior 0.
    """
    visits[:] = 0
    values[:] = np.float32(0.0)
    priors[:] = np.float32(0.0)
    for i in range(trees.shape[0]):
        b = trees[i]
        first = tree.first_child[b, 0]
        for child in range(first, first + tree.child_count[b, 0]):
            action = tree.action[b, child]
            visits[i, action] = tree.visits[b, child]
            value = tree.value[b, child] if tree.visits[b, child] > 0 else np.float32(0.0)
            values[i, action] = -np.float32(tree.utility.discount) * value
            priors[i, action] = tree.prior[b, child]


@kernel
def write_policies(methods, tree, search_state, trees, weights):
    """Write the root rule's unnormalised policies to `weights`, float64[n, actions]."""
    for i in range(trees.shape[0]):
        write_policy(methods.root_rule, methods, tree, search_state, trees[i], weights[i])
        apply_proofs_to_weights(tree.solver, tree, trees[i], weights[i])


@kernel
def write_all_move_weights(methods, tree, search_state, trees, sample, weights):
    """Write the move weights of finished searches to `weights`, int64[n, actions]."""
    for i in range(trees.shape[0]):
        write_move_weights(
            methods.root_rule, methods, tree, search_state, trees[i], sample[i], weights[i]
        )
        apply_proofs_to_weights(tree.solver, tree, trees[i], weights[i])


def choose_actions(
    weights: NDArray[np.int32] | NDArray[np.int64],
    keys: NDArray[np.uint64],
    sample: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Choose actions, int64[n], by weights [n, actions], such as visit counts.

    Where `sample`, bool[n], is true, the action is sampled in proportion to the weights. Elsewhere
    the action with the highest weight is chosen, with ties broken at random. `keys`, uint64[n], are
    the random streams.
    """
    chosen = np.empty(len(weights), np.int64)
    _choose(weights, keys, sample, chosen)
    return chosen


@kernel
def _choose(weights, keys, sample, chosen):
    """Write the actions of `choose_actions` to `chosen`, int64[n]."""
    for i in range(weights.shape[0]):
        total = 0
        highest = 0
        for action in range(weights.shape[1]):
            total += weights[i, action]
            highest = max(highest, weights[i, action])
        if not sample[i]:
            total = 0
            for action in range(weights.shape[1]):
                total += weights[i, action] == highest
        drawn = streams.random_below(streams.random_bits(keys[i], 0), total)
        for action in range(weights.shape[1]):
            if sample[i]:
                drawn -= weights[i, action]
            elif weights[i, action] == highest:
                drawn -= 1
            if drawn < 0:
                chosen[i] = action
                break


class SearchResult(NamedTuple):
    """Root statistics of one tree; values, for the side to move, exclude `search.draw_value`."""

    visits: NDArray[np.int32]  # [actions] N(s, a)
    action_values: NDArray[np.float32]  # [actions] Q(s, a) without draws, 0 where unvisited
    priors: NDArray[np.float32]  # [actions] P(s, a), root noise included; 0 where illegal
    root_value: float
    """P(win) - P(loss): mean of all values backed up to the root."""
    principal_variation: tuple[int, ...]
    """The action chosen by the root rule, followed by the most visited action at each node."""

    @property
    def policy(self) -> NDArray[np.float64]:
        """Shares of the visits, float64[actions]; all zero before the first visit."""
        shares: NDArray[np.float64] = self.visits / max(1, int(self.visits.sum()))
        return shares

    @property
    def best_action(self) -> int:
        """First action of the principal variation."""
        line = self.principal_variation
        return line[0] if line else int(self.visits.argmax())


def principal_variation(tree: TreeArrays, b: int, chosen: int | None = None) -> tuple[int, ...]:
    """Return the line of most visited actions from the root of tree `b`.

    The line ends at the first node without visited children. Ties go to the lowest action number.
    Proven results take precedence over visit counts. `chosen` overrides the first action.
    """
    line: list[int] = []
    node = 0
    while (first := int(tree.first_child[b, node])) != 0:
        preferences = _preferences(tree, b, node)
        if node == 0 and chosen is not None:
            preferences = tree.action[b, first : first + len(preferences)] == chosen
        if not preferences.any():
            break
        node = first + int(preferences.argmax())
        line.append(int(tree.action[b, node]))
    return tuple(line)


def _preferences(tree: TreeArrays, b: int, node: int) -> NDArray[Any]:
    """Return how strongly each child of an expanded node is preferred, by proofs or visits."""
    first = tree.first_child[b, node]
    children = slice(first, first + tree.child_count[b, node])
    visits = tree.visits[b, children]
    if not isinstance(tree.solver, MctsSolver):
        return visits
    proven, result = tree.proven_result[b, children], tree.proven_result[b, node]
    if result in (WIN, LOSS):
        return (proven == -result) & (
            tree.proven_distance[b, children] == tree.proven_distance[b, node] - 1
        )
    return np.where(proven == WIN, 0, visits)


class ChildStatistics(NamedTuple):
    """Statistics of an action at a node, from the point of view of the side to move there."""

    action: int
    visits: int
    """N(s, a)."""
    prior: float
    """P(s, a)."""
    value: float
    """Q(s, a), in [-1, 1], including `search.draw_value` * P(draw); 0 where unvisited."""
    bonus: float
    """Score of the selection rule minus Q; includes first-play urgency for unvisited actions."""
    outcome: int | None
    """Result for the side to move if the action ends the game, otherwise None."""


class NodeStatistics(NamedTuple):
    """Statistics of a tree node, from the point of view of the side to move there."""

    visits: int
    value: float
    """V(s), in [-1, 1], including `search.draw_value` * P(draw); 0 before a visit."""
    children: tuple[ChildStatistics, ...]
    """Children in descending order of visit counts; empty until the node is expanded."""


def node_statistics(
    methods: SearchMethods, tree: TreeArrays, b: int, path: Sequence[int]
) -> NodeStatistics | None:
    """Return the node of tree `b` reached by a path of actions from the root.

    Returns None if the search has not visited that node yet.
    """
    node = 0
    for action in path:
        matches = [child for child in _children(tree, b, node) if tree.action[b, child] == action]
        if not matches:
            return None
        node = matches[0]
    if tree.visits[b, node] == 0 and node:
        return None
    children = _children(tree, b, node)
    values, scores = np.zeros((2, len(children)), np.float32)
    if len(children):
        _write_children(methods, tree, b, node, values, scores)
    statistics = [
        _child_statistics(tree, b, child, float(value), float(child_score))
        for child, value, child_score in zip(children, values, scores, strict=True)
    ]
    statistics.sort(key=lambda child: (-child.visits, -child.prior))
    visits = int(tree.visits[b, node])
    mean = float(node_value(tree.utility, tree, b, node)) if visits else 0.0
    return NodeStatistics(visits, mean, tuple(statistics))


def _children(tree: TreeArrays, b: int, node: int) -> range:
    first = int(tree.first_child[b, node])
    return range(first, first + int(tree.child_count[b, node])) if first else range(0)


def _child_statistics(
    tree: TreeArrays, b: int, child: int, value: float, child_score: float
) -> ChildStatistics:
    visits, outcome = int(tree.visits[b, child]), int(tree.outcome[b, child])
    return ChildStatistics(
        int(tree.action[b, child]),
        visits,
        float(tree.prior[b, child]),
        value,
        child_score - value,
        None if outcome in (UNSEEN_OUTCOME, ONGOING) else -outcome,
    )


@kernel
def _write_children(methods, tree, b, node, values, scores):
    """Write Q values and selection scores of a node's children, each float32[children]."""
    shared = shared_score_terms(methods.selection, methods.fpu, tree, b, node)
    first = tree.first_child[b, node]
    for i in range(values.shape[0]):
        child = first + i
        if tree.visits[b, child] > 0:
            values[i] = action_value(tree.utility, tree, b, child)
        scores[i] = selection_score(methods.selection, tree, b, child, shared)
