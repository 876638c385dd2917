"""Search results: root statistics, the principal variation and views of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.rules.rules import LOSS, ONGOING, WIN
from zerolab.search.mcts_solver import MctsSolver
from zerolab.search.methods import SearchMethods, selection_score, shared_score_terms
from zerolab.search.tree import UNSEEN, TreeArrays
from zerolab.search.values import action_value


class SearchResult(NamedTuple):
    """Root statistics of one tree; values are in [-1, 1], for the side to move."""

    visits: NDArray[np.int32]  # [actions] N(s, a)
    action_values: NDArray[np.float32]  # [actions] Q(s, a), 0 where unvisited
    priors: NDArray[np.float32]  # [actions] P(s, a), root noise included; 0 where illegal
    root_value: float
    """V(s): mean of all values backed up to the root."""
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
    """Return the preference for each child of an expanded node, from proofs or visit counts."""
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


class ChildView(NamedTuple):
    """Statistics of an action at a node, from the point of view of the side to move there."""

    action: int
    visits: int
    """N(s, a)."""
    prior: float
    """P(s, a)."""
    value: float
    """Q(s, a), in [-1, 1]; 0 where unvisited."""
    bonus: float
    """Score of the selection rule minus Q; includes first-play urgency for unvisited actions."""
    outcome: int | None
    """Result for the side to move if the action ends the game, otherwise None."""


class NodeView(NamedTuple):
    """Statistics of a tree node, from the point of view of the side to move there."""

    visits: int
    value: float
    children: tuple[ChildView, ...]
    """Sorted by visit count in descending order; empty until the node is expanded."""


def node_view(
    methods: SearchMethods, tree: TreeArrays, b: int, path: Sequence[int]
) -> NodeView | None:
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
    views = [
        _child_view(tree, b, child, float(value), float(child_score))
        for child, value, child_score in zip(children, values, scores, strict=True)
    ]
    views.sort(key=lambda view: (-view.visits, -view.prior))
    return NodeView(int(tree.visits[b, node]), float(tree.value[b, node]), tuple(views))


def _children(tree: TreeArrays, b: int, node: int) -> range:
    first = int(tree.first_child[b, node])
    return range(first, first + int(tree.child_count[b, node])) if first else range(0)


def _child_view(
    tree: TreeArrays, b: int, child: int, value: float, child_score: float
) -> ChildView:
    visits, outcome = int(tree.visits[b, child]), int(tree.outcome[b, child])
    return ChildView(
        int(tree.action[b, child]),
        visits,
        float(tree.prior[b, child]),
        value,
        child_score - value,
        None if outcome in (UNSEEN, ONGOING) else -outcome,
    )


@kernel
def _write_children(methods, tree, b, node, values, scores):
    """Write Q values and selection scores of a node's children, float32[children] each."""
    shared = shared_score_terms(methods.selection, methods.fpu, tree, b, node)
    first = tree.first_child[b, node]
    for i in range(values.shape[0]):
        child = first + i
        if tree.visits[b, child] > 0:
            values[i] = action_value(tree.utility, tree, b, child)
        scores[i] = selection_score(methods.selection, tree, b, child, shared)
