"""Looking into a tree: what the search knows of a node, for people who want to see why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.core.compiled import kernel
from zerolab.rules.interface import ONGOING
from zerolab.search.interface import prepare, score
from zerolab.search.state import Methods
from zerolab.search.tree import UNSEEN, Tree
from zerolab.search.utility import action_value


class ChildView(NamedTuple):
    """An action at a node, as its selection rule sees it; values are the node's mover's."""

    action: int
    visits: int
    """N(s, a)."""
    prior: float
    """P(s, a)."""
    value: float
    """Q(s, a), in [-1, 1]; 0 where unvisited."""
    bonus: float
    """U(s, a): by how much the rule's score is higher than Q. Of unvisited actions it includes what
    first-play urgency takes their value for."""
    outcome: int | None
    """The result for the node's mover, where the action ends the game."""


class NodeView(NamedTuple):
    """A node of a tree; its value is that of the player to move there."""

    visits: int
    value: float
    children: tuple[ChildView, ...]
    """The most visited first; none before the node is expanded."""


def node_view(methods: Methods, tree: Tree, b: int, path: Sequence[int]) -> NodeView | None:
    """Return the node of tree `b` to which actions lead from the root.

    None where the search has not been there yet.
    """
    node = 0
    for action in path:
        found = [child for child in _children(tree, b, node) if tree.action[b, child] == action]
        if not found:
            return None
        node = found[0]
    if tree.visits[b, node] == 0 and node:
        return None
    children = _children(tree, b, node)
    values, scores = np.zeros((2, len(children)), np.float32)
    if len(children):
        _write_children(methods, tree, b, node, values, scores)
    views = [
        _child_view(tree, b, child, float(value), float(total))
        for child, value, total in zip(children, values, scores, strict=True)
    ]
    views.sort(key=lambda view: (-view.visits, -view.prior))
    return NodeView(int(tree.visits[b, node]), float(tree.value[b, node]), tuple(views))


def _children(tree: Tree, b: int, node: int) -> range:
    first = int(tree.first_child[b, node])
    return range(first, first + int(tree.children[b, node])) if first else range(0)


def _child_view(tree: Tree, b: int, child: int, value: float, total: float) -> ChildView:
    visits, outcome = int(tree.visits[b, child]), int(tree.outcome[b, child])
    return ChildView(
        int(tree.action[b, child]),
        visits,
        float(tree.prior[b, child]),
        value,
        total - value,
        None if outcome in (UNSEEN, ONGOING) else -outcome,
    )


@kernel
def _write_children(methods, tree, b, node, values, scores):
    """Write Q and the selection rule's score of a node's children, float32[children] each."""
    shared = prepare(methods.selection, methods.fpu, tree, b, node)
    first = tree.first_child[b, node]
    for i in range(values.shape[0]):
        child = first + i
        if tree.visits[b, child] > 0:
            values[i] = action_value(tree.utility, tree, b, child)
        scores[i] = score(methods.selection, tree, b, child, shared)
