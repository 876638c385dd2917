"""Virtual loss [Chaslot2008]: several leaves per tree and step.

With one leaf per step, each simulation uses the results of all earlier ones, and the batch size
equals the number of trees. A single large search needs several leaves per step to fill a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import ONGOING
from zerolab.search.mcts_solver import is_open
from zerolab.search.values import add_to_mean, backup_value_of, replace_in_mean

VIRTUAL_LOSSES = CompiledInterface("virtual loss rule")


class NoVirtualLoss(NamedTuple):
    """One leaf per step: a tree waits as soon as it has a waiting leaf."""


class VirtualLoss(NamedTuple):
    """Virtual loss [Chaslot2008, Section 4.4; Segal2010].

    While a leaf is waiting for its evaluation, its simulation counts as a loss at every node on its
    path, for the player who moved there, so the next simulations prefer other paths. The backup
    replaces the loss with the leaf's value. Once no leaf is waiting, visits and means contain only
    real results. A simulation that ends at a waiting leaf is abandoned, which ends the tree's turn.

    leaves: maximum number of waiting leaves.
    """

    leaves: int


@VIRTUAL_LOSSES.function
def max_leaves(virtual_loss: Any) -> int:
    """Return the maximum number of waiting leaves per tree."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def simulations_to_begin(virtual_loss: Any, search: Any, b: int) -> int:
    """Return the number of simulations that a tree has yet to begin."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def is_waiting(virtual_loss: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a leaf is already waiting for an evaluation."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def start_waiting(virtual_loss: Any, tree: Any, search: Any, b: int, leaf: int) -> bool:
    """Mark a leaf as waiting; return whether its tree can begin another simulation."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def count_visit(
    virtual_loss: Any, tree: Any, b: int, node: int, backup_value: Any, waited: bool
) -> None:
    """Add a backup value to a node, and count the visit unless the leaf has been waiting."""
    raise AssertionError


@inlined
def _visit(tree, b, node, backup_value):
    visits = tree.visits[b, node] + 1
    tree.visits[b, node] = visits
    add_to_mean(tree.utility, tree, b, node, backup_value, visits)


@inlined
def _virtual(tree, node):
    """Return the temporary value at a node: a win for the side to move, and 0 at the root.

    No player moved to the root, so it has no loser.
    """
    return backup_value_of(tree.utility, 1.0 if node > 0 else 0.0, 0.0)


class _NoVirtualLossRule:
    @staticmethod
    def max_leaves(virtual_loss):
        return 1

    @staticmethod
    def simulations_to_begin(virtual_loss, search, b):
        return search.remaining[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        return False

    @staticmethod
    def start_waiting(virtual_loss, tree, search, b, leaf):
        search.waiting[b] = 1
        return False

    @staticmethod
    def count_visit(virtual_loss, tree, b, node, backup_value, waited):
        _visit(tree, b, node, backup_value)


class _VirtualLossRule:
    @staticmethod
    def max_leaves(virtual_loss):
        return virtual_loss.leaves

    @staticmethod
    def simulations_to_begin(virtual_loss, search, b):
        return search.remaining[b] - search.waiting[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        # Simulations expand the ongoing leaves that they visit, unless the leaf is waiting.
        is_leaf = tree.first_child[b, node] == 0 and tree.outcome[b, node] == ONGOING
        return is_leaf and tree.visits[b, node] > 0 and is_open(tree.solver, tree, b, node)

    @staticmethod
    def start_waiting(virtual_loss, tree, search, b, leaf):
        node = leaf
        while node >= 0:
            _visit(tree, b, node, _virtual(tree, node))
            node = tree.parent[b, node]
        search.waiting[b] += 1
        return search.waiting[b] < min(virtual_loss.leaves, search.remaining[b])

    @staticmethod
    def count_visit(virtual_loss, tree, b, node, backup_value, waited):
        if not waited:
            _visit(tree, b, node, backup_value)
        elif is_open(tree.solver, tree, b, node):
            visits = tree.visits[b, node]
            replace_in_mean(tree.utility, tree, b, node, _virtual(tree, node), backup_value, visits)


VIRTUAL_LOSSES.implement(NoVirtualLoss, _NoVirtualLossRule)
VIRTUAL_LOSSES.implement(VirtualLoss, _VirtualLossRule)
